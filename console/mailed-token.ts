/**
 * The token of a mailed link. It leaves the address bar and the history before any other module of the console runs,
 * so main.tsx imports this file first.
 */
import { signal } from '@preact/signals';

const FORM = /^#token=([\w-]{1,200})$/;

export const mailedToken = signal('');

function take(): void {
  const [, token] = FORM.exec(window.location.hash) ?? [];
  if (token === undefined) return;
  mailedToken.value = token;
  window.history.replaceState(null, '', window.location.pathname + window.location.search);
}

take();
// A link that is opened in a page that is already there loads no page.
window.addEventListener('hashchange', take);
