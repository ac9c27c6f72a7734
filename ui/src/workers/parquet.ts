/**
 * Reads Parquet in a worker: the footer first, then pages of rows.
 *
 * The page reads the bytes and passes them in, because it knows how to reach the storage.  A file
 * that does not end within its time is killed with the worker; the page lives on.
 */
import {
  type AsyncBuffer,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
  type SchemaElement,
} from "hyparquet";
import { decoders } from "./decoders";

export interface Column {
  readonly name: string;
  readonly type: string;
  readonly codec: string;
  readonly bytes: number;
  readonly packed: number;
  readonly nulls: number | undefined;
  readonly min: unknown;
  readonly max: unknown;
}

export interface Summary {
  readonly rows: number;
  readonly groups: number;
  readonly writer: string;
  readonly columns: readonly Column[];
  readonly names: readonly string[];
}

/** How many values are in each of `bins` of equal width.  Times are in milliseconds. */
export interface Histogram {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly isTime: boolean;
  readonly bins: readonly number[];
}

export interface Sample {
  readonly rows: number;
  readonly groups: number;
  readonly histograms: readonly Histogram[];
}

const BINS = 10;

/** Values of a column from a number to before another one, or without an end. */
export interface Where {
  readonly name: string;
  readonly from: number;
  readonly to: number | undefined;
}

export type Request =
  | { readonly kind: "open"; readonly size: number }
  | {
      readonly kind: "rows";
      readonly start: number;
      readonly end: number;
      readonly names: readonly string[];
      /** Of those that match, the rows from `start` to before `end`. */
      readonly where?: Where | undefined;
    }
  | { readonly kind: "sample" }
  | {
      readonly kind: "bytes";
      readonly id: number;
      readonly bytes?: ArrayBuffer;
      readonly error?: string;
    };

export type Reply =
  | { readonly kind: "summary"; readonly summary: Summary }
  | {
      readonly kind: "rows";
      readonly start: number;
      readonly rows: unknown[][];
      readonly names: string[];
      /** Whether others follow. */
      readonly more: boolean;
    }
  | { readonly kind: "sample"; readonly sample: Sample }
  | { readonly kind: "read"; readonly id: number; readonly start: number; readonly end: number }
  | { readonly kind: "failed"; readonly error: string };

const waiting = new Map<number, { done(bytes: ArrayBuffer): void; failed(error: Error): void }>();
let count = 0;
let file: AsyncBuffer | undefined;
let metadata: FileMetaData | undefined;

const reply = (message: Reply): void => postMessage(message);

function bufferOf(byteLength: number): AsyncBuffer {
  return {
    byteLength,
    slice: (start, end = byteLength) =>
      new Promise((done, failed) => {
        count += 1;
        waiting.set(count, { done, failed });
        const from = start < 0 ? byteLength + start : start;
        reply({ kind: "read", id: count, start: from, end: Math.min(end, byteLength) });
      }),
  };
}

async function open(size: number): Promise<void> {
  file = bufferOf(size);
  metadata = await parquetMetadataAsync(file, { initialFetchSize: Math.min(size, 64 * 1024) });
  reply({ kind: "summary", summary: summaryOf(metadata) });
}

function summaryOf(meta: FileMetaData): Summary {
  const columns = new Map<string, Column>();
  const leaves = meta.schema.filter((element) => !element.num_children);
  for (const group of meta.row_groups) {
    for (const [at, { meta_data: chunk }] of group.columns.entries()) {
      if (!chunk) continue;
      const name = chunk.path_in_schema.join(".");
      columns.set(name, added(columns.get(name), name, typeOf(leaves[at], chunk.type), chunk));
    }
  }
  return {
    rows: Number(meta.num_rows),
    groups: meta.row_groups.length,
    writer: meta.created_by ?? "",
    columns: [...columns.values()],
    names: parquetSchema(meta).children.map((child) => child.element.name),
  };
}

type Chunk = NonNullable<FileMetaData["row_groups"][number]["columns"][number]["meta_data"]>;

const PLAIN: Record<string, string> = {
  UTF8: "string",
  BYTE_ARRAY: "binary",
  FIXED_LEN_BYTE_ARRAY: "binary of one length",
};

/** What a column holds, in the words of databases; else how it is stored. */
function typeOf(element: SchemaElement | undefined, stored: string): string {
  const logical = element?.logical_type;
  if (logical?.type === "DECIMAL") return `decimal(${logical.precision}, ${logical.scale})`;
  if (logical?.type === "INTEGER") return `${logical.isSigned ? "" : "u"}int${logical.bitWidth}`;
  if (logical?.type === "TIMESTAMP" || logical?.type === "TIME") {
    const zone = logical.isAdjustedToUTC ? ", UTC" : "";
    return `${logical.type.toLowerCase()} (${String(logical.unit).toLowerCase()}${zone})`;
  }
  const name = logical?.type ?? element?.converted_type ?? stored;
  return PLAIN[name] ?? name.toLowerCase();
}

function added(old: Column | undefined, name: string, type: string, chunk: Chunk): Column {
  const { statistics: known } = chunk;
  const nulls = known?.null_count === undefined ? undefined : Number(known.null_count);
  const min = known?.min_value ?? known?.min;
  const max = known?.max_value ?? known?.max;
  const less = (a: unknown, b: unknown) => (a as number) < (b as number);
  return {
    name,
    type,
    codec: chunk.codec,
    bytes: (old?.bytes ?? 0) + Number(chunk.total_uncompressed_size),
    packed: (old?.packed ?? 0) + Number(chunk.total_compressed_size),
    nulls: old ? sum(old.nulls, nulls) : nulls,
    min: old?.min !== undefined && min !== undefined && less(old.min, min) ? old.min : min,
    max: old?.max !== undefined && max !== undefined && less(max, old.max) ? old.max : max,
  };
}

