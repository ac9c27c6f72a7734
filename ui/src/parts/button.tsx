/** Buttons.  One that is off says why. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { asError } from "../api/load";
import { complain } from "../app/toasts";
import { Icon, type IconName } from "./icons";
import { ASKING } from "./rights";
import { visible } from "./text";

export interface ButtonProps {
  readonly children?: ComponentChildren;
  readonly icon?: IconName;
  /** The name of a button that shows only an icon. */
  readonly label?: string;
  readonly kind?: "plain" | "primary" | "danger" | "quiet";
  readonly type?: "button" | "submit";
  /** Why the button is off; empty: it is on. */
  readonly off?: string;
  readonly pressed?: boolean;
  /** Work that takes time: the button waits for it, and shows what failed. */
  onClick?(event: MouseEvent): unknown;
}

export function Button(props: ButtonProps) {
  const { children, icon, label, kind = "plain", type = "button", off = "", pressed } = props;
  const [busy, setBusy] = useState(false);
  const element = useRef<HTMLButtonElement>(null);
  // A press while the rights of the reader are looked up counts when they are known.
  const early = useRef(false);
  useEffect(() => {
    if (off === ASKING) return;
    if (early.current && !off) element.current?.click();
    early.current = false;
  }, [off]);
  const click = async (event: MouseEvent) => {
    if (off || busy) {
      early.current = off === ASKING;
      event.preventDefault();
      return;
    }
    const work = props.onClick?.(event);
    if (!(work instanceof Promise)) return;
    setBusy(true);
    try {
      await work;
    } catch (error) {
      complain(asError(error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button
      ref={element}
      type={type}
      class={`button ${kind} ${children ? "" : "only-icon"}`}
      aria-label={label && visible(label)}
      title={visible(off || label || "") || undefined}
      aria-disabled={off || busy ? "true" : undefined}
      aria-pressed={pressed}
      aria-busy={busy || undefined}
      onClick={click}
    >
      {icon && <Icon name={icon} />}
      {children && <span>{children}</span>}
      {off && <span class="hidden">({off})</span>}
    </button>
  );
}

/** A link that looks like a button. */
export function ButtonLink(props: {
  readonly href: string;
  readonly icon?: IconName;
  readonly kind?: "plain" | "primary";
  readonly download?: boolean;
  readonly children: ComponentChildren;
}) {
  const { href, icon, kind = "plain", download, children } = props;
  return (
    <a class={`button ${kind}`} href={href} download={download || undefined}>
      {icon && <Icon name={icon} />}
      <span>{children}</span>
    </a>
  );
}

/** Copies a text. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  return (
    <Button
      kind="quiet"
      icon={done ? "check" : "copy"}
      label={done ? "Copied" : label}
      onClick={copy}
    />
  );
}
