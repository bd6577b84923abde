/** A row of the list of sites. It reads its live values while it is on the screen. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { api, read } from '../api/client.ts';
import { explain } from '../api/site.ts';
import type { Alert, Latest, Plant, Point } from '../api/types.ts';
import { Sparkline } from '../charts/sparkline.tsx';
import { Ago, kw } from '../parts/format.tsx';
import { Badge } from '../parts/ui.tsx';
import { T } from '../texts.ts';
import { type Attention, SEVERITIES } from './trouble.ts';

/** Thirty rows on the screen then make 150 requests a minute, of 600. */
const LATEST_MS = 20_000;
const EXPLAIN_MS = 40_000;
const HOUR_MS = 5 * 60_000;
const HOUR = 3_600_000;
/** Rows that read at the same time. */
const READERS = 4;

/** What the rows that were on the screen have found of their sites: the list is sorted by it when it is read again. */
export const found = new Map<string, Attention>();

async function readAttention(id: string): Promise<Attention> {
  const { waiting, measured } = await explain(id, null);
  return {
    deviates: measured?.verdict === 'DEVIATES' || measured?.verdict === 'DEVIATED',
    waiting: waiting.filter(({ commandId }) => commandId !== null).length,
  };
}

let running = 0;
const waiting: (() => void)[] = [];

/** Lets a few rows read at a time. */
async function inTurn(work: () => Promise<void>): Promise<void> {
  if (running >= READERS) await new Promise<void>((resolve) => waiting.push(resolve));
  running += 1;
  try {
    await work();
  } finally {
    running -= 1;
    waiting.shift()?.();
  }
}

/** The course of the last hour; of a site that has just begun, its first readings. */
async function readHour(id: string): Promise<Point[]> {
  const now = Date.now();
  const course = async (granularity: 'raw' | '5m', sinceMs: number) => {
    const [from, to] = [new Date(now - sinceMs).toISOString(), new Date(now).toISOString()];
    const query = { metric: 'gridPowerKw', from, to, granularity };
    const call = api.GET('/api/v1/plants/{id}/telemetry', { params: { path: { id }, query } });
    return (await read(call)).readings;
  };
  const hour = await course('5m', HOUR);
  return hour.length > 1 ? hour : await course('raw', HOUR / 6);
}

export function SiteRow({ plant, alerts }: { plant: Plant; alerts: Alert[] }) {
  const row = useRef<HTMLTableRowElement>(null);
  const latest = useSignal<Latest | undefined>(undefined);
  const points = useSignal<Point[]>([]);
  const attention = useSignal<Attention | undefined>(found.get(plant.id));
  const hasFailed = useSignal(false);
  useEffect(() => {
    let isShown = false;
    let isGone = false;
    let isQueued = false;
    let hourAtMs = 0;
    let explainAtMs = 0;
    const readValues = async () => {
      if (!isShown || isGone || document.hidden) return;
      try {
        const path = { params: { path: { id: plant.id } } };
        latest.value = await read(api.GET('/api/v1/plants/{id}/telemetry/latest', path));
        if (Date.now() - explainAtMs > EXPLAIN_MS && !isGone) {
          explainAtMs = Date.now();
          attention.value = await readAttention(plant.id);
          found.set(plant.id, attention.value);
        }
        if (Date.now() - hourAtMs > HOUR_MS && !isGone) {
          hourAtMs = Date.now();
          points.value = await readHour(plant.id);
        }
        hasFailed.value = false;
      } catch {
        hasFailed.value = true;
      }
    };
    const readSoon = () => {
      if (isQueued || !isShown) return;
      isQueued = true;
      void inTurn(readValues).finally(() => {
        isQueued = false;
      });
    };
    const timer = setInterval(readSoon, LATEST_MS);
    const observer = new IntersectionObserver(([entry]) => {
      isShown = entry?.isIntersecting ?? false;
      if (latest.value === undefined) readSoon();
    });
    if (row.current) observer.observe(row.current);
    return () => {
      isGone = true;
      observer.disconnect();
      clearInterval(timer);
    };
  }, [plant.id]);
  const payload = latest.value?.payload;
  const newest = [...alerts].sort(
    (one, other) => SEVERITIES.indexOf(other.severity) - SEVERITIES.indexOf(one.severity),
  )[0];
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
        {payload ? kw(payload.gridPowerKw) : '…'}{' '}
        {payload && payload.dataQuality !== 'GOOD' && <Badge state={payload.dataQuality} />}
        {attention.value?.deviates && <Badge state="DEVIATES" tone="warning" />}
        {hasFailed.value && <span class="inline-error">{T.sites.notRead}</span>}
      </td>
      <td>
        <Sparkline points={points.value} label={T.sites.lastHour} />
      </td>
      <td>{attention.value && attention.value.waiting > 0 && T.sites.waits(attention.value.waiting)}</td>
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
