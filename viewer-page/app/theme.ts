// The theme: light, dark, or that of the system. The choice is stored in the browser.

import { effect, signal } from "@preact/signals";

const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
const KEPT_AS = "espalier-theme";

export const theme = signal<Theme>(
  THEMES.find((known) => known === localStorage.getItem(KEPT_AS)) ?? "system",
);

/** Switches between light and dark, starting from the visible theme. */
export function toggleTheme(): void {
  theme.value = isDark() ? "light" : "dark";
  localStorage.setItem(KEPT_AS, theme.value);
}

export function isDark(): boolean {
  if (theme.value !== "system") return theme.value === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
});
