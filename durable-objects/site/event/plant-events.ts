/**
 * The last events of a plant, of all keys together, for the people of its organization [C-12.3]. They are
 * only in memory, and only while there is a stream: the events themselves are in the outbox. An object that slept has
 * forgotten them, and a client that resumes then gets `gap`.
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import { SOURCE, VCP_VERSION } from '../../../protocol/envelope.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { EventKind } from '../../../protocol/routing-keys.ts';
import type { Clock } from '../../object/clock.ts';
import type { StreamSource } from '../../object/streams.ts';
import type { PassingEvent } from '../../rpc.ts';
import { SITE_BOUNDS } from '../bounds.ts';

/** How long events are kept after the last stream has ended, so that a client that lost its connection misses none. */
const KEPT_MS = 60_000;

interface PlantEvent {
  sequence: number;
  kind: EventKind;
  messageId: string;
  body: string;
}

export interface PlantEventsHost {
  clock: Pick<Clock, 'now'>;
  siteId(): string;
  /** How many streams are open. */
  watchers(): number;
}

export class PlantEvents implements StreamSource {
  readonly pendingKinds: ReadonlySet<EventKind> = new Set();
  readonly showAtMs = 0;
  readonly #host: PlantEventsHost;
  #events: PlantEvent[] = [];
  #chars = 0;
  #last: number;
  /** Sequence of the last event that was forgotten. */
  #lost: number;
  /** When there was a stream. */
  #watchedAtMs = Number.NEGATIVE_INFINITY;

  constructor(host: PlantEventsHost) {
    this.#host = host;
    // Sequences begin at the clock's milliseconds, so none of an earlier life of the object comes again.
    this.#last = host.clock.now() - 1;
    this.#lost = this.#last;
  }

  get last(): number {
    return this.#last;
  }

  /** Whether there is a stream, or was one a moment ago. */
  get isWatched(): boolean {
    const now = this.#host.clock.now();
    if (this.#host.watchers() > 0) this.#watchedAtMs = now;
    return now - this.#watchedAtMs < KEPT_MS;
  }

  /** Must be called when a stream has closed. */
  left(): void {
    this.#watchedAtMs = this.#host.clock.now();
  }

  /** Must be called before a stream opens: if none was open, events may have gone by. */
  begin(): void {
    if (this.isWatched) return;
    while (this.#events.length > 0) this.#forgetOldest();
    this.#last += 1;
    this.#lost = this.#last;
  }

  /** Adds an event; must be called only while `isWatched`. One that goes to several keys counts once. */
  add(event: PassingEvent): void {
    const newest = this.#events.at(-1);
    if (newest?.messageId === event.messageId && newest.kind === event.kind) return;
    const body = bodyOf(this.#host.siteId(), event);
    this.#last += 1;
    this.#events.push({ sequence: this.#last, kind: event.kind, messageId: event.messageId, body });
    this.#chars += body.length;
    while (this.#events.length > SITE_BOUNDS.plantEvents || this.#chars > SITE_BOUNDS.plantEventChars)
      this.#forgetOldest();
  }

  read({ after, limit, kinds }: Parameters<StreamSource['read']>[0]) {
    const later = this.#events.filter(({ sequence }) => sequence > after);
    const page = later.slice(0, limit);
    const next = later.length > limit ? (page.at(-1)?.sequence ?? after) : Math.max(after, this.#last);
    const events = page.filter(({ kind }) => kinds?.includes(kind) ?? true);
    return { events, next, firstKept: this.#lost + 1, gap: after < this.#lost };
  }

  /** Events of a plant are not stored here. */
  flush(): void {}

  #forgetOldest(): void {
    const oldest = this.#events.shift();
    if (!oldest) return;
    this.#chars -= oldest.body.length;
    this.#lost = oldest.sequence;
  }
}

/** The event as its partner gets it, without the signature: that belongs to a key. */
function bodyOf(siteId: string, { messageId, correlationId, atMs, payloadText }: PassingEvent): string {
  const envelope = signableJson({
    version: VCP_VERSION,
    messageId,
    ...(correlationId === null ? {} : { correlationId }),
    timestamp: formatInstant(atMs),
    source: SOURCE,
    siteId,
  });
  return `${envelope.slice(0, -1)},"payload":${payloadText}}`;
}
