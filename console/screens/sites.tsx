/** All sites, those with trouble first. A row reads its live values while it is on the screen. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { api, read, readAll } from '../api/client.ts';
import { may, organizationId } from '../api/session.ts';
import type { Alert, Latest, Plant, Point } from '../api/types.ts';
import { Sparkline } from '../charts/sparkline.tsx';
import { Ago, kw } from '../parts/format.tsx';
import { Empty, Shown, useLoad } from '../parts/load.tsx';
import { Badge, CallForm, Dialog, Field, Heading } from '../parts/ui.tsx';
import { go, setQuery, url } from '../router.tsx';
import { T } from '../texts.ts';

const LIST_MS = 15_000;
const ROW_MS = 10_000;
const HOUR = 3_600_000;
/** Rows that read their values at the same time. */
const READERS = 4;

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
  if (plants.length === 0) return <Empty>{may('OPERATOR') ? T.sites.none : T.sites.noneToSee}</Empty>;
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
          <Row key={plant.id} plant={plant} alerts={own} />
        ))}
      </tbody>
    </table>
  );
}

/** Lets a few rows read at a time. */
let running = 0;
const waiting: (() => void)[] = [];
async function inTurn<Value>(work: () => Promise<Value>): Promise<Value> {
  if (running >= READERS) await new Promise<void>((resolve) => waiting.push(resolve));
  running += 1;
  try {
    return await work();
  } finally {
    running -= 1;
    waiting.shift()?.();
  }
}

function Row({ plant, alerts }: { plant: Plant; alerts: Alert[] }) {
  const row = useRef<HTMLTableRowElement>(null);
  const latest = useSignal<Latest | undefined>(undefined);
  const points = useSignal<Point[]>([]);
  useEffect(() => {
    let timer: ReturnType<typeof setInterval> | undefined;
    let isShown = false;
    const path = { params: { path: { id: plant.id } } };
    const readLatest = async () => {
      if (!isShown || document.hidden) return;
      latest.value = await read(api.GET('/api/v1/plants/{id}/telemetry/latest', path)).catch(
        () => latest.value,
      );
    };
    const readHour = async () => {
      const now = Date.now();
      const course = async (granularity: 'raw' | '5m', sinceMs: number) => {
        const [from, to] = [new Date(now - sinceMs).toISOString(), new Date(now).toISOString()];
        const query = { metric: 'gridPowerKw', from, to, granularity };
        const call = api.GET('/api/v1/plants/{id}/telemetry', { params: { ...path.params, query } });
        return (await read(call)).readings;
      };
      try {
        const hour = await course('5m', HOUR);
        // A site that has just begun has no whole five minutes yet.
        points.value = hour.length > 1 ? hour : await course('raw', HOUR / 6);
      } catch {
        // The list says when the platform does not answer; a line more or less does not matter.
      }
    };
    const observer = new IntersectionObserver(([entry]) => {
      isShown = entry?.isIntersecting ?? false;
      clearInterval(timer);
      if (!isShown) return;
      void inTurn(readLatest);
      if (points.value.length === 0) void inTurn(readHour);
      timer = setInterval(() => void inTurn(readLatest), ROW_MS);
    });
    if (row.current) observer.observe(row.current);
    return () => {
      observer.disconnect();
      clearInterval(timer);
    };
  }, [plant.id]);
  const payload = latest.value?.payload;
  const [newest] = [...alerts].sort(
    (one, other) => SEVERITY_TROUBLE[other.severity] - SEVERITY_TROUBLE[one.severity],
  );
  return (
    <tr ref={row}>
      <th scope="row">
        <a href={`/sites/${plant.id}`}>{plant.name}</a>
        {plant.externalPlantId && <small class="muted"> {plant.externalPlantId}</small>}
      </th>
      <td>
        <Badge state={plant.status} />
      </td>
      <td class="number">
        {payload ? kw(payload.gridPowerKw) : '…'}
        {payload && payload.dataQuality !== 'GOOD' && <Badge state={payload.dataQuality} />}
      </td>
      <td>
        <Sparkline points={points.value} label={T.sites.lastHour} />
      </td>
      <td>
        {newest && (
          <>
            <Badge state={newest.severity} /> {newest.message} <Ago at={newest.lastSeenAt} />
            {alerts.length > 1 && <span class="muted"> {T.sites.more(alerts.length - 1)}</span>}
          </>
        )}
      </td>
    </tr>
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
