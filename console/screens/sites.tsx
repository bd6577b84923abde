/** All sites, those with trouble first. A row reads its live values while it is on the screen. */
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { api, mayPoll, read } from '../api/client.ts';
import { readActiveAlerts, readPlants } from '../api/lists.ts';
import { attentionOf, leastKnown, valuesOf } from '../api/row-values.ts';
import { may, organizationId } from '../api/session.ts';
import type { Alert, Plant } from '../api/types.ts';
import { Dialog, useOpen } from '../parts/dialog.tsx';
import { CallForm, TextField } from '../parts/form.tsx';
import { Empty, ListScreen, useLoad } from '../parts/load.tsx';

import { go, setQuery, url } from '../router.tsx';
import { T } from '../texts.ts';
import { FirstRun } from './first-run.tsx';
import { SiteRow } from './site-row.tsx';
import { troubleOf } from './trouble.ts';

const LIST_MS = 15_000;
/** An organization with at most so many sites is new: the page says what to do next. */
const NEW = 3;
/** One site that nobody has looked at is looked at after this time: a long list must not use up the rate of the API. */
const SURVEY_MS = 1_000;

interface Listed {
  /** Those with trouble first. */
  sites: { plant: Plant; own: Alert[] }[];
}

async function load(): Promise<Listed> {
  const [plants, alerts] = await Promise.all([readPlants(), readActiveAlerts()]);
  const byPlant = Map.groupBy(alerts, ({ plantId }) => plantId ?? '');
  const sites = plants.map((plant) => {
    const own = byPlant.get(plant.id) ?? [];
    return { plant, own, trouble: troubleOf(plant, own, attentionOf(plant.id)) };
  });
  // Only now: a list that sorts itself while a person reads it is hard to read.
  sites.sort((one, other) => other.trouble - one.trouble || one.plant.name.localeCompare(other.plant.name));
  return { sites };
}

export function SitesScreen() {
  const loaded = useLoad(`sites ${organizationId.value}`, load, LIST_MS);
  const creating = useOpen<true>();
  const search = url.value.searchParams.get('q') ?? '';
  return (
    <ListScreen
      title={T.sites.title}
      create={{ role: 'OPERATOR', label: T.sites.create, open: () => creating.open(true) }}
      actions={
        <input
          type="search"
          aria-label={T.sites.search}
          placeholder={T.sites.search}
          value={search}
          onInput={(event) => setQuery({ q: event.currentTarget.value || null })}
        />
      }
      above={creating.shown && <CreateDialog close={creating.close} />}
      loaded={loaded}
    >
      {(listed) => (
        <>
          {may('OPERATOR') && listed.sites.length <= NEW && <FirstRun hasSite={listed.sites.length > 0} />}
          <List listed={listed} search={search} />
        </>
      )}
    </ListScreen>
  );
}

/** Looks at one site after the other, so that those with trouble come to the top without being scrolled to. */
function useSurvey(sites: Listed['sites']): void {
  const ids = useRef<string[]>([]);
  ids.current = sites.map(({ plant }) => plant.id);
  useEffect(() => {
    let isReading = false;
    const timer = setInterval(async () => {
      const id = mayPoll() && !isReading ? leastKnown(ids.current) : undefined;
      if (id === undefined) return;
      isReading = true;
      // A site that cannot be read is looked at again when its turn comes.
      await valuesOf(id)
        .readAttention()
        .catch(() => undefined);
      isReading = false;
    }, SURVEY_MS);
    return () => clearInterval(timer);
  }, []);
}

function List({ listed: { sites }, search }: { listed: Listed; search: string }) {
  useSurvey(sites);
  // The same rows for each letter of a search: Preact leaves a row alone that it knows.
  const all = useMemo(
    () =>
      sites.map(({ plant, own }) => ({ plant, row: <SiteRow key={plant.id} plant={plant} alerts={own} /> })),
    [sites],
  );
  if (sites.length === 0) return <Empty>{may('OPERATOR') ? T.sites.none : T.sites.noneToSee}</Empty>;
  const wanted = search.trim().toLowerCase();
  const rows = all.filter(({ plant }) =>
    [plant.name, plant.externalPlantId, plant.eanCons, plant.id].some((text) =>
      text?.toLowerCase().includes(wanted),
    ),
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
          <th scope="col">{T.sites.waiting}</th>
          <th scope="col">{T.sites.alerts}</th>
        </tr>
      </thead>
      <tbody>{rows.map(({ row }) => row)}</tbody>
    </table>
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
        <TextField label={T.sites.name} name="name" required maxLength={200} />
        <TextField
          label={T.sites.timezone}
          name="timezone"
          required
          defaultValue={Intl.DateTimeFormat().resolvedOptions().timeZone}
        />
        <TextField label={T.sites.externalId} hint={T.sites.externalIdHint} name="externalPlantId" />
        <TextField
          label={T.sites.ean}
          hint={T.sites.eanHint}
          name="eanCons"
          pattern="[0-9]{18}"
          inputMode="numeric"
        />
      </CallForm>
    </Dialog>
  );
}
