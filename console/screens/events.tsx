/** The live tail of a site's events, with filters; one event's JSON. */
import { type Signal, signal, useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { EVENT_KINDS, type EventKind, eventRoutingKey } from '../../protocol/routing-keys.ts';
import { readPlants } from '../api/lists.ts';
import { may, membership, organizationId } from '../api/session.ts';
import { type EventStream, openKeyStream, openPlantStream, type StreamedEvent } from '../api/stream.ts';
import { escaped } from '../parts/escaped.ts';
import { CallForm, Choices, SelectField, TextField } from '../parts/form.tsx';
import { Time } from '../parts/format.tsx';
import { Empty, List, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Code, Heading } from '../parts/ui.tsx';
import { setQuery, url } from '../router.tsx';
import { type Checked, checkSignature } from '../signature.ts';
import { T } from '../texts.ts';

/** Rows that are kept; older ones are dropped. */
const KEPT = 500;
/** How many are shown at once. */
const SHOWN = 100;
/** Events that come within this time are drawn together. */
const DRAW_MS = 100;
/** Characters of a key that are shown. */
const KEY_SHOWN = 12;

interface Row {
  number: number;
  kind: StreamedEvent['kind'];
  at: string | null;
  summary: string;
  text: string;
  /** Undefined: events of the organization carry no signature. */
  verdict: Checked['verdict'] | undefined;
}

/** The API key whose events the page follows, and the signing key of that API key. */
interface Keys {
  key: string;
  signingKey: string;
}

export function EventsScreen() {
  const loaded = useLoad(`plants ${organizationId.value}`, readPlants);
  const keys = useSignal<Keys | undefined>(undefined);
  return (
    <>
      <Heading title={T.events.title}>
        {may('ORG_ADMIN') && <a href="/dead-letters">{T.deadLetters.title}</a>}
        <a href="/signature">{T.signature.title}</a>
      </Heading>
      <Shown loaded={loaded}>
        {(plants) => {
          const asked = url.value.searchParams.get('plant');
          const plant = plants.find(({ id }) => id === asked) ?? plants[0];
          if (!plant) return <Empty>{T.sites.noneToSee}</Empty>;
          return (
            <>
              <SelectField
                label={T.events.plant}
                value={plant.id}
                onChange={(event) => setQuery({ plant: event.currentTarget.value })}
              >
                <Choices chosen={plant.id} of={plants} />
              </SelectField>
              <AsKey keys={keys} />
              <Tail key={`${plant.id} ${keys.value?.key}`} plantId={plant.id} keys={keys.value} />
            </>
          );
        }}
      </Shown>
    </>
  );
}

/** Lets the reader follow the events of one API key instead of those of the organization; the browser checks each signature. */
function AsKey({ keys }: { keys: Signal<Keys | undefined> }) {
  const follow = async (form: FormData) => {
    const text = (name: string) => String(form.get(name)).trim();
    keys.value = { key: text('key'), signingKey: text('signingKey') };
  };
  if (keys.value)
    return (
      <p>
        {T.events.asKey(keys.value.key.slice(0, KEY_SHOWN))}{' '}
        <button
          type="button"
          class="small"
          onClick={() => {
            keys.value = undefined;
          }}
        >
          {T.events.asOrganization}
        </button>
      </p>
    );
  return (
    <details>
      <summary>{T.events.followKey}</summary>
      <p class="muted">{T.events.followHint}</p>
      <CallForm submit={follow} label={T.events.follow}>
        <TextField label={T.keys.key} name="key" type="password" autocomplete="off" required />
        <TextField label={T.keys.signingKey} name="signingKey" type="password" autocomplete="off" required />
      </CallForm>
    </details>
  );
}

/** The events of a stream, drawn a few times a second however many come. */
class Events {
  readonly rows = signal<readonly Row[]>([]);
  #waiting: Row[] = [];
  #count = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  add({ kind, text }: StreamedEvent, verdict?: Row['verdict']): void {
    this.#count += 1;
    this.#waiting.push({ number: this.#count, kind, text, verdict, ...summaryOf(kind, text) });
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

/** Opens the stream of the organization or of a key. The events of a key are checked one after the other, in their order. */
function openTail(plantId: string, keys: Keys | undefined, add: Events['add']): EventStream {
  if (!keys) return openPlantStream(plantId, (event) => add(event));
  const slug = membership.peek()?.slug ?? '';
  let before = Promise.resolve();
  return openKeyStream(plantId, keys.key, (event) => {
    const { kind, text } = event;
    before = before.then(async () => {
      if (kind === 'gap') return add(event);
      // A key that no browser takes, such as an empty one, must not stop the events.
      const checked = await checkSignature(text, eventRoutingKey(slug, kind), keys.signingKey).catch(
        () => undefined,
      );
      add(event, checked?.verdict ?? 'unreadable');
    });
  });
}

function Tail({ plantId, keys }: { plantId: string; keys: Keys | undefined }) {
  const events = useMemo(() => new Events(), []);
  const isPaused = useSignal(false);
  const stream = useMemo(
    () => openTail(plantId, keys, (event, verdict) => !isPaused.value && events.add(event, verdict)),
    [],
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
        <SelectField
          label={T.events.type}
          value={kind ?? ''}
          onChange={(event) => setQuery({ type: event.currentTarget.value || null })}
        >
          <option value="">{T.events.all}</option>
          <Choices
            chosen={kind}
            of={EVENT_KINDS.map((one: EventKind) => ({ id: one, name: T.events.kinds[one] }))}
          />
        </SelectField>
        <TextField
          label={T.events.search}
          type="search"
          value={search}
          onInput={(event) => setQuery({ q: event.currentTarget.value || null })}
        />
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
          {stream.state.value === 'refused' && keys
            ? T.events.keyRefused
            : T.events.states[stream.state.value]}
        </span>
      </div>
      <List of={rows} none={T.events.none}>
        <ol class="tail">
          {rows.slice(0, SHOWN).map((row) => (
            <li key={row.number}>
              <details>
                <summary>
                  {row.at ? <Time at={row.at} /> : ''} <Badge state={row.kind} />{' '}
                  {row.verdict && (
                    <Badge
                      state={row.verdict === 'valid' ? 'signed' : row.verdict}
                      tone={row.verdict === 'valid' ? 'good' : 'bad'}
                    />
                  )}{' '}
                  {escaped(row.summary)}
                </summary>
                {row.text !== '' && (
                  <Code
                    label={T.events.json}
                    text={JSON.stringify(JSON.parse(row.text), null, 2)}
                    exact={row.text}
                  />
                )}
              </details>
            </li>
          ))}
        </ol>
      </List>
    </>
  );
}
