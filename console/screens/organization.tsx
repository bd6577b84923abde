/** The settings of the organization. */
import { useSignal } from '@preact/signals';
import { api, read } from '../api/client.ts';
import { may, organizationId } from '../api/session.ts';
import type { Organization } from '../api/types.ts';
import { CallForm, Field, TextField } from '../parts/form.tsx';
import { Shown, useLoad } from '../parts/load.tsx';
import { NumberField, numberIn } from '../parts/number-field.tsx';
import { Heading, Pairs, Panel } from '../parts/ui.tsx';
import { T } from '../texts.ts';

type Settings = Organization['settings'];

export function OrganizationScreen() {
  const id = organizationId.value ?? '';
  const path = { params: { path: { id } } };
  const loaded = useLoad(
    `organization ${id}`,
    async () => await read(api.GET('/api/v1/organizations/{id}', path)),
  );
  return (
    <Shown loaded={loaded}>
      {(organization) => (
        <>
          <Heading title={organization.name} />
          <Panel title={T.organization.settings}>
            {may('ORG_ADMIN') ? (
              <SettingsForm organization={organization} saved={loaded.set} />
            ) : (
              <Pairs
                of={Object.entries(organization.settings).map(
                  ([name, value]) => [textOf(name), String(value)] as const,
                )}
              />
            )}
          </Panel>
        </>
      )}
    </Shown>
  );
}

function textOf(name: string): string {
  return T.organization.names[name as keyof Settings] ?? name;
}

function SettingsForm({
  organization,
  saved,
}: {
  organization: Organization;
  saved: (next: Organization) => void;
}) {
  const isSaved = useSignal(false);
  const save = async (form: FormData) => {
    isSaved.value = false;
    const settings = Object.fromEntries(
      Object.entries(organization.settings).map(([name, value]) => {
        if (typeof value === 'boolean') return [name, form.get(name) === 'on'];
        return [name, typeof value === 'number' ? numberIn(form, name) : String(form.get(name))];
      }),
    ) as Settings;
    const body = { name: String(form.get('name')).trim(), settings };
    const path = { params: { path: { id: organization.id } } };
    saved(await read(api.PATCH('/api/v1/organizations/{id}', { ...path, body })));
    isSaved.value = true;
  };
  return (
    <CallForm submit={save} label={T.organization.save}>
      <TextField label={T.site.name} name="name" defaultValue={organization.name} maxLength={100} required />
      <div class="fields">
        {Object.entries(organization.settings).map(([name, value]) =>
          typeof value === 'number' ? (
            <NumberField key={name} name={name} label={textOf(name)} min={0} integer required first={value} />
          ) : (
            <Field key={name} label={textOf(name)}>
              {(attributes) =>
                typeof value === 'boolean' ? (
                  <input {...attributes} name={name} type="checkbox" defaultChecked={value} />
                ) : (
                  <select {...attributes} name={name} defaultValue={value}>
                    <option>any</option>
                    <option>attested</option>
                  </select>
                )
              }
            </Field>
          ),
        )}
      </div>
      {isSaved.value && (
        <p class="notice" role="status">
          {T.organization.saved}
        </p>
      )}
    </CallForm>
  );
}
