/** JSON as a tree. */
import { useState } from "preact/hooks";
import { visible } from "../parts/text";
import { Lines } from "./text";
import { type ViewerProps, WithText } from "./viewer";

const MOST = 2 * 1024 * 1024;
const CHILDREN = 100;

export function JsonViewer(props: ViewerProps) {
  return (
    <WithText of={props} most={MOST}>
      {(text) => {
        try {
          return (
            <div class="json">
              <Value of={JSON.parse(text)} depth={0} />
            </div>
          );
        } catch (error) {
          return (
            <>
              <p class="note">This is no JSON: {visible(String((error as Error).message))}</p>
              <Lines text={text} />
            </>
          );
        }
      }}
    </WithText>
  );
}

function Value({ name, of, depth }: { name?: string; of: unknown; depth: number }) {
  const [open, setOpen] = useState(depth < 2);
  const [most, setMost] = useState(CHILDREN);
  const label = name !== undefined && <span class="json-name">{visible(name)}: </span>;
  if (of === null || typeof of !== "object") {
    return (
      <div>
        {label}
        <span class={`json-${of === null ? "null" : typeof of}`}>
          {visible(JSON.stringify(of))}
        </span>
      </div>
    );
  }
  const entries = Object.entries(of);
  const [left, right] = Array.isArray(of) ? "[]" : "{}";
  return (
    <div>
      <button type="button" class="json-fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span aria-hidden="true">{open ? "▾" : "▸"}</span> {label}
        {left}
        <span class="faint">{open ? "" : ` ${entries.length} `}</span>
        {!open && right}
      </button>
      {open && (
        <div class="json-inside">
          {entries.slice(0, most).map(([key, value]) => (
            <Value key={key} name={key} of={value} depth={depth + 1} />
          ))}
          {entries.length > most && (
            <button type="button" class="json-fold" onClick={() => setMost(most + CHILDREN)}>
              {entries.length - most} more
            </button>
          )}
        </div>
      )}
      {open && right}
    </div>
  );
}
