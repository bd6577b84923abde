/** Small parts of all screens. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren, JSX } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import type { CallError } from '../api/client.ts';
import { T } from '../texts.ts';
import { callError, Failure } from './load.tsx';

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

export function Field({
  label,
  hint,
  children,
}: {
  label: string;
  hint?: string;
  children: (attributes: { id: string; 'aria-describedby'?: string }) => JSX.Element;
}) {
  const id = useId();
  const hintId = `${id}-hint`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(hint === undefined ? { id } : { id, 'aria-describedby': hintId })}
      {hint !== undefined && (
        <small id={hintId} class="muted">
          {hint}
        </small>
      )}
    </div>
  );
}

/** A form that calls the API: it cannot be sent twice, and shows the refusal. */
export function CallForm({
  submit,
  label,
  children,
  danger = false,
  disabled = false,
}: {
  submit: (form: FormData) => Promise<unknown>;
  label: string;
  children?: ComponentChildren;
  danger?: boolean;
  disabled?: boolean;
}) {
  const isBusy = useSignal(false);
  const error = useSignal<CallError | undefined>(undefined);
  const onSubmit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    error.value = undefined;
    try {
      await submit(new FormData(event.target as HTMLFormElement));
    } catch (failure) {
      error.value = callError(failure);
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <form onSubmit={(event) => void onSubmit(event)}>
      {children}
      {error.value && <Failure error={error.value} />}
      <button
        type="submit"
        class={danger ? 'danger' : 'primary'}
        disabled={disabled}
        aria-busy={isBusy.value}
      >
        {label}
      </button>
    </form>
  );
}

/** A button that calls the API, and shows the refusal beside it. */
export function CallButton({
  call,
  children,
  danger = false,
}: {
  call: () => Promise<unknown>;
  children: ComponentChildren;
  danger?: boolean;
}) {
  const isBusy = useSignal(false);
  const error = useSignal<CallError | undefined>(undefined);
  const onClick = async () => {
    if (isBusy.value) return;
    isBusy.value = true;
    error.value = undefined;
    try {
      await call();
    } catch (failure) {
      error.value = callError(failure);
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <>
      <button
        type="button"
        class={danger ? 'danger' : ''}
        aria-busy={isBusy.value}
        onClick={() => void onClick()}
      >
        {children}
      </button>
      {error.value && (
        <span class="inline-error" role="alert">
          {error.value.message}
        </span>
      )}
    </>
  );
}

/** A modal dialog; Escape closes it, and the focus goes back to where it was. */
export function Dialog({
  title,
  close,
  children,
}: {
  title: string;
  close: () => void;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before the element is gone, so that the focus goes back to where it was.
  useLayoutEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={close}>
      <header>
        <h2 id={id}>{title}</h2>
        <button
          type="button"
          class="plain"
          onClick={() => dialog.current?.close()}
          aria-label={T.common.close}
        >
          ×
        </button>
      </header>
      {children}
    </dialog>
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

/** Code to copy. It can be scrolled with the keyboard. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <figure class="code">
      <figcaption>
        {label} <Copy text={text} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long line is scrolled with the keyboard. */}
      <section class="scroll" tabIndex={0} aria-label={label}>
        <pre>{text}</pre>
      </section>
    </figure>
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
