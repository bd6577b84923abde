/** All sites, those with trouble first. A row reads its live values while it is on the screen. */
import { useSignal } from '@preact/signals';
import { api, read, readAll } from '../api/client.ts';
import { may, organizationId } from '../api/session.ts';
import type { Alert, Plant } from '../api/types.ts';
import { Empty, Shown, useLoad } from '../parts/load.tsx';
import { CallForm, Dialog, Field, Heading, Panel } from '../parts/ui.tsx';
import { go, setQuery, url } from '../router.tsx';
import { T } from '../texts.ts';
import { SiteRow } from './site-row.tsx';

const LIST_MS = 15_000;

interface Listed {
  plants: Plant[];
  alerts: Map<string, Alert[]>;
}

async function load(): Promise<Listed> {
  const [plants, alerts] = await Promise.all([
    readAll((before) => read(api.GET('/api/v1/plants', { params: { query: pageOf(before) } }))),
    readAll(
      async (before) =>
        (await read(
          api.GET('/api/v1/alerts', { params: { query: { ...pageOf(before), status: 'ACTIVE' } } }),
        )) as { data: Alert[]; meta: { next: string | null } },
    ),
  ]);
  const sorted = Map.groupBy(
    alerts.filter((alert) => alert.plantId !== null),
    (alert) => alert.plantId ?? '',
  );
  return { plants, alerts: sorted };
}

function pageOf(before: string | undefined) {
  return { limit: 100, ...(before === undefined ? {} : { before }) };
}

const STATUS_TROUBLE = { OFFLINE: 30, DEGRADED: 20, PENDING: 5, ONLINE: 0 } as const;
const SEVERITY_TROUBLE = { CRITICAL: 25, WARNING: 10, INFO: 1 } as const;

/** How much attention a site needs: it sorts the list. */
export function troubleOf(plant: Pick<Plant, 'status'>, alerts: readonly Pick<Alert, 'severity'>[]): number {
  const worst = Math.max(0, ...alerts.map(({ severity }) => SEVERITY_TROUBLE[severity]));
  return STATUS_TROUBLE[plant.status] + worst + Math.min(alerts.length, 9) / 10;
}

export function SitesScreen() {
  const loaded = useLoad(`sites ${organizationId.value}`, load, LIST_MS);
  const isCreating = useSignal(false);
  const search = url.value.searchParams.get('q') ?? '';
  return (
    <>
      <Heading title={T.sites.title}>
        <input
          type="search"
          aria-label={T.sites.search}
          placeholder={T.sites.search}
          value={search}
          onInput={(event) => setQuery({ q: event.currentTarget.value || null })}
        />
        {may('OPERATOR') && (
          <button
            type="button"
            class="primary"
            onClick={() => {
              isCreating.value = true;
            }}
          >
            {T.sites.create}
          </button>
        )}
      </Heading>
      {isCreating.value && (
        <CreateDialog
          close={() => {
            isCreating.value = false;
          }}
        />
      )}
      <Shown loaded={loaded}>{(listed) => <List listed={listed} search={search} />}</Shown>
    </>
  );
}

function List({ listed: { plants, alerts }, search }: { listed: Listed; search: string }) {
  if (plants.length === 0) return may('OPERATOR') ? <FirstRun /> : <Empty>{T.sites.noneToSee}</Empty>;
  const wanted = search.trim().toLowerCase();
  const rows = plants
    .filter((plant) =>
      [plant.name, plant.externalPlantId, plant.eanCons, plant.id].some((text) =>
        text?.toLowerCase().includes(wanted),
      ),
    )
    .map((plant) => ({ plant, own: alerts.get(plant.id) ?? [] }))
    .sort(
      (one, other) =>
        troubleOf(other.plant, other.own) - troubleOf(one.plant, one.own) ||
        one.plant.name.localeCompare(other.plant.name),
    );
  if (rows.length === 0) return <Empty>{T.sites.noMatch}</Empty>;
  return (
    <table class="sites">
      <caption class="hidden">{T.sites.title}</caption>
      <thead>
        <tr>
          <th scope="col">{T.sites.name}</th>
          <th scope="col">{T.sites.status}</th>
          <th scope="col">{T.sites.grid}</th>
          <th scope="col">{T.sites.lastHour}</th>
          <th scope="col">{T.sites.alerts}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ plant, own }) => (
          <SiteRow key={plant.id} plant={plant} alerts={own} />
        ))}
      </tbody>
    </table>
  );
}

/** What an organization without a site does first. */
function FirstRun() {
  return (
    <Panel title={T.firstRun.title}>
      <ol class="steps">
        <li>
          <strong>{T.firstRun.site}</strong>: {T.firstRun.siteHint}
        </li>
        <li>
          <a href="/devices">{T.firstRun.device}</a>: {T.firstRun.deviceHint}
        </li>
        <li>
          {may('ORG_ADMIN') ? <a href="/keys">{T.firstRun.key}</a> : T.firstRun.key}: {T.firstRun.keyHint}
        </li>
      </ol>
    </Panel>
  );
}

function CreateDialog({ close }: { close: () => void }) {
  const create = async (form: FormData) => {
    const text = (name: string) => String(form.get(name) ?? '').trim();
    const optional = (name: string) => (text(name) === '' ? {} : { [name]: text(name) });
    const body = {
      name: text('name'),
      timezone: text('timezone'),
      ...optional('externalPlantId'),
      ...optional('eanCons'),
    };
    const plant = await read(api.POST('/api/v1/plants', { body }));
    go(`/sites/${plant.id}`);
  };
  return (
    <Dialog title={T.sites.create} close={close}>
      <CallForm submit={create} label={T.sites.create}>
        <Field label={T.sites.name}>
          {(attributes) => <input {...attributes} name="name" required maxLength={200} />}
        </Field>
        <Field label={T.sites.timezone}>
          {(attributes) => (
            <input
              {...attributes}
              name="timezone"
              required
              defaultValue={Intl.DateTimeFormat().resolvedOptions().timeZone}
            />
          )}
        </Field>
        <Field label={T.sites.externalId} hint={T.sites.externalIdHint}>
          {(attributes) => <input {...attributes} name="externalPlantId" />}
        </Field>
        <Field label={T.sites.ean} hint={T.sites.eanHint}>
          {(attributes) => <input {...attributes} name="eanCons" pattern="[0-9]{18}" inputMode="numeric" />}
        </Field>
      </CallForm>
    </Dialog>
  );
}
