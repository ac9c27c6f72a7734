/** Actions beside each other; on a phone in a sheet at the bottom of the window. */
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { Icon } from "./icons";

/** The browser opens the sheet, and closes it on Escape, on a press outside, and before a dialog. */
export function Sheet({ children }: { children: ComponentChildren }) {
  const id = useId();
  return (
    <>
      <button type="button" class="button narrow-only" popovertarget={id}>
        <Icon name="more" />
        <span>More</span>
      </button>
      <div id={id} popover="auto" class="sheet">
        {children}
      </div>
    </>
  );
}
