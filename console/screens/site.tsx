/** One site, live: what it does, why, and what waits; and the controls for operators. */
import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { CallError } from '../api/client.ts';
import { readMoment } from '../api/moment.ts';
import { may } from '../api/session.ts';
import {
  LiveSite,
  RANGES,
  type RangeName,
  readChanges,
  readHistory,
  readSite,
  type SiteData,
} from '../api/site.ts';
import type { Latest } from '../api/types.ts';
import { Flow } from '../charts/flow.tsx';
import { PlanLanes } from '../charts/plan-lanes.tsx';
import { Power } from '../charts/power.tsx';
import { Ago, now, Time } from '../parts/format.tsx';
import { Failure, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Heading, Panel } from '../parts/ui.tsx';
import { setQuery, url } from '../router.tsx';
import { T } from '../texts.ts';
import { ControlPanel } from './control.tsx';
import { Absent, AlertsPanel, CommandsPanel, InForce, SubDevices } from './site-panels.tsx';
import { TryIt } from './try-it.tsx';

/** How long the cursor rests until the page shows its moment. A moment costs four requests, of 600 a minute. */
const CURSOR_RESTS_MS = 600;
/** Values older than this are not live. */
const STALE_MS = 8_000;

export function SiteScreen({ params: { plantId = '' } }: { params: Record<string, string> }) {
  const loaded = useLoad(plantId, () => readSite(plantId));
  return <Shown loaded={loaded}>{(site) => <Site site={site} />}</Shown>;
}

function Site({ site: { plant, subDevices, config } }: { site: SiteData }) {
  const live = useMemo(() => new LiveSite(plant.id), [plant.id]);
  useEffect(() => () => live.close(), [live]);
  const given = Date.parse(url.value.searchParams.get('at') ?? '');
  const atMs = Number.isNaN(given) ? null : given;
  const past = useLoad(`moment ${plant.id} ${atMs}`, async () =>
    atMs === null ? undefined : await readMoment(plant.id, atMs),
  );
  const isNow = atMs === null;
  const { explanation, latest, alerts, commands } = isNow ? live.values : { ...past.data };
  const [error, retry] = isNow ? [live.error.value, () => live.readSoon()] : [past.error, past.reload];
  return (
    <>
      <Heading title={plant.name}>
        <Badge state={live.plant.value?.status ?? plant.status} />
        <LiveState live={live} />
      </Heading>
      <section class="sentence" aria-live="polite">
        {atMs !== null && (
          <p class="moment">
            {T.site.at} <Time at={new Date(atMs).toISOString()} />{' '}
            <button type="button" class="small" onClick={() => setQuery({ at: null })}>
              {T.site.backToNow}
            </button>
          </p>
        )}
        {explanation ? (
          <p class="why">{explanation.sentence}</p>
        ) : error ? (
          <Failure error={error} retry={retry} />
        ) : (
          <p class="why">{T.common.loading}</p>
        )}
      </section>
      <div class="columns">
        <FlowPanel latest={latest} isNow={isNow} error={error} />
        {may('OPERATOR') && (
          <ControlPanel
            plantId={plant.id}
            sent={() => live.readSoon()}
            mode={live.explanation.value?.mode ?? config.operatingMode}
          />
        )}
      </div>
      <CoursePanel plantId={plant.id} live={live} atMs={atMs} />
      <div class="columns">
        <InForce explanation={explanation} isNow={isNow} error={error} />
        <AlertsPanel alerts={alerts} error={error} />
      </div>
      <CommandsPanel plantId={plant.id} commands={commands} error={error} />
      <SubDevices subDevices={subDevices} latest={latest} isNow={isNow} />
      {may('OPERATOR') && <TryIt plantId={plant.id} sent={() => live.readSoon()} />}
    </>
  );
}

