export function ParquetViewer() {
  return null;
}
