/** Dialogs, and buttons that ask before they call the API. */
import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { T } from '../texts.ts';
import { About, CallForm, keepFocus, TextField } from './form.tsx';

/** What a dialog shows; undefined: it is closed. */
export function useOpen<Value>() {
  const shown = useSignal<Value | undefined>(undefined);
  return {
    shown: shown.value,
    open: (value: Value) => {
      shown.value = value;
    },
    close: () => {
      shown.value = undefined;
    },
  };
}

/**
 * A modal dialog; the focus goes back to where it was. Escape closes it, unless it `keeps` what the reader has written.
 */
export function Dialog({
  title,
  close,
  keeps = false,
  children,
}: {
  title: string;
  close: () => void;
  keeps?: boolean;
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
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onClose={close}
      onKeyDown={(event) => keeps && event.key === 'Escape' && event.preventDefault()}
    >
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

/** A field in which the reader types a word to confirm; `typed` says what it has. */
export function ConfirmField({ word, typed }: { word: string; typed: Signal<string> }) {
  return (
    <TextField
      label={T.control.typeWord(word)}
      autocomplete="off"
      value={typed.value}
      onInput={(event) => {
        typed.value = event.currentTarget.value;
      }}
    />
  );
}

/** A button that asks first. `about`: what it is about; `asks`: what will happen; `word`: what the reader types to confirm. */
export function ConfirmButton({
  label,
  about,
  asks,
  word,
  call,
}: {
  label: string;
  about: string;
  asks: ComponentChildren;
  word?: string;
  call: () => Promise<unknown>;
}) {
  const { shown: isOpen, open, close } = useOpen<true>();
  const typed = useSignal('');
  const submit = async () => {
    await call();
    close();
    keepFocus();
  };
  return (
    <>
      <button
        type="button"
        class="danger"
        onClick={() => {
          typed.value = '';
          open(true);
        }}
      >
        {label}
        <About what={about} />
      </button>
      {isOpen && (
        <Dialog title={`${label}: ${about}`} close={close}>
          <p>{asks}</p>
          <CallForm
            submit={submit}
            label={label}
            danger
            disabled={word !== undefined && typed.value !== word}
          >
            {word !== undefined && <ConfirmField word={word} typed={typed} />}
          </CallForm>
        </Dialog>
      )}
    </>
  );
}
