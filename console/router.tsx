/** The address bar: which screen is shown. Links are plain `<a>`; a click on one of ours loads no page. */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

const here = () => new URL(window.location.href);
export const url = signal(here());

window.addEventListener('popstate', () => {
  url.value = here();
});

/** Shows another screen. `replace`: the back button does not come back here. */
export function go(path: string, replace = false): void {
  const next = new URL(path, window.location.href);
  if (next.href === window.location.href) return;
  if (replace) history.replaceState(null, '', next);
  else history.pushState(null, '', next);
  const isOtherScreen = next.pathname !== url.value.pathname;
  url.value = here();
  if (!isOtherScreen) return;
  window.scrollTo(0, 0);
  // A screen reader and the keyboard go on at the new screen.
  queueMicrotask(() => document.querySelector('main')?.focus());
}

/** Changes parameters of the address; null removes one. */
export function setQuery(changes: Record<string, string | null>, replace = true): void {
  const next = new URL(window.location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) next.searchParams.delete(name);
    else next.searchParams.set(name, value);
  }
  go(next.pathname + next.search, replace);
}

document.addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey)
    return;
  const link = (event.target as Element | null)?.closest('a');
  if (!link || link.origin !== window.location.origin || link.target || link.hasAttribute('download')) return;
  if (link.pathname.startsWith('/api/')) return;
  event.preventDefault();
  if (link.hash !== '' && link.pathname === window.location.pathname) {
    document.getElementById(link.hash.slice(1))?.focus();
    return;
  }
  go(link.pathname + link.search);
});

/** The named parts of a path such as `/sites/:id`; undefined if the path is another one. */
export function match(pattern: string, path: string): Record<string, string> | undefined {
  const [wanted, given] = [pattern, path].map((one) => one.split('/').filter((part) => part !== ''));
  if (!wanted || !given || wanted.length !== given.length) return undefined;
  const named: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? '';
    if (part.startsWith(':')) named[part.slice(1)] = value;
    else if (part !== value) return undefined;
  }
  return named;
}

export function NavLink({ to, children }: { to: string; children: ComponentChildren }) {
  const { pathname } = url.value;
  const isHere = pathname === to || pathname.startsWith(`${to}/`);
  return (
    <a href={to} {...(isHere ? { 'aria-current': 'page' as const } : {})}>
      {children}
    </a>
  );
}
