/**
 * The layout of a treemap: squarified, after Bruls, Huizing and van Wijk (2000).
 *
 * Rows fill the shorter side of what is left.  A row takes the next value while that makes its worst
 * tile less long.  The area of a tile is its share of all values; the order of values is kept.
 */
export interface Tile {
  readonly at: number;
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

/** The tiles of values, largest first, in a box; values that are not positive have none. */
export function treemap(values: readonly number[], width: number, height: number): Tile[] {
  const order = values
    .map((value, at) => ({ value, at }))
    .filter(({ value }) => value > 0)
    .sort((one, other) => other.value - one.value || one.at - other.at);
  const total = order.reduce((sum, { value }) => sum + value, 0);
  if (!total || width <= 0 || height <= 0) return [];
  const areas = order.map(({ value }) => (value * width * height) / total);
  const tiles: Tile[] = [];
  let box: Box = { left: 0, top: 0, width, height };
  for (let begin = 0; begin < areas.length; ) {
    const end = rowEnd(areas, begin, Math.min(box.width, box.height));
    const row = placed(areas.slice(begin, end), box);
    for (const [at, tile] of row.tiles.entries()) {
      tiles.push({ ...tile, at: order[begin + at]?.at ?? 0 });
    }
    box = row.rest;
    begin = end;
  }
  return tiles;
}

type Box = Omit<Tile, "at">;

/** The end of the row that begins with an area. */
function rowEnd(areas: readonly number[], begin: number, side: number): number {
  const largest = areas[begin] ?? 0;
  let sum = largest;
  let best = worst(largest, largest, sum, side);
  let end = begin + 1;
  for (; end < areas.length; end += 1) {
    const next = areas[end] ?? 0;
    const longest = worst(largest, next, sum + next, side);
    if (longest > best) break;
    sum += next;
    best = longest;
  }
  return end;
}

/** The tiles of a row along the shorter side of a box, and what is left of the box. */
function placed(row: readonly number[], box: Box): { tiles: Box[]; rest: Box } {
  const { left, top, width, height } = box;
  const isColumn = width >= height;
  const depth = row.reduce((sum, area) => sum + area, 0) / Math.min(width, height);
  let along = 0;
  const tiles = row.map((area) => {
    const length = area / depth;
    const begin = along;
    along += length;
    return isColumn
      ? { left, top: top + begin, width: depth, height: length }
      : { left: left + begin, top, width: length, height: depth };
  });
  const rest = isColumn
    ? { left: left + depth, top, width: Math.max(0, width - depth), height }
    : { left, top: top + depth, width, height: Math.max(0, height - depth) };
  return { tiles, rest };
}

/** How long the longest tile of a row is: 1 is a square. */
function worst(largest: number, smallest: number, sum: number, side: number): number {
  const square = side * side;
  return Math.max((square * largest) / (sum * sum), (sum * sum) / (square * smallest));
}
