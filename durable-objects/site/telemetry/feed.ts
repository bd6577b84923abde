/**
 * Telemetry events for partners. Each has the latest values; there is at most one per interval and, while the
 * plant is online, at least one a minute [C-8.2]. Events are not stored: a crash may lose one, and the next
 * event replaces it.
 */

import type { OperatingMode } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { NO_PUBLISH_MS } from '../../../protocol/link/live.ts';
import type { CanonicalTelemetry } from '../../../protocol/telemetry.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { Clock } from '../../object/clock.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Turn } from '../../object/turn.ts';
import type { PassingEvent } from '../../rpc.ts';
import type { DestinationOf } from '../event/destinations.ts';
import { telemetryEvent } from '../event/event-rows.ts';
import type { SiteIdentity } from '../identity.ts';
import { canonicalTelemetry } from './canonical.ts';
import type { Journal } from './journal.ts';

export interface FeedHost {
  clock: Clock;
  identity: SiteIdentity;
  registry: PlantCopy;
  journal: Journal;
  sessions: { readonly isAnyConnected: boolean };
  destination: DestinationOf;
  operatingMode(now: number): OperatingMode;
  keepAlive(work: Promise<void>): void;
  /** Gets each event while the plant has a stream. */
  plantEvents: { readonly isWatched: boolean; add(event: PassingEvent): void };
}

export class TelemetryFeed implements DueSource {
  readonly name = 'telemetry events';
  readonly #host: FeedHost;

  constructor(host: FeedHost) {
    this.#host = host;
  }

  /** The latest values, with the device's `ts` of the newest one. */
  latest(now: number): { timestamp: string; payload: CanonicalTelemetry } {
    // The clock of a device may be ahead of the platform's clock, but the timestamp must not be in the future.
    const timestamp = formatInstant(Math.min(now, this.#host.journal.snapshot.latestAtMs() ?? now));
    return { timestamp, payload: this.#payload(now) };
  }

  /**
   * Whether new values are sent now. Otherwise they are sent with the next message or the next pulse; no
   * timer is set for them.
   */
  isDue(now: number): boolean {
    return this.#nextMs() <= now;
  }

  /** Sends the current values to every key that may see the plant. */
  emit(now: number): void {
    const { identity, registry, keepAlive, plantEvents } = this.#host;
    if (!identity.known || !registry.record?.plantId) return;
    const event = telemetryEvent(this.#payload(now), now);
    if (plantEvents.isWatched) plantEvents.add(event);
    for (const keyId of registry.keyIds) keepAlive(this.#pass(keyId, event));
  }

  async #pass(keyId: string, event: PassingEvent): Promise<void> {
    try {
      await this.#host.destination(keyId).pass?.(event);
    } catch (error) {
      console.warn('telemetry event not confirmed by its vhost, it is not sent again', {
        keyId,
        reason: reasonOf(error),
      });
    }
  }

  /**
   * When the next pulse of an online plant is due; it also sends the values that wait. While devices send
   * messages no pulse is scheduled, because their messages trigger the events, and a bridge reports when a
   * device stops publishing.
   */
  dueMs(): number | undefined {
    const { journal, registry, sessions, clock } = this.#host;
    if (!sessions.isAnyConnected || !registry.record?.plantId || journal.isEmpty) return undefined;
    if (clock.now() - journal.lastAtMs < NO_PUBLISH_MS) return undefined;
    return Math.max(this.#nextMs(), journal.eventAtMs + LIMIT.telemetryPulseMs);
  }

  run(turn: Turn): void {
    this.#host.journal.noteEvent(turn);
    turn.send(() => this.emit(turn.now));
  }

  #nextMs(): number {
    const { registry, journal } = this.#host;
    const seconds = registry.record?.settings.telemetryIntervalSeconds ?? LIMIT.telemetryIntervalSeconds;
    return journal.eventAtMs + seconds * 1_000;
  }

  #payload(now: number): CanonicalTelemetry {
    const { journal, registry, operatingMode } = this.#host;
    return canonicalTelemetry(journal.snapshot, registry.subDevices, operatingMode(now), now);
  }
}
