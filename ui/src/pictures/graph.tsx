/** The commit graph as SVG, beside rows of one height. */
import type { Row } from "./lanes";

export const ROW = 40;
const STEP = 14;
/** Lanes beyond these are drawn in one. */
const LANES_MAX = 12;
const LANES_MAX_NARROW = 2;
/** The first lane has its colour for itself; the others share five. */
const tone = (colour: number): number => (colour === 0 ? 0 : 1 + ((colour - 1) % 5));

type Place = (lane: number) => number;

function placed(isNarrow: boolean): Place {
  const last = (isNarrow ? LANES_MAX_NARROW : LANES_MAX) - 1;
  return (lane) => 12 + Math.min(lane, last) * STEP;
}

export function widthOf(rows: readonly Row[], isNarrow: boolean): number {
  const most = rows.reduce(
    (max, row) => Math.max(max, row.lane, ...row.edges.map((edge) => Math.max(edge.from, edge.to))),
    0,
  );
  return placed(isNarrow)(most) + 10;
}

/** `rows` of a longer list, `top` pixels below its beginning. */
export function Graph(props: {
  readonly rows: readonly Row[];
  readonly width: number;
  readonly top: number;
  readonly isNarrow: boolean;
}) {
  const { rows, width, top } = props;
  const x = placed(props.isNarrow);
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
            d={line(x(edge.from), x(edge.to), at * ROW + ROW / 2)}
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

function line(left: number, right: number, y: number): string {
  if (left === right) return `M${left} ${y}v${ROW}`;
  const half = ROW / 2;
  return `M${left} ${y}C${left} ${y + half} ${right} ${y + half} ${right} ${y + ROW}`;
}
