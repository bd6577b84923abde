/** What an admin does with a device's credentials. */
import { api, read } from '../api/client.ts';
import type { Device } from '../api/types.ts';
import { ConfirmButton, Dialog, useOpen } from '../parts/dialog.tsx';
import { download } from '../parts/download.ts';
import { CallButton, CallForm, Field } from '../parts/form.tsx';
import { Time } from '../parts/format.tsx';
import { Code } from '../parts/ui.tsx';
import { T } from '../texts.ts';

/** A text that is shown once, and the name of the file that keeps it. */
interface Part {
  label: string;
  text: string;
  file: string;
}

/** What is shown once. */
interface Once {
  title: string;
  parts: Part[];
  /** Until when it is valid. */
  until?: string;
  /** Until when the credential before it is valid; null: it is not. */
  previousUntil?: string | null;
}

/** New credentials, and whether the device may log in. */
export function Credentials({
  device: { id, name, authMethod, status },
  reload,
}: {
  device: Device;
  reload: () => Promise<void>;
}) {
  const once = useOpen<Once>();
  const requesting = useOpen<true>();
  const path = { params: { path: { id } } };
  const rotate = async () => {
    const { hmacSecret, graceUntil } = await read(api.POST('/api/v1/devices/{id}/rotate-secret', path));
    const parts = [{ label: T.devices.newSecret, text: hmacSecret, file: `${name}-secret.txt` }];
    once.open({ title: T.devices.newSecret, parts, previousUntil: graceUntil });
    await reload();
  };
  const issueToken = async () => {
    const { token, expiresAt } = await read(
      api.POST('/api/v1/devices/{id}/mqtt-token', { ...path, body: {} }),
    );
    const parts = [{ label: T.devices.newToken, text: token, file: `${name}-token.txt` }];
    once.open({ title: T.devices.newToken, parts, until: expiresAt });
    await reload();
  };
  const revoke = async () => {
    await read(api.POST('/api/v1/devices/{id}/revoke', path));
    await reload();
  };
  const suspend = async () => {
    const body = { reason: T.devices.suspendReason };
    await read(api.POST('/api/v1/devices/{id}/suspend', { ...path, body }));
    await reload();
  };
  const reactivate = async () => {
    await read(api.POST('/api/v1/devices/{id}/reactivate', path));
    await reload();
  };
  const issue = async (form: FormData) => {
    const answer = await read(api.POST('/api/v1/devices/{id}/certificate', { ...path, body: csrOf(form) }));
    const part = (label: string, text: string | undefined, end: string): Part[] =>
      text === undefined ? [] : [{ label, text, file: `${name}-${end}.pem` }];
    requesting.close();
    once.open({
      title: T.devices.newCertificate,
      parts: [
        ...part(T.devices.certificateText, answer.certificate, 'certificate'),
        ...part(T.devices.privateKey, answer.privateKey, 'key'),
        ...part(T.devices.caCertificate, answer.caCertificate, 'ca'),
      ],
      previousUntil: answer.previousUntil,
    });
    await reload();
  };
  return (
    <>
      <div class="actions">
        {status === 'ACTIVE' && <CallButton call={rotate}>{T.devices.rotate}</CallButton>}
        {authMethod === 'MTLS' && status === 'ACTIVE' && (
          <button type="button" onClick={() => requesting.open(true)}>
            {T.devices.issueCertificate}
          </button>
        )}
        {authMethod === 'TOKEN' && status === 'ACTIVE' && (
          <CallButton call={issueToken}>{T.devices.issueToken}</CallButton>
        )}
        {status === 'SUSPENDED' && <CallButton call={reactivate}>{T.devices.reactivate}</CallButton>}
        {status === 'ACTIVE' && (
          <>
            <ConfirmButton
              label={T.devices.suspend}
              about={name}
              asks={T.devices.suspendHint}
              call={suspend}
            />
            <ConfirmButton
              label={T.devices.revoke}
              about={name}
              asks={T.devices.revokeHint}
              word={name}
              call={revoke}
            />
          </>
        )}
      </div>
      {requesting.shown && (
        <Dialog title={T.devices.issueCertificate} close={requesting.close} keeps>
          <p>{T.devices.certificateHint}</p>
          <CallForm submit={issue} label={T.devices.issueCertificate}>
            <CsrField />
          </CallForm>
        </Dialog>
      )}
      {once.shown && <OnceDialog once={once.shown} close={once.close} />}
    </>
  );
}

function OnceDialog({
  once: { title, parts, until, previousUntil },
  close,
}: {
  once: Once;
  close: () => void;
}) {
  return (
    <Dialog title={title} close={close} keeps>
      <p class="notice">{T.keys.onceHint}</p>
      {until && (
        <p>
          {T.devices.validUntil} <Time at={until} />
        </p>
      )}
      {previousUntil && (
        <p>
          {T.devices.previousUntil} <Time at={previousUntil} />
        </p>
      )}
      {parts.map(({ label, text, file }) => (
        <div key={label}>
          <Code label={label} text={text} />
          <button type="button" onClick={() => download(file, text)}>
            {T.devices.save(file)}
          </button>
        </div>
      ))}
    </Dialog>
  );
}

export function CsrField() {
  return (
    <Field label={T.devices.csr} hint={T.devices.csrHint}>
      {(attributes) => <textarea {...attributes} name="csr" rows={4} spellcheck={false} />}
    </Field>
  );
}

/** The certificate request of a form, if it has one. */
export function csrOf(form: FormData): { csr?: string } {
  const csr = String(form.get('csr') ?? '').trim();
  return csr === '' ? {} : { csr };
}
