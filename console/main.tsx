/** The console: the shell around the screens, and which one the address shows. */
import './mailed-token.ts';
import { render } from 'preact';
import { App } from './app.tsx';
import { chooseTheme, storedTheme } from './parts/theme.ts';

chooseTheme(storedTheme());
const root = document.getElementById('app');
if (root) {
  root.textContent = '';
  render(<App />, root);
}
