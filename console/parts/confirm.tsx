/** A confirmation that the reader types. */
import type { Signal } from '@preact/signals';
import { T } from '../texts.ts';
import { Field } from './ui.tsx';

/** A field in which the reader types a word to confirm; `typed` says what it has. */
export function ConfirmField({ word, typed }: { word: string; typed: Signal<string> }) {
  return (
    <Field label={T.control.typeWord(word)}>
      {(attributes) => (
        <input
          {...attributes}
          autocomplete="off"
          value={typed.value}
          onInput={(event) => {
            typed.value = event.currentTarget.value;
          }}
        />
      )}
    </Field>
  );
}
