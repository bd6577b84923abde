/**
 * The live events of a plant or of a key: Server-Sent Events read with `fetch`, because an `EventSource` cannot name the
 * organization or the key. A stream resumes after the last event that it got, and says whether it is connected.
 */
import { type Signal, signal } from '@preact/signals';
import type { EventKind } from '../../protocol/routing-keys.ts';
import { send } from './client.ts';
import { organizationId } from './session.ts';

const SHORTEST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 15_000;
/** The platform sends a comment every 15 seconds. Without one for this long the connection is dead. */
const SILENCE_MS = 40_000;

/** A stream that ends sooner has not worked, and is not opened again at once. */
const WORKED_MS = 10_000;

/** `lost`: the connection broke, and it tries again. */
export type StreamState = 'opening' | 'open' | 'lost' | 'refused';

export interface StreamedEvent {
  kind: EventKind | 'gap';
  id: string | null;
  /** The envelope as JSON text; for a gap the first event that is kept. */
  text: string;
}

export interface EventStream {
  state: Signal<StreamState>;
  close(): void;
}

type OnEvent = (event: StreamedEvent) => void;
/** Sends the request of a stream with these headers. */
type Open = (headers: Record<string, string>, signal: AbortSignal) => Promise<Response>;

/** The events of all keys together, for the session of the browser: without signatures. */
export function openPlantStream(plantId: string, onEvent: OnEvent): EventStream {
  return openStream((headers, signal) => {
    const named = organizationId.value === null ? {} : { 'x-org-id': organizationId.value };
    const url = new URL(`/api/v1/plants/${plantId}/stream`, location.href);
    return send(new Request(url, { headers: { ...headers, ...named }, signal }));
  }, onEvent);
}

/** The events of one API key about a plant, as its partner gets them: signed. The key stays in the memory of the page. */
export function openKeyStream(plantId: string, key: string, onEvent: OnEvent): EventStream {
  return openStream((headers, signal) => {
    const url = new URL(`/api/v1/vcp/events/stream?siteId=${plantId}`, location.href);
    // Without the cookie: a wrong key must not look like an ended session.
    return fetch(url, { headers: { ...headers, 'x-api-key': key }, signal, credentials: 'omit' });
  }, onEvent);
}

function openStream(open: Open, onEvent: OnEvent): EventStream {
  const state = signal<StreamState>('opening');
  const gone = new AbortController();
  void follow(open, state, gone.signal, onEvent);
  return { state, close: () => gone.abort() };
}

async function follow(
  open: Open,
  state: Signal<StreamState>,
  gone: AbortSignal,
  onEvent: (event: StreamedEvent) => void,
): Promise<void> {
  let last: string | null = null;
  let pauseMs = SHORTEST_PAUSE_MS;
  while (!gone.aborted) {
    // A page that nobody sees holds no connection: a browser has few of them for one origin.
    await untilVisible(gone);
    const beganAtMs = performance.now();
    const over = new AbortController();
    const onHidden = () => document.hidden && over.abort();
    document.addEventListener('visibilitychange', onHidden);
    let timer = setTimeout(() => over.abort(), SILENCE_MS);
    try {
      const headers: Record<string, string> = { accept: 'text/event-stream' };
      if (last !== null) headers['last-event-id'] = last;
      const answer = await open(headers, AbortSignal.any([gone, over.signal]));
      // The site may have begun again with lower numbers.
      if (answer.status === 400) last = null;
      if ([401, 403, 404].includes(answer.status)) {
        state.value = 'refused';
        return;
      }
      if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
      state.value = 'open';
      for await (const block of blocksOf(answer.body)) {
        clearTimeout(timer);
        timer = setTimeout(() => over.abort(), SILENCE_MS);
        const event = readBlock(block);
        if (event.id !== null) last = event.id;
        if (event.kind !== null) onEvent({ ...event, kind: event.kind });
      }
    } catch {
      // Why it broke does not matter: it is opened again.
    } finally {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onHidden);
      over.abort();
    }
    // The platform ends a stream after 15 minutes; a new one goes on at once.
    const hasWorked = performance.now() - beganAtMs > WORKED_MS;
    if (hasWorked) pauseMs = SHORTEST_PAUSE_MS;
    if (gone.aborted || document.hidden || hasWorked) continue;
    state.value = 'lost';
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }
}

async function untilVisible(gone: AbortSignal): Promise<void> {
  while (document.hidden && !gone.aborted)
    await new Promise((resolve) => document.addEventListener('visibilitychange', resolve, { once: true }));
}

/** The parts between empty lines. */
async function* blocksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      yield text.slice(0, end);
      text = text.slice(end + 2);
    }
  }
}

function readBlock(block: string): { kind: StreamedEvent['kind'] | null; id: string | null; text: string } {
  const fields = new Map<string, string>();
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1).replace(/^ /, ''));
  }
  const kind = (fields.get('event') as StreamedEvent['kind'] | undefined) ?? null;
  return { kind, id: fields.get('id') ?? null, text: fields.get('data') ?? '' };
}
