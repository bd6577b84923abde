/** What an admin does with a device's credentials, and an operator with its place. */
import { useSignal } from '@preact/signals';
import { api, read } from '../api/client.ts';
import { readPlants, readTemplates } from '../api/lists.ts';
import type { Device } from '../api/types.ts';
import { download } from '../parts/download.ts';
import { Shown, useLoad } from '../parts/load.tsx';
import { CallButton, CallForm, Code, Dialog, Field, Panel } from '../parts/ui.tsx';
import { T } from '../texts.ts';

/** Something that is shown once. */
interface Once {
  title: string;
  text: string;
}

/** New credentials, and whether the device may log in. */
export function Credentials({
  device: { id, name, authMethod, status },
  reload,
}: {
  device: Device;
  reload: () => Promise<void>;
}) {
  const once = useSignal<Once | undefined>(undefined);
  const isRequesting = useSignal(false);
  const path = { params: { path: { id } } };
  const after = async (call: Promise<unknown>) => {
    await call;
    await reload();
  };
  const rotate = async () => {
    const answer = await read(api.POST('/api/v1/devices/{id}/rotate-secret', path));
    once.value = { title: T.devices.newSecret, text: JSON.stringify(answer, null, 2) };
    await reload();
  };
  const suspend = () =>
    after(
      read(api.POST('/api/v1/devices/{id}/suspend', { ...path, body: { reason: T.devices.suspendReason } })),
    );
  const issue = async (form: FormData) => {
    const csr = String(form.get('csr')).trim();
    const body = csr === '' ? {} : { csr };
    const answer = await read(api.POST('/api/v1/devices/{id}/certificate', { ...path, body }));
    isRequesting.value = false;
    once.value = { title: T.devices.newCertificate, text: JSON.stringify(answer, null, 2) };
    await reload();
  };
  const close = () => {
    once.value = undefined;
  };
  return (
    <>
      <div class="actions">
        <CallButton call={rotate}>{T.devices.rotate}</CallButton>
        {authMethod === 'MTLS' && status === 'ACTIVE' && (
          <button
            type="button"
            onClick={() => {
              isRequesting.value = true;
            }}
          >
            {T.devices.issueCertificate}
          </button>
        )}
        {status === 'SUSPENDED' ? (
          <CallButton call={() => after(read(api.POST('/api/v1/devices/{id}/reactivate', path)))}>
            {T.devices.reactivate}
          </CallButton>
        ) : (
          <CallButton danger call={suspend}>
            {T.devices.suspend}
          </CallButton>
        )}
      </div>
      {isRequesting.value && (
        <Dialog
          title={T.devices.issueCertificate}
          close={() => {
            isRequesting.value = false;
          }}
        >
          <p>{T.devices.certificateHint}</p>
          <CallForm submit={issue} label={T.devices.issueCertificate}>
            <Field label={T.devices.csr} hint={T.devices.csrHint}>
              {(attributes) => <textarea {...attributes} name="csr" rows={6} spellcheck={false} />}
            </Field>
          </CallForm>
        </Dialog>
      )}
      {once.value && (
        <Dialog title={once.value.title} close={close}>
          <p class="notice">{T.keys.onceHint}</p>
          <Code label={once.value.title} text={once.value.text} />
          <button
            type="button"
            class="primary"
            onClick={() => download(`${name}.json`, once.peek()?.text ?? '')}
          >
            {T.keys.download}
          </button>
        </Dialog>
      )}
    </>
  );
}

/** The site that the device serves, and the template that says what it reports and executes. */
export function PlacePanel({ device, reload }: { device: Device; reload: () => Promise<void> }) {
  const { id, plantId, templateId } = device;
  const loaded = useLoad(`place ${id}`, async () => {
    const [plants, templates] = await Promise.all([readPlants(), readTemplates()]);
    return { plants, templates };
  });
  const change = async (form: FormData) => {
    const given = (name: string) => String(form.get(name)) || null;
    const wanted = { plantId: given('plantId'), templateId: given('templateId') };
    const body = {
      ...(wanted.plantId === plantId ? {} : { plantId: wanted.plantId }),
      ...(wanted.templateId === templateId ? {} : { templateId: wanted.templateId }),
    };
    await read(api.PATCH('/api/v1/devices/{id}', { params: { path: { id } }, body }));
    await reload();
  };
  return (
    <Panel title={T.devices.place}>
      <Shown loaded={loaded}>
        {({ plants, templates }) => (
          <CallForm submit={change} label={T.organization.save}>
            <Field label={T.devices.plant} hint={T.devices.moveHint}>
              {(attributes) => (
                <select {...attributes} name="plantId">
                  <Choices none={T.common.none} chosen={plantId} of={plants} />
                </select>
              )}
            </Field>
            <Field label={T.devices.template} hint={T.devices.templateHint}>
              {(attributes) => (
                <select {...attributes} name="templateId">
                  <Choices none={T.common.none} chosen={templateId} of={templates} />
                </select>
              )}
            </Field>
          </CallForm>
        )}
      </Shown>
    </Panel>
  );
}

function Choices({
  none,
  chosen,
  of,
}: {
  none: string;
  chosen: string | null;
  of: readonly { id: string; name: string }[];
}) {
  return (
    <>
      <option value="">{none}</option>
      {of.map(({ id, name }) => (
        <option key={id} value={id} selected={id === chosen}>
          {name}
        </option>
      ))}
    </>
  );
}
