import type { Compressors, FileMetaData } from "hyparquet";

/**
 * The decoders beside that of Snappy, which is in hyparquet itself; loaded if a column needs one.
 * The package's own Snappy is WASM, which the policy refuses.
 */
export async function decoders(meta: FileMetaData): Promise<Compressors> {
  const codecs = meta.row_groups.flatMap((group) =>
    group.columns.map((column) => column.meta_data?.codec ?? "UNCOMPRESSED"),
  );
  if (codecs.every((codec) => codec === "SNAPPY" || codec === "UNCOMPRESSED")) return {};
  const { compressors } = await import("hyparquet-compressors");
  const { SNAPPY: _, ...others } = compressors;
  // A page of nothing but nulls has no bytes; the decoder of LZ4 fails on it.
  return Object.fromEntries(
    Object.entries(others).map(([name, decode]) => [
      name,
      (input: Uint8Array, length: number) => (length ? decode(input, length) : new Uint8Array()),
    ]),
  );
}
