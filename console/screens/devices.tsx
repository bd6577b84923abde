/** All devices, and the form that registers one. */
import { useSignal } from '@preact/signals';
import { DEVICE_TYPES } from '../../protocol/enums.ts';
import { api, read } from '../api/client.ts';
import { readDevices, readPlants } from '../api/lists.ts';
import { may, organizationId } from '../api/session.ts';
import type { Device } from '../api/types.ts';
import { Dialog } from '../parts/dialog.tsx';
import { CallForm, Field } from '../parts/form.tsx';
import { Ago } from '../parts/format.tsx';
import { Empty, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Heading, Table } from '../parts/ui.tsx';
import { go } from '../router.tsx';
import { T } from '../texts.ts';

export function DevicesScreen() {
  const loaded = useLoad(
    `devices ${organizationId.value}`,
    async () => {
      const [devices, plants] = await Promise.all([readDevices(), readPlants()]);
      return { devices, plants };
    },
    15_000,
  );
  const isCreating = useSignal(false);
  return (
    <>
      <Heading title={T.devices.title}>
        <a href="/device-templates">{T.devices.templates}</a>
        {may('OPERATOR') && (
          <button
            type="button"
            class="primary"
            onClick={() => {
              isCreating.value = true;
            }}
          >
            {T.devices.register}
          </button>
        )}
      </Heading>
      <Shown loaded={loaded}>
        {({ devices, plants }) => (
          <>
            {isCreating.value && (
              <Register
                plants={plants}
                close={() => {
                  isCreating.value = false;
                }}
              />
            )}
            {devices.length === 0 ? (
              <Empty>{T.devices.none}</Empty>
            ) : (
              <Table
                caption={T.devices.title}
                columns={[
                  T.site.name,
                  T.devices.serial,
                  T.devices.type,
                  T.devices.plant,
                  T.sites.status,
                  T.devices.connection,
                  T.devices.seen,
                ]}
              >
                {devices.map((device) => (
                  <tr key={device.id}>
                    <th scope="row">
                      <a href={`/devices/${device.id}`}>{device.name}</a>
                    </th>
                    <td class="name">{device.serialNumber}</td>
                    <td>{device.type}</td>
                    <td class="name">{plants.find(({ id }) => id === device.plantId)?.name ?? ''}</td>
                    <td>
                      <Badge state={device.status} />
                    </td>
                    <td>
                      <Badge state={device.connectionStatus} />
                    </td>
                    <td>
                      <Ago at={device.lastSeenAt} />
                    </td>
                  </tr>
                ))}
              </Table>
            )}
          </>
        )}
      </Shown>
    </>
  );
}

function Register({ plants, close }: { plants: { id: string; name: string }[]; close: () => void }) {
  const create = async (form: FormData) => {
    const plantId = String(form.get('plantId'));
    const body = {
      name: String(form.get('name')).trim(),
      serialNumber: String(form.get('serial')).trim(),
      type: String(form.get('type')) as Device['type'],
      authMethod: String(form.get('auth')) as Device['authMethod'],
      ...(plantId === '' ? {} : { plantId }),
    };
    const { id } = await read(api.POST('/api/v1/devices', { body }));
    go(`/devices/${id}`);
  };
  return (
    <Dialog title={T.devices.register} close={close}>
      <CallForm submit={create} label={T.devices.register}>
        <Field label={T.site.name}>
          {(attributes) => <input {...attributes} name="name" required maxLength={100} />}
        </Field>
        <Field label={T.devices.serial}>
          {(attributes) => <input {...attributes} name="serial" required />}
        </Field>
        <Field label={T.devices.type}>
          {(attributes) => (
            <select {...attributes} name="type">
              {DEVICE_TYPES.map((type) => (
                <option key={type}>{type}</option>
              ))}
            </select>
          )}
        </Field>
        <Field label={T.devices.auth} hint={T.devices.authHint}>
          {(attributes) => (
            <select {...attributes} name="auth">
              <option value="TOKEN">{T.devices.token}</option>
              <option value="MTLS">{T.devices.certificate}</option>
            </select>
          )}
        </Field>
        <Field label={T.devices.plant}>
          {(attributes) => (
            <select {...attributes} name="plantId">
              <option value="">{T.common.none}</option>
              {plants.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </select>
          )}
        </Field>
      </CallForm>
    </Dialog>
  );
}
