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

export type Request =
  | { readonly kind: "open"; readonly size: number }
  | { readonly kind: "rows"; readonly start: number; readonly end: number }
  | {
      readonly kind: "bytes";
      readonly id: number;
      readonly bytes?: ArrayBuffer;
      readonly error?: string;
    };

export type Reply =
  | { readonly kind: "summary"; readonly summary: Summary }
  | { readonly kind: "rows"; readonly start: number; readonly rows: unknown[][] }
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

async function rows(start: number, end: number): Promise<void> {
  if (!file || !metadata) return;
  const names = parquetSchema(metadata).children.map((child) => child.element.name);
  const found = await parquetReadObjects({
    file,
    metadata,
    rowStart: start,
    rowEnd: end,
    compressors: await decoders(metadata),
    useOffsetIndex: true,
  });
  reply({ kind: "rows", start, rows: found.map((row) => names.map((name) => row[name])) });
}

addEventListener("message", ({ data }: MessageEvent<Request>) => {
  if (data.kind === "bytes") {
    const each = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.bytes) each?.done(data.bytes);
    else each?.failed(new Error(data.error ?? "no bytes"));
    return;
  }
  const work = data.kind === "open" ? open(data.size) : rows(data.start, data.end);
  work.catch((error: unknown) =>
    reply({ kind: "failed", error: error instanceof Error ? error.message : String(error) }),
  );
});
