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

/** Two digits, however small: $0.0000035. */
export function dollars(value: number): string {
  return `$${value.toLocaleString("en", { maximumSignificantDigits: 2 })}`;
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

/** Controls, what turns the text around, what has no width, and halves of characters. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]|\u034f|\u17b4|\u17b5/gu;

/** Such a character in the notation of JavaScript. */
function escaped(char: string): string {
  const code = char.codePointAt(0)?.toString(16) ?? "";
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
}

/** Characters that nobody sees, or that change how the text around them is shown, become visible. */
export function visible(text: string): string {
  return text.replace(UNSEEN, escaped);
}

/** The same in the notation of Python and of `$'…'`, which programs read. */
export function forPrograms(text: string): string {
  return text.replace(UNSEEN, (char) => {
    const code = char.codePointAt(0) ?? 0;
    const [letter, digits] = code < 0x80 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return `\\${letter}${code.toString(16).padStart(digits as number, "0")}`;
  });
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

/** A text as one word of a shell.  What nobody sees is escaped: a control character would act on the
 * terminal that the word is pasted into. */
export function shell(text: string): string {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  if (text.search(UNSEEN) < 0) return `'${text.replaceAll("'", "'\\''")}'`;
  return `$'${forPrograms(text.replace(/['\\]/g, "\\$&"))}'`;
}

/** A command: each value is quoted as a part of its word. */
export function sh(parts: TemplateStringsArray, ...values: readonly string[]): string {
  return parts.map((part, at) => part + (values[at] ? shell(values[at]) : "")).join("");
}
