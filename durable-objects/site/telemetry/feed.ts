/**
 * What partners are told of a plant's values: coalesced, the latest wins, at most once per interval and, while the
 * plant is online, at least once a minute [C-8.2]. A crash may lose one of these events: the next one tells more.
 */
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { CanonicalTelemetry } from '../../../protocol/telemetry.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { Clock } from '../../object/clock.ts';
import type { Turn } from '../../object/turn.ts';
import type { PlantCopy } from '../../registry/plant-copy.ts';
import type { PassingEvent } from '../../rpc.ts';
import type { SiteConfiguration } from '../config/configuration.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import { telemetryEvent } from '../event/events.ts';
import type { SiteIdentity } from '../identity.ts';
import { canonicalTelemetry } from './canonical.ts';
import type { Journal } from './journal.ts';

/** A wait for the next event that is no longer than this keeps the object awake; a longer one does not. */
const MAX_TIMER_MS = 15_000;

export interface FeedParts {
  clock: Clock;
  identity: SiteIdentity;
  registry: PlantCopy;
  journal: Journal;
  sessions: DeviceSessions;
  configuration: SiteConfiguration;
}

export class TelemetryFeed implements DueSource {
  readonly name = 'telemetry events';
  readonly #parts: FeedParts;
  readonly #deliver: (keyId: string, siteId: string, event: PassingEvent) => void;
  #timer: number | null = null;
  /** A value came that partners have not been told. */
  #isPending = false;

  constructor(parts: FeedParts, deliver: (keyId: string, siteId: string, event: PassingEvent) => void) {
    this.#parts = parts;
    this.#deliver = deliver;
  }

  /** The latest values, and the moment of the newest of them. */
  latest(now: number): { timestamp: string; payload: CanonicalTelemetry } {
    const timestamp = formatInstant(this.#parts.journal.snapshot.latestAtMs() ?? now);
    return { timestamp, payload: this.#payload(now) };
  }

  /** Whether values that came now go out now. */
  isDue(now: number): boolean {
    return this.#nextMs() <= now;
  }

  /** Values came and are stored. What is not due waits for a timer or, longer, for the agenda. */
  note(isDue: boolean, now: number): void {
    if (isDue) {
      this.#emit(now);
      return;
    }
    this.#isPending = true;
    const waitMs = this.#nextMs() - now;
    if (this.#timer !== null || waitMs > MAX_TIMER_MS) return;
    this.#timer = setTimeout(() => this.#emit(this.#parts.clock.now()), Math.max(0, waitMs));
  }

  /** When an event is due that no timer brings: what waits for its interval, and the pulse of a silent plant. */
  dueMs(): number | undefined {
    const { journal, registry, sessions } = this.#parts;
    if (!sessions.isAnyConnected || !registry.record?.plantId || journal.isEmpty) return undefined;
    const nextMs = this.#nextMs();
    if (this.#isPending && this.#timer === null) return nextMs;
    return Math.max(nextMs, journal.eventAtMs + LIMIT.telemetryPulseMs);
  }

  run(turn: Turn): void {
    turn.send(() => this.#emit(turn.now));
  }

  #emit(now: number): void {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#isPending = false;
    const { identity, registry, journal } = this.#parts;
    if (!identity.known || !registry.record?.plantId) return;
    journal.noteEvent(now);
    const event = telemetryEvent(identity.known, this.#payload(now), now);
    for (const keyId of registry.keyIds) this.#deliver(keyId, identity.known, event);
  }

  #nextMs(): number {
    const { registry, journal } = this.#parts;
    const seconds = registry.record?.settings.telemetryIntervalSeconds ?? LIMIT.telemetryIntervalSeconds;
    return journal.eventAtMs + seconds * 1_000;
  }

  #payload(now: number): CanonicalTelemetry {
    const { journal, registry, configuration } = this.#parts;
    return canonicalTelemetry(journal.snapshot, registry.subDevices, configuration.operatingMode(now), now);
  }
}
