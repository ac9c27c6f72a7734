/** The commit graph as SVG, beside rows of one height. */
import type { Row } from "./lanes";

export const ROW = 40;
const STEP = 14;
const MOST = 12;
/** The first lane has its colour for itself; the others share five. */
const tone = (colour: number): number => (colour === 0 ? 0 : 1 + ((colour - 1) % 5));

const x = (lane: number): number => 12 + Math.min(lane, MOST) * STEP;

export function widthOf(rows: readonly Row[]): number {
  const most = rows.reduce(
    (max, row) => Math.max(max, row.lane, ...row.edges.map((edge) => Math.max(edge.from, edge.to))),
    0,
  );
  return x(most) + 10;
}

/** `rows` of a longer list, `top` pixels below its beginning. */
export function Graph({ rows, width, top }: { rows: readonly Row[]; width: number; top: number }) {
  return (
    <svg
      class="graph"
      width={width}
      height={rows.length * ROW}
      style={{ top: `${top}px` }}
      aria-hidden="true"
    >
      {rows.map((row, at) =>
        row.edges.map((edge) => (
          <path
            key={`${at} ${edge.from} ${edge.to} ${edge.colour}`}
            class={`lane lane-${tone(edge.colour)}`}
            d={line(edge.from, edge.to, at * ROW + ROW / 2)}
          />
        )),
      )}
      {rows.map((row, at) => (
        <circle
          key={at}
          class={`dot lane-${tone(row.colour)}`}
          cx={x(row.lane)}
          cy={at * ROW + ROW / 2}
          r="4.5"
        />
      ))}
    </svg>
  );
}

function line(from: number, to: number, y: number): string {
  const [left, right] = [x(from), x(to)];
  if (left === right) return `M${left} ${y}v${ROW}`;
  const half = ROW / 2;
  return `M${left} ${y}C${left} ${y + half} ${right} ${y + half} ${right} ${y + ROW}`;
}
