/** Parts of forms, and buttons that call the API. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren, JSX } from 'preact';
import { useId } from 'preact/hooks';
import { type CallError, callError } from '../api/client.ts';
import { Failure } from './load.tsx';

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

/** A field with an input; the other attributes are those of the input. */
export function TextField({
  label,
  hint,
  ...input
}: { label: string; hint?: string } & JSX.IntrinsicElements['input']) {
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      {(attributes) => <input {...attributes} {...input} />}
    </Field>
  );
}

/** A field with a choice; `children`: its options. The other attributes are those of the choice. */
export function SelectField({
  label,
  hint,
  ...select
}: { label: string; hint?: string } & JSX.IntrinsicElements['select']) {
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      {(attributes) => <select {...attributes} {...select} />}
    </Field>
  );
}

/** The keyboard goes on in the content if what had the focus is gone, for example a button with its row. */
export function keepFocus(): void {
  setTimeout(() => {
    if (document.activeElement === document.body) document.querySelector('main')?.focus();
  });
}

/** A form that calls the API: it cannot be sent twice, and shows the refusal. `changed`: after each change of a field. */
export function CallForm({
  submit,
  changed,
  label,
  children,
  danger = false,
  disabled = false,
}: {
  submit: (form: FormData) => Promise<unknown>;
  changed?: () => void;
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
      const form = event.target as HTMLFormElement;
      // After the login the keyboard begins at the top of the page.
      const isContent = form.closest('#main') !== null;
      await submit(new FormData(form));
      if (isContent) keepFocus();
    } catch (failure) {
      error.value = callError(failure);
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <form onSubmit={(event) => void onSubmit(event)} onInput={changed}>
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

/** What a button is about, for those who do not see the row that it is in. */
export function About({ what }: { what: string }) {
  return <span class="hidden"> {what}</span>;
}

/** A button that calls the API, and shows the refusal beside it. `about`: what it is about, if the row says it. */
export function CallButton({
  call,
  children,
  about,
  danger = false,
  disabled = false,
}: {
  call: () => Promise<unknown>;
  children: ComponentChildren;
  about?: string;
  danger?: boolean;
  disabled?: boolean;
}) {
  const isBusy = useSignal(false);
  const error = useSignal<CallError | undefined>(undefined);
  const onClick = async () => {
    if (isBusy.value) return;
    isBusy.value = true;
    error.value = undefined;
    try {
      await call();
      keepFocus();
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
        // The button that was pressed keeps the focus.
        disabled={disabled && !isBusy.value}
        aria-busy={isBusy.value}
        onClick={() => void onClick()}
      >
        {children}
        {about !== undefined && <About what={about} />}
      </button>
      {error.value && (
        <span class="inline-error" role="alert">
          {error.value.message}
        </span>
      )}
    </>
  );
}

/** The options of a choice; `none`: the first one, which chooses nothing. */
export function Choices({
  none,
  chosen,
  of,
}: {
  none?: string;
  chosen?: string | null | undefined;
  of: readonly { id: string; name: string }[];
}) {
  return (
    <>
      {none !== undefined && <option value="">{none}</option>}
      {of.map(({ id, name }) => (
        <option key={id} value={id} selected={id === chosen}>
          {name}
        </option>
      ))}
    </>
  );
}

/** A list of which the reader checks some. */
export function Checks({
  legend,
  name,
  of,
}: {
  legend: string;
  name: string;
  of: readonly { value: string; label: ComponentChildren; isChecked?: boolean }[];
}) {
  return (
    <fieldset>
      <legend>{legend}</legend>
      {of.map(({ value, label, isChecked = false }) => (
        <label key={value} class="check">
          <input type="checkbox" name={name} value={value} defaultChecked={isChecked} />
          <span>{label}</span>
        </label>
      ))}
    </fieldset>
  );
}
