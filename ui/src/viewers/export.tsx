/** Rows that are shown, as a CSV file. */
import { Button } from "../parts/button";
import { lastName } from "../parts/text";
import { cellText } from "./table";

export interface ExportProps {
  /** The path of the file that the rows are of. */
  readonly path: string;
  readonly columns: readonly string[];
  readonly rows: ReadonlyArray<readonly unknown[]>;
}

export function Export({ path, columns, rows }: ExportProps) {
  const save = () => {
    const content = [columns, ...rows.map((row) => columns.map((_, at) => row[at]))];
    const text = content.map((row) => row.map(field).join(",")).join("\r\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${text}\r\n`], { type: "text/csv" }));
    link.download = `${lastName(path).replace(/\.[^.]+$/, "")}-rows.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return (
    <Button icon="download" onClick={save}>
      These rows as CSV
    </Button>
  );
}

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;

/** A value as a field.  A spreadsheet takes a text that begins with such a sign for a formula, so it
 * gets a quotation mark before it; numbers stay. */
function field(value: unknown): string {
  if (value === null || value === undefined) return "";
  const text = cellText(value);
  const isFormula = /^[=+\-@\t\r]/.test(text) && !NUMBER.test(text);
  const safe = isFormula ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
