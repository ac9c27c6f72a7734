/** The choice of one of many names: users, groups, policies. */
import { useState } from "preact/hooks";
import { useLoad } from "../api/load";
import { Dialog } from "./dialog";
import { Show } from "./states";
import { visible } from "./text";

export function NamePicker(props: {
  readonly title: string;
  /** What is listed: "users", "groups" or "policies". */
  readonly kind: string;
  /** Names that are chosen already. */
  readonly without: readonly string[];
  list(prefix: string, signal: AbortSignal): Promise<readonly string[]>;
  onPick(name: string): void;
  onClose(): void;
}) {
  const { title, kind, without, list, onPick, onClose } = props;
  const [prefix, setPrefix] = useState("");
  const found = useLoad(`names ${kind} ${prefix}`, (signal) => list(prefix, signal));
  const left = (names: readonly string[]) => names.filter((name) => !without.includes(name));
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="choices">
        <input
          type="search"
          data-focus
          aria-label="Prefix of the name"
          placeholder="Prefix of the name"
          value={prefix}
          onInput={(event) => setPrefix(event.currentTarget.value.trim())}
          onKeyDown={(event) => {
            const [first] = left(found.data ?? []);
            if (event.key === "Enter" && first) onPick(first);
          }}
        />
        <Show of={found} rows={4}>
          {(names) =>
            left(names).length ? (
              <>
                {left(names).map((name) => (
                  <button type="button" class="choice" key={name} onClick={() => onPick(name)}>
                    {visible(name)}
                  </button>
                ))}
              </>
            ) : (
              <p class="faint">No other name begins so.</p>
            )
          }
        </Show>
      </div>
    </Dialog>
  );
}
