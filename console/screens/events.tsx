/** The live tail of a site's events, with filters; one event's JSON. */
import { signal, useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { EVENT_KINDS, type EventKind } from '../../protocol/routing-keys.ts';
import { readPlants } from '../api/lists.ts';
import { organizationId } from '../api/session.ts';
import { openPlantStream, type StreamedEvent } from '../api/stream.ts';
import { Time } from '../parts/format.tsx';
import { Empty, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Code, Field, Heading } from '../parts/ui.tsx';
import { setQuery, url } from '../router.tsx';
import { T } from '../texts.ts';

/** Rows that are kept; older ones are dropped. */
const KEPT = 500;
/** How many are shown at once. */
const SHOWN = 100;
/** Events that come within this time are drawn together. */
const DRAW_MS = 100;

interface Row {
  number: number;
  kind: StreamedEvent['kind'];
  at: string | null;
  summary: string;
  text: string;
}

export function EventsScreen() {
  const loaded = useLoad(`plants ${organizationId.value}`, readPlants);
  return (
    <>
      <Heading title={T.events.title}>
        <a href="/signature">{T.signature.title}</a>
      </Heading>
      <Shown loaded={loaded}>
        {(plants) => {
          const asked = url.value.searchParams.get('plant');
          const plant = plants.find(({ id }) => id === asked) ?? plants[0];
          if (!plant) return <Empty>{T.sites.noneToSee}</Empty>;
          return (
            <>
              <Field label={T.events.plant}>
                {(attributes) => (
                  <select
                    {...attributes}
                    value={plant.id}
                    onChange={(event) => setQuery({ plant: event.currentTarget.value })}
                  >
                    {plants.map(({ id, name }) => (
                      <option key={id} value={id}>
                        {name}
                      </option>
                    ))}
                  </select>
                )}
              </Field>
              <Tail key={plant.id} plantId={plant.id} />
            </>
          );
        }}
      </Shown>
    </>
  );
}

/** The events of a stream, drawn a few times a second however many come. */
class Events {
  readonly rows = signal<readonly Row[]>([]);
  #waiting: Row[] = [];
  #count = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  add({ kind, text }: StreamedEvent): void {
    this.#count += 1;
    this.#waiting.push({ number: this.#count, kind, text, ...summaryOf(kind, text) });
    if (this.#waiting.length > KEPT) this.#waiting.shift();
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.rows.value = [...this.#waiting.reverse(), ...this.rows.value].slice(0, KEPT);
      this.#waiting = [];
    }, DRAW_MS);
  }
}

function summaryOf(kind: Row['kind'], text: string): Pick<Row, 'at' | 'summary'> {
  if (kind === 'gap') return { at: null, summary: T.events.gap };
  const { timestamp, payload } = JSON.parse(text) as { timestamp: string; payload: Record<string, unknown> };
  const wanted = [
    'commandType',
    'status',
    'type',
    'message',
    'rejectionCode',
    'reason',
    'gridPowerKw',
    'dataQuality',
  ];
  const parts = wanted.flatMap((name) =>
    payload[name] === undefined || payload[name] === null ? [] : [String(payload[name])],
  );
  return { at: timestamp, summary: parts.join(' · ') };
}

function Tail({ plantId }: { plantId: string }) {
  const events = useMemo(() => new Events(), [plantId]);
  const isPaused = useSignal(false);
  const stream = useMemo(
    () => openPlantStream(plantId, (event) => !isPaused.value && events.add(event)),
    [plantId],
  );
  useEffect(() => () => stream.close(), [stream]);
  const kind = EVENT_KINDS.find((one) => one === url.value.searchParams.get('type'));
  const search = (url.value.searchParams.get('q') ?? '').toLowerCase();
  const rows = events.rows.value.filter(
    (row) =>
      (kind === undefined || row.kind === kind) && (search === '' || row.text.toLowerCase().includes(search)),
  );
  return (
    <>
      <div class="filters">
        <Field label={T.events.type}>
          {(attributes) => (
            <select
              {...attributes}
              value={kind ?? ''}
              onChange={(event) => setQuery({ type: event.currentTarget.value || null })}
            >
              <option value="">{T.events.all}</option>
              {EVENT_KINDS.map((one: EventKind) => (
                <option key={one} value={one}>
                  {T.events.kinds[one]}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={T.events.search}>
          {(attributes) => (
            <input
              {...attributes}
              type="search"
              value={search}
              onInput={(event) => setQuery({ q: event.currentTarget.value || null })}
            />
          )}
        </Field>
        <button
          type="button"
          aria-pressed={isPaused.value}
          onClick={() => {
            isPaused.value = !isPaused.value;
          }}
        >
          {isPaused.value ? T.events.goOn : T.events.pause}
        </button>
        <span class={`live ${stream.state.value}`} role="status">
          {T.events.states[stream.state.value]}
        </span>
      </div>
      {rows.length === 0 ? (
        <Empty>{T.events.none}</Empty>
      ) : (
        <ol class="tail">
          {rows.slice(0, SHOWN).map((row) => (
            <li key={row.number}>
              <details>
                <summary>
                  {row.at ? <Time at={row.at} /> : ''} <Badge state={row.kind} /> {row.summary}
                </summary>
                {row.text !== '' && (
                  <Code label={T.events.json} text={JSON.stringify(JSON.parse(row.text), null, 2)} />
                )}
              </details>
            </li>
          ))}
        </ol>
      )}
    </>
  );
}
