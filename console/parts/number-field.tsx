/** A field for a number. It is no `type="number"`: browsers drop a comma there, and accept 1e3. */
import { useSignal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { T } from '../texts.ts';
import { type NumberRule, readNumber, writeNumber } from './number.ts';

interface NumberFieldProps extends NumberRule {
  name: string;
  label: string;
  hint?: string;
  first?: number | null;
  required?: boolean;
}

export function NumberField({ name, label, hint, first, required = false, ...rule }: NumberFieldProps) {
  const id = useId();
  const fault = useSignal('');
  const faultOf = (text: string): string => {
    const read = readNumber(text, rule);
    if (read.ok || (read.refusal === 'empty' && !required)) return '';
    return T.numbers[read.refusal](text.trim(), rule);
  };
  const described = [...(hint === undefined ? [] : [`${id}-hint`]), ...(fault.value ? [`${id}-fault`] : [])];
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        name={name}
        // So that a phone shows digits, and the minus where it has a place.
        inputMode={rule.sign ? 'text' : rule.integer ? 'numeric' : 'decimal'}
        autocomplete="off"
        aria-required={required}
        aria-invalid={fault.value !== ''}
        {...(described.length > 0 ? { 'aria-describedby': described.join(' ') } : {})}
        {...(first === undefined || first === null ? {} : { defaultValue: writeNumber(first) })}
        ref={(input) => input?.setCustomValidity(faultOf(input.value))}
        onInput={(event) => {
          event.currentTarget.setCustomValidity(faultOf(event.currentTarget.value));
          fault.value = '';
        }}
        // The browser's own bubble goes away and is not read by all.
        onInvalid={(event) => {
          event.preventDefault();
          const { currentTarget: input } = event;
          fault.value = faultOf(input.value);
          const invalid = input.form?.querySelector(':invalid:not(fieldset)');
          if (invalid === input) input.focus();
        }}
      />
      {fault.value !== '' && (
        <span id={`${id}-fault`} class="inline-error" role="alert">
          {fault.value}
        </span>
      )}
      {hint !== undefined && (
        <small id={`${id}-hint`} class="muted">
          {hint}
        </small>
      )}
    </div>
  );
}

/** The number in a field that the form has accepted; undefined if the field is empty. */
export function numberIn(form: FormData, name: string): number | undefined {
  const read = readNumber(String(form.get(name) ?? ''), { sign: true });
  return read.ok ? read.value : undefined;
}