function FlowPanel({
  latest,
  isNow,
  error,
}: {
  latest: Latest | undefined;
  isNow: boolean;
  error: CallError | undefined;
}) {
  return (
    <Panel title={T.site.flow} className="flow-panel">
      {latest ? (
        <>
          <Flow payload={latest.payload} />
          <p class="muted">
            <Badge state={latest.payload.dataQuality} /> {T.site.measuredAt}{' '}
            {isNow ? <Ago at={latest.timestamp} /> : <Time at={latest.timestamp} />}
          </p>
        </>
      ) : (
        <Absent error={error} />
      )}
    </Panel>
  );
}

function LiveState({ live }: { live: LiveSite }) {
  const isStale = now.value - live.readAtMs.value > STALE_MS;
  const isAway = live.hasFailed.value || live.state.value === 'lost' || isStale;
  const text =
    live.state.value === 'refused'
      ? T.site.refused
      : isAway
        ? T.site.away
        : live.state.value === 'open'
          ? T.site.live
          : T.site.opening;
  return (
    <span class={`live ${isAway ? 'away' : live.state.value}`} role="status">
      {text}
    </span>
  );
}

function CoursePanel({ plantId, live, atMs }: { plantId: string; live: LiveSite; atMs: number | null }) {
  const asked = url.value.searchParams.get('range') ?? '15m';
  const name = (asked in RANGES ? asked : '15m') as RangeName;
  const { ms, apartMs } = RANGES[name];
  const history = useLoad(
    `history ${plantId} ${name}`,
    () => readHistory(plantId, name),
    Math.max(60_000, ms / 100),
  );
  const plan = useLoad(`plan ${plantId} ${name}`, () => readChanges(plantId, name));
  const readAtMs = useRef(Number.NEGATIVE_INFINITY);
  // A command changed the plan.
  useEffect(() => {
    if (live.changed.value <= 1) return undefined;
    const reload = () => {
      readAtMs.current = performance.now();
      void plan.reload();
    };
    const timer = setTimeout(reload, Math.max(0, readAtMs.current + apartMs - performance.now()));
    return () => clearTimeout(timer);
  }, [live.changed.value]);
  const cursor = useSignal<number | null | undefined>(undefined);
  const shownAtMs = cursor.value === undefined ? atMs : cursor.value;
  // The address, and what is read for the moment, follow when the cursor rests.
  useEffect(() => {
    if (cursor.value === undefined) return undefined;
    const timer = setTimeout(() => {
      const to = cursor.value ?? null;
      cursor.value = undefined;
      setQuery({ at: to === null ? null : new Date(to).toISOString() });
    }, CURSOR_RESTS_MS);
    return () => clearTimeout(timer);
  }, [cursor.value]);
  const points = useMemo(() => {
    const known = history.data?.at(-1)?.timestamp ?? '';
    return [...(history.data ?? []), ...live.newPoints.value.filter(({ timestamp }) => timestamp > known)];
  }, [history.data, live.newPoints.value]);
  const nowMs = now.value;
  const range = { fromMs: nowMs - ms, toMs: nowMs + ms / 8 };
  return (
    <Panel title={T.plan.title} className="course" actions={<RangeButtons name={name} />}>
      <Shown loaded={plan}>
        {({ changes, isCut }) => (
          <>
            {isCut && <p class="notice">{T.plan.cut}</p>}
            <PlanLanes
              changes={changes}
              shown={{ ...range, nowMs, isCut }}
              atMs={shownAtMs}
              moveTo={(to) => {
                cursor.value = to;
              }}
            />
            <Shown loaded={history}>
              {() => (
                <Power
                  points={points}
                  changes={changes}
                  shown={{ ...range, nowMs, isCut }}
                  range={name}
                  atMs={shownAtMs}
                />
              )}
            </Shown>
          </>
        )}
      </Shown>
    </Panel>
  );
}

function RangeButtons({ name }: { name: RangeName }) {
  return (
    <fieldset class="ranges" aria-label={T.plan.range}>
      {Object.keys(RANGES).map((one) => (
        <button
          key={one}
          type="button"
          class="small"
          aria-pressed={one === name}
          onClick={() => setQuery({ range: one === '15m' ? null : one })}
        >
          {one}
        </button>
      ))}
    </fieldset>
  );
}
