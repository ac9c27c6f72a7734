/** Numbers, sizes and times as text. */
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function size(bytes: number | undefined): string {
  if (bytes === undefined) return "";
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

export function count(value: number, one: string, many = `${one}s`): string {
  return `${value.toLocaleString("en")} ${value === 1 ? one : many}`;
}

const STEPS: Array<[number, Intl.RelativeTimeFormatUnit]> = [
  [60, "second"],
  [3_600, "minute"],
  [86_400, "hour"],
  [2_592_000, "day"],
  [31_536_000, "month"],
  [Number.POSITIVE_INFINITY, "year"],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** "3 hours ago" for a time in seconds. */
export function ago(seconds: number, now = Date.now() / 1000): string {
  const past = Math.max(0, now - seconds);
  if (past < 60) return "just now";
  let below = 1;
  for (const [limit, unit] of STEPS) {
    if (past < limit) return relative.format(-Math.round(past / below), unit);
    below = limit;
  }
  return "";
}

export function exact(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19).concat(" UTC");
}

/** Characters that change how the text around them is shown become visible. */
export function visible(text: string): string {
  return text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must be shown
    /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

export const short = (id: string): string => id.slice(0, 10);

export function lastName(path: string): string {
  const trimmed = path.endsWith("/") ? path.slice(0, -1) : path;
  return path.slice(trimmed.lastIndexOf("/") + 1);
}

export function parentOf(path: string): string {
  const trimmed = path.endsWith("/") ? path.slice(0, -1) : path;
  return path.slice(0, trimmed.lastIndexOf("/") + 1);
}

export function firstLine(message: string): string {
  return message.split("\n", 1)[0] || "(no message)";
}

/** A text as one word of a shell. */
export function shell(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
