/** Events of the journal that are only in memory. */
import type { EventKind } from '../../../protocol/routing-keys.ts';
import { utf8Length } from '../../../protocol/utf8.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import type { Safety } from '../queue/rows.ts';
import { eventLine } from './line.ts';

/**
 * How long telemetry may be only in memory. The runtime evicts an idle object after ten seconds, and the alarm must
 * come before.
 */
const TELEMETRY_MS = 8_000;
/** An alarm costs a row, too. It is worth it from this many events in TELEMETRY_MS on; fewer are stored at once. */
const FREQUENT_EVENTS = 4;

export interface PendingEvent {
  line: string;
  bytes: number;
  atMs: number;
  safety: Safety | undefined;
}

export class PendingEvents {
  #events: PendingEvent[] = [];
  #bytes = 0;
  readonly kinds = new Set<EventKind>();
  /** The first outbox sequence of each site. */
  readonly #sites = new Map<string, number>();
  #mustStoreAtOnce = false;
  /** Time of the oldest telemetry event. */
  #telemetrySinceMs: number | undefined;
  /** Times of the last FREQUENT_EVENTS telemetry events, stored or not. */
  readonly #telemetryAtMs: number[] = [];

  get isEmpty(): boolean {
    return this.#events.length === 0;
  }

  add(
    turn: Turn,
    event: { kind: EventKind; siteId: string; body: string },
    safety: Safety | undefined,
    isAtOnce: boolean,
  ): void {
    const line = eventLine(event);
    const bytes = utf8Length(line);
    this.#events.push({ line, bytes, atMs: turn.now, safety });
    this.#bytes += bytes;
    this.kinds.add(event.kind);
    if (typeof safety === 'object' && !this.#sites.has(safety.siteId))
      this.#sites.set(safety.siteId, safety.sequence);
    if (safety !== 'passing') {
      this.#mustStoreAtOnce ||= isAtOnce || safety === undefined;
      return;
    }
    this.#telemetrySinceMs ??= turn.now;
    if (this.#telemetryAtMs.push(turn.now) > FREQUENT_EVENTS) this.#telemetryAtMs.shift();
  }

  /** The first outbox sequence of a site; undefined if it has no event here. */
  first(siteId: string): number | undefined {
    return this.#sites.get(siteId);
  }

  /** Whether the events must be stored by the end of this turn. `isRead`: a reader wants telemetry from the journal. */
  mustStore(now: number, isRead: boolean): boolean {
    const { journalPending, journalPendingBytes } = VHOST_BOUNDS;
    if (this.#mustStoreAtOnce || this.#events.length >= journalPending || this.#bytes >= journalPendingBytes)
      return true;
    return this.#telemetrySinceMs !== undefined && isRead && !this.#isTelemetryFrequent(now);
  }

  /** Since when telemetry is here; undefined if there is none. */
  get telemetrySinceMs(): number | undefined {
    return this.#telemetrySinceMs;
  }

  /** When the telemetry that is here must be stored; undefined if there is none. */
  get telemetryAtMs(): number | undefined {
    return this.#telemetrySinceMs === undefined ? undefined : this.#telemetrySinceMs + TELEMETRY_MS;
  }

  #isTelemetryFrequent(now: number): boolean {
    const [oldest] = this.#telemetryAtMs;
    const isMany = this.#telemetryAtMs.length >= FREQUENT_EVENTS;
    return isMany && oldest !== undefined && now - oldest < TELEMETRY_MS;
  }

  /** Returns the events and forgets them. */
  take(): PendingEvent[] {
    const events = this.#events;
    this.#events = [];
    this.#bytes = 0;
    this.kinds.clear();
    this.#sites.clear();
    this.#mustStoreAtOnce = false;
    this.#telemetrySinceMs = undefined;
    return events;
  }
}
