/** Short messages about what was done; a screen reader reads them politely. */
import { signal } from "@preact/signals";
import { logOf } from "./errors";

export interface Toast {
  readonly id: number;
  readonly text: string;
  readonly isError: boolean;
  readonly link?: { href: string; text: string };
}

export const toasts = signal<readonly Toast[]>([]);
let count = 0;

export function say(text: string, link?: { href: string; text: string }): void {
  show({ text, isError: false, ...(link && { link }) }, link ? 10_000 : 5_000);
}

export function complain(text: string): void {
  const href = logOf(text);
  show(
    { text, isError: true, ...(href && { link: { href, text: "Read the log of the hook" } }) },
    15_000,
  );
}

function show(toast: Omit<Toast, "id">, life: number): void {
  count += 1;
  const id = count;
  toasts.value = [...toasts.value.slice(-1), { ...toast, id }];
  setTimeout(() => dismiss(id), life);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}
