/** Checks the signature of a message in the browser, with the signing key of the reader. */
import { useSignal } from '@preact/signals';
import {
  COMMAND_FAMILIES,
  commandRoutingKey,
  EVENT_KINDS,
  eventRoutingKey,
} from '../../protocol/routing-keys.ts';
import { membership } from '../api/session.ts';
import { CallForm, Choices, Field, SelectField, TextField } from '../parts/form.tsx';
import { Badge, Code, Heading } from '../parts/ui.tsx';
import { type Checked, checkSignature } from '../signature.ts';
import { T } from '../texts.ts';

export function SignatureScreen() {
  const checked = useSignal<Checked | undefined>(undefined);
  const slug = membership.value?.slug ?? '';
  const keys = [
    ...EVENT_KINDS.map((kind) => eventRoutingKey(slug, kind)),
    ...COMMAND_FAMILIES.map((family) => commandRoutingKey(slug, family)),
  ];
  const check = async (form: FormData) => {
    const text = (name: string) => String(form.get(name)).trim();
    checked.value = await checkSignature(text('message'), text('routingKey'), text('key'));
  };
  return (
    <>
      <Heading title={T.signature.title} />
      <p class="muted">{T.signature.hint}</p>
      <CallForm
        submit={check}
        label={T.signature.check}
        changed={() => {
          checked.value = undefined;
        }}
      >
        <Field label={T.signature.message} hint={T.signature.messageHint}>
          {(attributes) => <textarea {...attributes} name="message" rows={6} spellcheck={false} required />}
        </Field>
        <SelectField label={T.command.routingKey} hint={T.signature.routingKeyHint} name="routingKey">
          <Choices of={keys.map((one) => ({ id: one, name: one }))} />
        </SelectField>
        <TextField label={T.keys.signingKey} name="key" type="password" autocomplete="off" required />
      </CallForm>
      <div role="status">{checked.value && <Outcome checked={checked.value} />}</div>
    </>
  );
}

function Outcome({ checked }: { checked: Checked }) {
  const { verdict } = checked;
  return (
    <>
      <p>
        <Badge state={verdict} tone={verdict === 'valid' ? 'good' : 'bad'} />{' '}
        {verdict === 'unreadable' ? T.signature.unreadable(checked.why) : T.signature.verdicts[verdict]}
      </p>
      {'signed' in checked && checked.signed !== undefined && (
        <Code label={T.signature.signed} text={checked.signed} />
      )}
      {'expected' in checked && verdict === 'mismatch' && (
        <Code label={T.signature.expected} text={checked.expected} />
      )}
    </>
  );
}
