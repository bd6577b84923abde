/**
 * What partners are told of a plant's values: coalesced, the latest wins, at most once per interval and, while the
 * plant is online, at least once a minute [C-8.2]. A crash may lose one of these events: the next one tells more.
 */
import { formatInstant } from '../../../protocol/ids.ts';
import type { CanonicalTelemetry } from '../../../protocol/telemetry.ts';
import type { Env } from '../../env.ts';
import { telemetryEvent } from '../events.ts';
import type { SiteState } from '../state.ts';
import { canonicalTelemetry } from './snapshot.ts';

/** How often a plant that is online and silent still tells its latest values [C-8.2]. */
const HEARTBEAT_MS = 60_000;
/** A wait for the next event that is no longer than this keeps the object awake; a longer one does not. */
const MAX_TIMER_MS = 15_000;

export class TelemetryFeed {
  readonly #state: SiteState;
  readonly #ctx: DurableObjectState;
  readonly #vhosts: Env['VHOST'];
  #timer: number | null = null;
  /** A value came that partners have not been told. */
  #isPending = false;

  constructor(state: SiteState, ctx: DurableObjectState, env: Env) {
    this.#state = state;
    this.#ctx = ctx;
    this.#vhosts = env.VHOST;
  }

  /** The latest values, and the moment of the newest of them. */
  latest(now: number): { timestamp: string; payload: CanonicalTelemetry } {
    const timestamp = formatInstant(this.#state.journal.snapshot.latestAtMs() ?? now);
    return { timestamp, payload: this.#payload(now) };
  }

  /** Whether values that came now go out now. */
  isDue(now: number): boolean {
    return this.#dueMs() <= now;
  }

  /** Values came and are stored. What is not due waits for a timer or, longer, for the agenda. */
  note(isDue: boolean, now: number): void {
    if (isDue) {
      this.emit(now);
      return;
    }
    this.#isPending = true;
    const waitMs = this.#dueMs() - now;
    if (this.#timer !== null || waitMs > MAX_TIMER_MS) return;
    this.#timer = setTimeout(() => this.emit(this.#state.now()), Math.max(0, waitMs));
  }

  /** When an event is due that no timer brings: what waits for its interval, and the pulse of a silent plant. */
  agendaMs(): number | undefined {
    const { head } = this.#state.journal;
    const connected = this.#state.sessions.devices().some((device) => device.connection_id);
    if (!head || !connected || !this.#state.registry?.plantId) return undefined;
    const due = this.#dueMs();
    if (this.#isPending && this.#timer === null) return due;
    return Math.max(due, head.eventAtMs + HEARTBEAT_MS);
  }

  emitIfDue(now: number): void {
    const due = this.agendaMs();
    if (due !== undefined && due <= now) this.emit(now);
  }

  emit(now: number): void {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#isPending = false;
    const { siteId, registry, journal } = this.#state;
    if (!siteId || !registry?.plantId) return;
    if (journal.head) journal.head = { ...journal.head, eventAtMs: now };
    const event = telemetryEvent(siteId, this.#payload(now), now);
    for (const keyId of registry.keyIds) {
      const stub = this.#vhosts.get(this.#vhosts.idFromName(keyId));
      this.#ctx.waitUntil(
        stub.receivePassing(siteId, [event]).catch((error: unknown) => {
          console.warn('telemetry event lost', { keyId, error: String(error) });
        }),
      );
    }
  }

  #dueMs(): number {
    const intervalMs = (this.#state.registry?.settings.telemetryIntervalSeconds ?? 10) * 1_000;
    return (this.#state.journal.head?.eventAtMs ?? 0) + intervalMs;
  }

  #payload(now: number): CanonicalTelemetry {
    const state = this.#state;
    return canonicalTelemetry(state.journal.snapshot, state.subDevices(), state.operatingMode(now), now);
  }
}
