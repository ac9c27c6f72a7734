/** Keys: one listener; a page adds keys while it is shown. */
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

export interface Key {
  readonly key: string;
  readonly text: string;
  act(): void;
}

const KEY = "graveler.keys";
const added: Key[] = [];
/** Single keys can be switched off (WCAG 2.1.4); Ctrl-K always works. */
export const singleKeys = signal(localStorage.getItem(KEY) !== "off");
export const dialogShown = signal<"" | "palette" | "keys">("");

export function switchSingleKeys(on: boolean): void {
  singleKeys.value = on;
  if (on) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, "off");
}

/** The keys that work now. */
export function keysNow(): readonly Key[] {
  return added;
}

/** Add keys while a component is shown. */
export function useKeys(keys: readonly Key[]): void {
  // Before the next key: a fast reader does not wait for the paint.
  useLayoutEffect(() => {
    added.push(...keys);
    return () => {
      for (const key of keys) added.splice(added.indexOf(key), 1);
    };
  });
}

/** `g` waits for its letter until another key or the mouse is pressed. */
let prefix = "";

function press(event: KeyboardEvent): void {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    dialogShown.value = "palette";
    return;
  }
  const target = event.target as HTMLElement;
  const types = target.closest("input, textarea, select, [contenteditable]");
  if (types || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!singleKeys.value || document.querySelector("dialog[open]")) return;
  const pressed = prefix ? `${prefix} ${event.key}` : event.key;
  prefix = "";
  if (pressed === "g") {
    prefix = "g";
    return;
  }
  if (builtIn(pressed)) {
    event.preventDefault();
    return;
  }
  const key = added.findLast((each) => each.key === pressed);
  if (key) {
    event.preventDefault();
    key.act();
  }
}

function builtIn(pressed: string): boolean {
  if (pressed === "?") dialogShown.value = "keys";
  else if (pressed === "/") focusFilter();
  else if (pressed === "j" || pressed === "k") step(pressed === "j" ? 1 : -1);
  else return false;
  return true;
}

function focusFilter(): void {
  const field = document.querySelector<HTMLInputElement>("[data-filter]");
  field?.focus();
  field?.select();
}

/** What a row leads to, or the folder that it opens. */
const MAIN = "a[href], button.folder";

/** Move the focus to the next or previous row. */
function step(by: number): void {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) =>
    row.querySelector(MAIN),
  );
  const present = document.activeElement?.closest("[data-row]");
  const at = present ? rows.indexOf(present) : -1;
  const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  next?.querySelector<HTMLElement>(MAIN)?.focus();
}

export function startKeyboard(): void {
  addEventListener("keydown", press);
  addEventListener("pointerdown", () => {
    prefix = "";
  });
}
