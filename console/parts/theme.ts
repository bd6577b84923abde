/** Light or dark: as the system says, or as the reader chose. */
import { signal } from '@preact/signals';

export const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

export const theme = signal<Theme>('system');

export function storedTheme(): Theme {
  return THEMES.find((one) => one === localStorage.getItem('theme')) ?? 'system';
}

export function chooseTheme(next: Theme): void {
  theme.value = next;
  localStorage.setItem('theme', next);
  if (next === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
}
