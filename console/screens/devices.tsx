/** All devices, and the form that registers one. */
import { DEVICE_TYPES } from '../../protocol/enums.ts';
import { api, read } from '../api/client.ts';
import { readDevices, readPlants } from '../api/lists.ts';
import { organizationId } from '../api/session.ts';
import type { Device } from '../api/types.ts';
import { Dialog, useOpen } from '../parts/dialog.tsx';
import { CallForm, SelectField, TextField } from '../parts/form.tsx';
import { Ago } from '../parts/format.tsx';
import { List, ListScreen, useLoad } from '../parts/load.tsx';
import { Badge, Table } from '../parts/ui.tsx';
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
  const creating = useOpen<true>();
  return (
    <ListScreen
      title={T.devices.title}
      create={{ role: 'OPERATOR', label: T.devices.register, open: () => creating.open(true) }}
      actions={<a href="/device-templates">{T.devices.templates}</a>}
      loaded={loaded}
    >
      {({ devices, plants }) => (
        <>
          {creating.shown && <Register plants={plants} close={creating.close} />}
          <List of={devices} none={T.devices.none}>
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
          </List>
        </>
      )}
    </ListScreen>
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
        <TextField label={T.site.name} name="name" required maxLength={100} />
        <TextField label={T.devices.serial} name="serial" required />
        <SelectField label={T.devices.type} name="type">
          {DEVICE_TYPES.map((type) => (
            <option key={type}>{type}</option>
          ))}
        </SelectField>
        <SelectField label={T.devices.auth} hint={T.devices.authHint} name="auth">
          <option value="TOKEN">{T.devices.token}</option>
          <option value="MTLS">{T.devices.certificate}</option>
        </SelectField>
        <SelectField label={T.devices.plant} name="plantId">
          <option value="">{T.common.none}</option>
          {plants.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </SelectField>
      </CallForm>
    </Dialog>
  );
}
