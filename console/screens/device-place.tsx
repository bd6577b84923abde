/** The site that a device serves, and the template that says what it reports and executes. */
import { useSignal } from '@preact/signals';
import { api, read } from '../api/client.ts';
import { readPlants, readTemplates } from '../api/lists.ts';
import type { Device } from '../api/types.ts';
import { Dialog, useOpen } from '../parts/dialog.tsx';
import { CallForm, Choices, SelectField } from '../parts/form.tsx';
import { Shown, useLoad } from '../parts/load.tsx';
import { Panel } from '../parts/ui.tsx';
import { T } from '../texts.ts';

/** The fields that differ from those of the device. */
type Change = Partial<Pick<Device, 'plantId' | 'templateId'>>;

export function PlacePanel({ device, reload }: { device: Device; reload: () => Promise<void> }) {
  const { id, name, plantId, templateId } = device;
  const loaded = useLoad(`place ${id}`, async () => {
    const [plants, templates] = await Promise.all([readPlants(), readTemplates()]);
    return { plants, templates };
  });
  const said = useSignal<string | undefined>(undefined);
  const moving = useOpen<Change>();
  const save = async (change: Change) => {
    await read(api.PATCH('/api/v1/devices/{id}', { params: { path: { id } }, body: change }));
    said.value = T.organization.saved;
    await reload();
  };
  const submit = async (form: FormData) => {
    const given = (field: string) => String(form.get(field)) || null;
    const [toPlant, toTemplate] = [given('plantId'), given('templateId')];
    const change = {
      ...(toPlant === plantId ? {} : { plantId: toPlant }),
      ...(toTemplate === templateId ? {} : { templateId: toTemplate }),
    };
    said.value = undefined;
    if (Object.keys(change).length === 0) said.value = T.devices.unchanged;
    // A device that serves a site leaves it: the reader confirms.
    else if ('plantId' in change && plantId !== null) moving.open(change);
    else await save(change);
  };
  const move = async () => {
    if (moving.shown) await save(moving.shown);
    moving.close();
  };
  return (
    <Panel title={T.devices.place}>
      <Shown loaded={loaded}>
        {({ plants, templates }) => (
          <>
            <CallForm submit={submit} label={T.organization.save}>
              <SelectField label={T.devices.plant} hint={T.devices.moveHint} name="plantId">
                <Choices none={T.common.none} chosen={plantId} of={plants} />
              </SelectField>
              <SelectField label={T.devices.template} hint={T.devices.templateHint} name="templateId">
                <Choices none={T.common.none} chosen={templateId} of={templates} />
              </SelectField>
            </CallForm>
            <p role="status">{said.value}</p>
            {moving.shown && (
              <Dialog title={T.devices.move(name)} close={moving.close}>
                <p>
                  {T.devices.moveAsks(nameOf(plants, plantId), nameOf(plants, moving.shown.plantId ?? null))}
                </p>
                <CallForm submit={move} label={T.devices.moveIt} danger />
              </Dialog>
            )}
          </>
        )}
      </Shown>
    </Panel>
  );
}

function nameOf(plants: readonly { id: string; name: string }[], id: string | null): string {
  return plants.find((plant) => plant.id === id)?.name ?? id ?? T.devices.noSite;
}
