/** In place of `hysnappy`, which is WASM: the policy refuses it, and hyparquet has its own Snappy. */
export const snappyUncompressor = (): undefined => undefined;
export const snappyUncompress = snappyUncompressor;
