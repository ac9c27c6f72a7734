/** Which columns of a table are shown: all, or those that the URL names. */
import { change, query } from "../app/router";
import { Icon } from "../parts/icons";
import { visible } from "../parts/text";

const LISTED = 500;

/** Names of columns as one value of a URL: with commas between; a comma alone: none. */
export const writeNames = (names: readonly string[]): string =>
  names.map(encodeURIComponent).join(",") || ",";

/** The names that such a value holds; undefined: it is absent, or no page wrote it. */
export function readNames(text: string | null): string[] | undefined {
  if (!text) return undefined;
  try {
    return text.split(",").filter(Boolean).map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

/** The columns that `cols` of the URL names; all, if it names none of them. */
export function chosenColumns(all: readonly string[]): readonly string[] {
  const asked = new Set(readNames(query.value.get("cols")));
  const found = all.filter((name) => asked.has(name));
  return found.length ? found : all;
}

export function ColumnPicker({ of }: { of: readonly string[] }) {
  const chosen = new Set(chosenColumns(of));
  const toggled = (name: string) =>
    of.filter((each) => (each === name ? !chosen.has(each) : chosen.has(each)));
  const choose = (names: readonly string[]) => {
    const isAll = names.length === of.length || names.length === 0;
    change({ cols: isAll ? "" : writeNames(names) });
  };
  return (
    <details class="menu key-picker">
      <summary class="button">
        <span>
          {chosen.size < of.length ? `${chosen.size} of ${of.length} columns` : "Columns"}
        </span>
        <Icon name="down" />
      </summary>
      <fieldset class="menu-list">
        <legend class="hidden">Columns that are shown</legend>
        {of.slice(0, LISTED).map((name, at) => (
          <label key={`${at} ${name}`} class="check">
            <input
              type="checkbox"
              checked={chosen.has(name)}
              onChange={() => choose(toggled(name))}
            />
            <span>{visible(name)}</span>
          </label>
        ))}
        {chosen.size < of.length && (
          <button type="button" onClick={() => change({ cols: "" })}>
            All columns
          </button>
        )}
      </fieldset>
    </details>
  );
}
