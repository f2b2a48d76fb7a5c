// Light or dark: as the system has it, unless the visitor says otherwise.

const KEPT = "tastespace-theme";

function stored(): string | null {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}

function isDark(root: HTMLElement): boolean {
  return (root.dataset["theme"] ?? (window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
}

export function useTheme(root: HTMLElement): void {
  const theme = stored();
  if (theme === "light" || theme === "dark") root.dataset["theme"] = theme;
}

export function nextTheme(root: HTMLElement): void {
  const theme = isDark(root) ? "light" : "dark";
  root.dataset["theme"] = theme;
  try {
    localStorage.setItem(KEPT, theme);
  } catch {
    // not remembered
  }
}
