/** Light, dark, or as the system. */
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const KEY = "graveler.theme";

export const theme = signal<Theme>(stored());

function stored(): Theme {
  const value = localStorage.getItem(KEY);
  return value === "light" || value === "dark" ? value : "system";
}

export function startTheme(): void {
  effect(() => {
    const chosen = theme.value;
    document.documentElement.style.colorScheme = chosen === "system" ? "light dark" : chosen;
    if (chosen === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, chosen);
  });
}

export function nextTheme(): void {
  const order: Theme[] = ["system", "light", "dark"];
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length] ?? "system";
}
