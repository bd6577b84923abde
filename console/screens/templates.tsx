/** Device templates: those of the platform, and the organization's own ones. */
import { api, CallError, read } from '../api/client.ts';
import { readTemplates } from '../api/lists.ts';
import { may, organizationId } from '../api/session.ts';
import type { DeviceTemplate } from '../api/types.ts';
import { ConfirmButton, Dialog, useOpen } from '../parts/dialog.tsx';
import { About, CallForm, Field } from '../parts/form.tsx';
import { ListScreen, useLoad } from '../parts/load.tsx';
import { Code, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';

/** What the form begins with. */
const FIRST: Fields = {
  name: 'Acme PowerBox 50',
  assetType: 'BESS',
  manufacturer: 'Acme',
  model: 'PowerBox 50',
  signals: [{ name: 'powerKw', label: 'Power', unit: 'kW', kind: 'GAUGE', min: -50, max: 50 }],
  actions: [],
};

/** The fields that a person writes; the type of asset cannot be changed later. */
type Fields = Pick<DeviceTemplate, 'name' | 'assetType' | 'manufacturer' | 'model' | 'signals' | 'actions'>;

function fieldsOf({ name, assetType, manufacturer, model, signals, actions }: DeviceTemplate): Fields {
  return { name, assetType, manufacturer, model, signals, actions };
}

/** What is edited: 'new', or a template. */
type Edited = DeviceTemplate | 'new';

export function TemplatesScreen() {
  const loaded = useLoad(`templates ${organizationId.value}`, readTemplates);
  const edited = useOpen<Edited>();
  return (
    <ListScreen
      title={T.templates.title}
      create={{ role: 'ADMIN', label: T.templates.create, open: () => edited.open('new') }}
      above={
        <>
          <p class="muted">{T.templates.hint}</p>
          {edited.shown && <Editor edited={edited.shown} reload={loaded.reload} close={edited.close} />}
        </>
      }
      loaded={loaded}
    >
      {(templates) => (
        <Table
          caption={T.templates.title}
          columns={[
            T.site.name,
            T.templates.level,
            T.templates.asset,
            T.templates.maker,
            T.templates.signals,
            T.templates.actions,
            ...(may('ADMIN') ? [T.templates.change] : []),
          ]}
        >
          {templates.map((template) => (
            <Row
              key={template.id}
              template={template}
              open={() => edited.open(template)}
              reload={loaded.reload}
            />
          ))}
        </Table>
      )}
    </ListScreen>
  );
}

function Row({
  template,
  open,
  reload,
}: {
  template: DeviceTemplate;
  open: () => void;
  reload: () => Promise<void>;
}) {
  const { id, level, name, assetType, manufacturer, model, signals, actions } = template;
  const remove = async () => {
    await read(api.DELETE('/api/v1/device-templates/{id}', { params: { path: { id } } }));
    await reload();
  };
  return (
    <tr>
      <th scope="row" class="wrap">
        <details>
          <summary>{name}</summary>
          <Code label={T.templates.json} text={JSON.stringify(fieldsOf(template), null, 2)} />
        </details>
      </th>
      <td>{T.templates.levels[level]}</td>
      <td>{assetType}</td>
      <td>{[manufacturer, model].filter(Boolean).join(' ')}</td>
      <td class="wrap">{signals.map((signal) => signal.name).join(', ')}</td>
      <td class="wrap">{actions.map(({ action }) => action).join(', ')}</td>
      {may('ADMIN') && (
        <td>
          {level === 'ORGANIZATION' && (
            <div class="actions">
              <button type="button" onClick={open}>
                {T.templates.change}
                <About what={name} />
              </button>
              <ConfirmButton
                label={T.common.delete}
                about={name}
                asks={T.templates.deleteHint}
                call={remove}
              />
            </div>
          )}
        </td>
      )}
    </tr>
  );
}

function Editor({
  edited,
  close,
  reload,
}: {
  edited: Edited;
  close: () => void;
  reload: () => Promise<void>;
}) {
  const first = edited === 'new' ? FIRST : fieldsOf(edited);
  const save = async (form: FormData) => {
    const fields = parsed(String(form.get('json')));
    if (edited === 'new') await read(api.POST('/api/v1/device-templates', { body: fields }));
    else {
      const { assetType, ...body } = fields;
      if (assetType !== edited.assetType)
        throw new CallError(0, 'NO_ANSWER', T.templates.fixedType(edited.assetType));
      await read(api.PATCH('/api/v1/device-templates/{id}', { params: { path: { id: edited.id } }, body }));
    }
    close();
    await reload();
  };
  return (
    <Dialog title={edited === 'new' ? T.templates.create : edited.name} close={close} keeps>
      <CallForm submit={save} label={T.organization.save}>
        <Field label={T.templates.json} hint={T.templates.jsonHint}>
          {(attributes) => (
            <textarea
              {...attributes}
              name="json"
              rows={18}
              spellcheck={false}
              defaultValue={JSON.stringify(first, null, 2)}
            />
          )}
        </Field>
      </CallForm>
    </Dialog>
  );
}

/** The API checks the fields. Throws `CallError` for a text that is no JSON object. */
function parsed(text: string): Fields {
  let fields: unknown;
  try {
    fields = JSON.parse(text);
  } catch (error) {
    throw new CallError(0, 'NO_ANSWER', T.templates.notJson((error as Error).message));
  }
  if (typeof fields !== 'object' || fields === null || Array.isArray(fields))
    throw new CallError(0, 'NO_ANSWER', T.templates.noObject);
  return fields as Fields;
}
