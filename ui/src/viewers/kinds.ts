/** Which viewer shows a file: by its name, else by its content type. */
export type Kind = "text" | "json" | "csv" | "image" | "markdown" | "notebook" | "parquet" | "none";

const BY_NAME: Record<string, Kind> = {
  csv: "csv",
  tsv: "csv",
  json: "json",
  geojson: "json",
  md: "markdown",
  markdown: "markdown",
  ipynb: "notebook",
  parquet: "parquet",
  png: "image",
  jpg: "image",
  jpeg: "image",
  gif: "image",
  webp: "image",
  avif: "image",
  svg: "image",
};
const TEXTS =
  /^(txt|log|jsonl|ndjson|yaml|yml|toml|ini|cfg|conf|xml|html?|css|js|ts|tsx|py|sql|sh|rs|go|java|c|h|cpp|scala|r|properties|env|gitignore)$/;

export function kindOf(path: string, type = ""): Kind {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  const ending = name.slice(name.lastIndexOf(".") + 1);
  const known = BY_NAME[ending];
  if (known) return known;
  if (TEXTS.test(ending) || /^(readme|licen[cs]e|makefile|dockerfile)$/.test(name)) return "text";
  if (type.startsWith("image/")) return "image";
  if (type.startsWith("text/csv")) return "csv";
  if (type === "application/json") return "json";
  if (type.startsWith("text/")) return "text";
  return "none";
}

/** Whether a file has a view of its text beside that of its kind. */
export function isTextBeneath(kind: Kind, path: string): boolean {
  if (kind === "image") return path.toLowerCase().endsWith(".svg");
  return ["json", "csv", "markdown", "notebook"].includes(kind);
}