function sum(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a + b;
}

async function read(start: number, end: number, names: readonly string[], where?: Where) {
  if (!file || !metadata) throw new Error("the file is not open");
  const isAll = names.length === parquetSchema(metadata).children.length;
  const { name = "", from, to } = where ?? {};
  const range = { $gte: from, ...(to !== undefined && { $lt: to }) };
  return parquetReadObjects({
    file,
    metadata,
    ...(!isAll && { columns: [...names] }),
    ...(where && { filter: { [name]: range } }),
    rowStart: start,
    rowEnd: end,
    compressors: await decoders(metadata),
    useOffsetIndex: true,
  });
}

async function rows(
  start: number,
  end: number,
  names: readonly string[],
  where: Where | undefined,
): Promise<void> {
  const count = Number(metadata?.num_rows ?? 0);
  const found = where ? await matching(end, names, where) : await read(start, end, names);
  const shown = where ? found.slice(start, end) : found;
  const cells = shown.map((row) => names.map((name) => row[name]));
  const more = where ? found.length > end : end < count;
  reply({ kind: "rows", start, rows: cells, names: [...names], more });
}

/** Rows that match, of one row group after the other, until there are more than so many. */
async function matching(most: number, names: readonly string[], where: Where) {
  let found: Awaited<ReturnType<typeof read>> = [];
  let begin = 0;
  for (const group of metadata?.row_groups ?? []) {
    if (found.length > most) break;
    const length = Number(group.num_rows);
    found = found.concat(await read(begin, begin + length, names, where));
    begin += length;
  }
  return found;
}

const GROUPS_MAX = 3;
const ROWS_MAX = 5_000; // of each of them
const COLUMNS_MAX = 50;

/** Histograms of the columns of numbers and times, of the beginnings of a few row groups. */
async function sample(): Promise<void> {
  const { row_groups: groups = [] } = metadata ?? {};
  const names = plainColumns().slice(0, COLUMNS_MAX);
  const values = new Map<string, Array<number | Date>>(names.map((name) => [name, []]));
  const chosen = spread(groups.length, GROUPS_MAX);
  let begin = 0;
  let count = 0;
  for (const [at, group] of groups.entries()) {
    const length = Number(group.num_rows);
    if (names.length && chosen.includes(at)) {
      const found = await read(begin, begin + Math.min(length, ROWS_MAX), names);
      count += found.length;
      for (const row of found) {
        for (const name of names) note(values.get(name), row[name]);
      }
    }
    begin += length;
  }
  const histograms = names.flatMap((name) => histogram(name, values.get(name) ?? []));
  reply({ kind: "sample", sample: { rows: count, groups: chosen.length, histograms } });
}

/** Columns of numbers and times, which are in no list and no group.  A filter takes a dot in a name
 * for a group. */
function plainColumns(): string[] {
  if (!metadata) return [];
  return parquetSchema(metadata)
    .children.filter(({ children, element }) => {
      const isText = element.type === "BYTE_ARRAY" || element.type === "BOOLEAN";
      const isPlain = !children.length && element.repetition_type !== "REPEATED";
      return isPlain && !isText && !element.name.includes(".");
    })
    .map(({ element }) => element.name);
}

/** The first, the last, and those between, at equal distances. */
function spread(count: number, most: number): number[] {
  if (count <= most) return Array.from({ length: count }, (_, at) => at);
  return Array.from({ length: most }, (_, at) => Math.round((at * (count - 1)) / (most - 1)));
}

function note(values: Array<number | Date> | undefined, value: unknown): void {
  if (value instanceof Date) values?.push(value);
  else if (typeof value === "number" || typeof value === "bigint") values?.push(Number(value));
}

function histogram(name: string, values: ReadonlyArray<number | Date>): Histogram[] {
  const finite = values.map(Number).filter(Number.isFinite);
  if (!finite.length) return [];
  const min = finite.reduce((one, other) => Math.min(one, other));
  const max = finite.reduce((one, other) => Math.max(one, other));
  const bins = new Array<number>(max > min ? BINS : 1).fill(0);
  for (const value of finite) {
    const at = max > min ? Math.floor(((value - min) / (max - min)) * BINS) : 0;
    const bin = Math.min(at, bins.length - 1);
    bins[bin] = (bins[bin] ?? 0) + 1;
  }
  return [{ name, min, max, isTime: values[0] instanceof Date, bins }];
}

function work(of: Exclude<Request, { kind: "bytes" }>): Promise<void> {
  if (of.kind === "open") return open(of.size);
  return of.kind === "rows" ? rows(of.start, of.end, of.names, of.where) : sample();
}

addEventListener("message", ({ data }: MessageEvent<Request>) => {
  if (data.kind === "bytes") {
    const each = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.bytes) each?.done(data.bytes);
    else each?.failed(new Error(data.error ?? "no bytes"));
    return;
  }
  work(data).catch((error: unknown) =>
    reply({ kind: "failed", error: error instanceof Error ? error.message : String(error) }),
  );
});
