/** Rows and columns of a file. */
import { visible } from "../parts/text";

/** A browser needs seconds for the cells of more. */
const COLUMNS_MAX = 200;

export function DataTable(props: {
  readonly label: string;
  readonly columns: readonly string[];
  readonly rows: ReadonlyArray<readonly unknown[]>;
  readonly first?: number;
}) {
  const { rows, first = 1 } = props;
  const columns = props.columns.slice(0, COLUMNS_MAX);
  const more = props.columns.length - columns.length;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.label}>
      {more > 0 && (
        <p class="faint more-note">
          The first {COLUMNS_MAX} of {props.columns.length.toLocaleString("en")} columns are shown.
        </p>
      )}
      <table class="data">
        <thead>
          <tr>
            <th scope="col" class="number">
              <span class="hidden">Row</span>
            </th>
            {columns.map((column, at) => (
              <th key={`${at} ${column}`} scope="col">
                {visible(column)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, number) => (
            <tr key={`${number}`}>
              <td class="number">{first + number}</td>
              {columns.map((column, at) => (
                <Cell key={`${at} ${column}`} of={row[at]} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const LENGTH = 300;

/** JSON knows no larger integers than 2^53. */
function plain(value: bigint): number | string {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}

export function cellText(value: unknown): string {
  if (typeof value === "string") return value;
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) {
    return `0x${[...value.slice(0, 32)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  }
  if (typeof value === "object" && value !== null) {
    return JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? plain(inner) : inner));
  }
  return String(value);
}

function Cell({ of }: { of: unknown }) {
  if (of === null || of === undefined) return <td class="faint">null</td>;
  const text = cellText(of);
  const isNumber = typeof of === "number" || typeof of === "bigint";
  return (
    <td
      class={isNumber ? "right" : undefined}
      title={text.length > 60 ? visible(text.slice(0, 2000)) : undefined}
    >
      {visible(text.length > LENGTH ? `${text.slice(0, LENGTH)}…` : text)}
    </td>
  );
}
