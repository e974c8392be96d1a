// Light or dark: as the system has it, until a person chooses.

const key = "croft.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

export function isDark(): boolean {
  const chosen = localStorage.getItem(key);
  return chosen ? chosen === "dark" : dark.matches;
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  for (const f of listeners) f();
}
dark.addEventListener("change", applyTheme);

export function toggleTheme(): void {
  localStorage.setItem(key, isDark() ? "light" : "dark");
  applyTheme();
}

export function onTheme(f: () => void): () => void {
  listeners.add(f);
  return () => listeners.delete(f);
}
