/** Small parts of all screens. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { T } from '../texts.ts';
import { escaped } from './escaped.ts';

export type Tone = 'good' | 'warning' | 'bad' | 'quiet' | 'info';

const TONES: Record<string, Tone> = {
  ...{
    ONLINE: 'good',
    ACTIVE: 'good',
    COMPLETED: 'good',
    GOOD: 'good',
    ENABLED: 'good',
    ACCEPTED: 'good',
    SUCCESS: 'good',
  },
  ...{
    DEGRADED: 'warning',
    STALE: 'warning',
    MISSING: 'warning',
    DEVIATED: 'warning',
    PENDING: 'info',
    EXECUTING: 'info',
    QUEUED: 'info',
  },
  ...{ OFFLINE: 'bad', FAILED: 'bad', REJECTED: 'bad', DISABLED: 'bad', SUSPENDED: 'bad', CRITICAL: 'bad' },
  ...{ WARNING: 'warning', INFO: 'info', FAILURE: 'bad', ERROR: 'bad', PARTIAL: 'warning' },
};

/** A state as a word; the colour only repeats it. */
export function Badge({ state, tone = TONES[state] ?? 'quiet' }: { state: string; tone?: Tone }) {
  return <span class={`badge ${tone}`}>{T.states[state] ?? state}</span>;
}

export function Heading({ title, children }: { title: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="heading">
      <h1>{title}</h1>
      <div class="actions">{children}</div>
    </header>
  );
}

export function Panel({
  title,
  children,
  actions,
  className = '',
}: {
  title: string;
  children: ComponentChildren;
  actions?: ComponentChildren;
  className?: string;
}) {
  const id = useId();
  return (
    <section class={`panel ${className}`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {actions}
      </header>
      {children}
    </section>
  );
}

export function Copy({ text, label = T.common.copy }: { text: string; label?: string }) {
  const isDone = useSignal(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    isDone.value = true;
    setTimeout(() => {
      isDone.value = false;
    }, 2_000);
  };
  return (
    <button type="button" class="small" onClick={() => void copy()}>
      {isDone.value ? T.common.copied : label}
    </button>
  );
}

/** Code to copy, shown with its unseen characters escaped. It can be scrolled with the keyboard. `exact`: what is copied, if it is shown in another form. */
export function Code({ text, label, exact = text }: { text: string; label: string; exact?: string }) {
  return (
    <figure class="code">
      <figcaption>
        {label} <Copy text={exact} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long line is scrolled with the keyboard. */}
      <section class="scroll" tabIndex={0} aria-label={label}>
        <pre>{escaped(text)}</pre>
      </section>
    </figure>
  );
}

/** One step of several. */
export function Step({
  isDone,
  title,
  children,
}: {
  isDone: boolean;
  title: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <li class={isDone ? 'done' : ''}>
      <strong>
        {title} <span class="hidden">{isDone ? T.devices.done : T.devices.open}</span>
      </strong>{' '}
      {children}
    </li>
  );
}

export function Pairs({ of }: { of: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="pairs">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A wide table, which scrolls by itself on a small screen. */
export function Table({
  caption,
  columns,
  children,
}: {
  caption: string;
  columns: readonly string[];
  children: ComponentChildren;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it is scrolled with the keyboard.
    <section class="scroll" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}
