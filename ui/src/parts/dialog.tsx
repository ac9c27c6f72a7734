/** A native dialog: the browser keeps the focus inside and gives it back. */
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Button } from "./button";
import { visible } from "./text";

export interface DialogProps {
  readonly title: string;
  readonly wide?: boolean;
  readonly children: ComponentChildren;
  onClose(): void;
}

export function Dialog({ title, wide, children, onClose }: DialogProps) {
  const id = useId();
  const element = useRef<HTMLDialogElement>(null);
  // The browser tells of the close a moment later, when another dialog may be open already.
  const ended = useRef(false);
  const end = () => {
    if (ended.current) return;
    ended.current = true;
    onClose();
  };
  // Before the next key is typed: a fast reader types on after Ctrl-K.
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    dialog?.querySelector<HTMLElement>("[data-focus]")?.focus();
    return () => {
      ended.current = true;
      dialog?.close();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? "dialog wide" : "dialog"}
      aria-labelledby={id}
      onClose={end}
      onCancel={end}
    >
      <header>
        <h2 id={id}>{visible(title)}</h2>
        <Button kind="quiet" icon="close" label="Close" onClick={onClose} />
      </header>
      {children}
    </dialog>
  );
}
