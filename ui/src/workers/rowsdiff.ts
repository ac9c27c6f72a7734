/**
 * Reads two versions of a table and compares them, in a worker that the page kills after a time.
 *
 * The versions stay in memory, so that another key needs no second read.
 */
import { parquetMetadataAsync, parquetReadObjects, parquetSchema } from "hyparquet";
import { parse } from "papaparse";
import { compareTables, distinct, type Table, type TableDiff, textOf } from "../viewers/tablediff";
import { decoders } from "./decoders";

export type Format = "csv" | "tsv" | "parquet";

export type Request =
  | {
      readonly kind: "open";
      readonly format: Format;
      readonly versions: readonly [ArrayBuffer, ArrayBuffer];
      readonly key: readonly string[] | undefined;
    }
  | { readonly kind: "compare"; readonly key: readonly string[] | undefined };

export type Reply =
  | { readonly kind: "compared"; readonly diff: TableDiff }
  | { readonly kind: "too large"; readonly reason: string }
  | { readonly kind: "failed"; readonly error: string };

/** More rows of one version are not compared. */
const ROWS_MAX = 500_000;
/** Nor pages that decompress to more: a small file can hold very much. */
const PLAIN_MAX = 256 * 1024 * 1024;
/** Rows of each kind that the page gets. */
const SHOWN_MAX = 1_000;

class TooLarge extends Error {}

const TOO_MANY = `a version has more than ${ROWS_MAX.toLocaleString("en")} rows`;
let tables: readonly [Table, Table] | undefined;

function ofCsv(bytes: ArrayBuffer, delimiter: string): Table {
  const text = new TextDecoder().decode(bytes);
  const [header = [], ...rows] = parse<string[]>(text, {
    skipEmptyLines: true,
    delimiter,
    preview: ROWS_MAX + 2, // the header, and one too many
  }).data;
  if (rows.length > ROWS_MAX) throw new TooLarge(TOO_MANY);
  return { columns: distinct(header).map((name) => ({ name, type: "text" })), rows };
}

async function ofParquet(bytes: ArrayBuffer): Promise<Table> {
  const file = {
    byteLength: bytes.byteLength,
    slice: (a: number, b?: number) => bytes.slice(a, b),
  };
  const metadata = await parquetMetadataAsync(file);
  if (metadata.num_rows > ROWS_MAX) throw new TooLarge(TOO_MANY);
  const plain = metadata.row_groups.reduce((sum, group) => sum + Number(group.total_byte_size), 0);
  if (plain > PLAIN_MAX) throw new TooLarge("a version decompresses to more than 256 MiB");
  const columns = parquetSchema(metadata).children.map(({ element, children }) => ({
    name: element.name,
    type: [element.type ?? (children.length ? "group" : ""), element.converted_type]
      .filter(Boolean)
      .join(" "),
  }));
  const compressors = await decoders(metadata);
  const rows = await parquetReadObjects({ file, metadata, compressors });
  return { columns, rows: rows.map((row) => columns.map(({ name }) => textOf(row[name]))) };
}

async function work(request: Request): Promise<Reply> {
  if (request.kind === "open") {
    const read = async (bytes: ArrayBuffer) =>
      request.format === "parquet"
        ? ofParquet(bytes)
        : ofCsv(bytes, request.format === "tsv" ? "\t" : "");
    tables = [await read(request.versions[0]), await read(request.versions[1])];
  }
  if (!tables) throw new Error("no versions are open");
  return { kind: "compared", diff: compareTables(...tables, request.key, SHOWN_MAX) };
}

addEventListener("message", ({ data }: MessageEvent<Request>) => {
  work(data)
    .catch((error: unknown): Reply => {
      if (error instanceof TooLarge) return { kind: "too large", reason: error.message };
      return { kind: "failed", error: error instanceof Error ? error.message : String(error) };
    })
    .then((reply) => postMessage(reply));
});
