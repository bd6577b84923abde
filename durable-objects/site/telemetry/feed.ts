/**
 * What partners are told of a plant's values: coalesced, the latest wins, at most once per interval and, while the
 * plant is online, at least once a minute [C-8.2]. A crash may lose one of these events: the next one tells more.
 */
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { LULL_MS } from '../../../protocol/link/live.ts';
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

  constructor(parts: FeedParts, deliver: (keyId: string, siteId: string, event: PassingEvent) => void) {
    this.#parts = parts;
    this.#deliver = deliver;
  }

  /** The latest values, and the moment of the newest of them, as its device says. */
  latest(now: number): { timestamp: string; payload: CanonicalTelemetry } {
    // A device's clock may be ahead of ours.
    const timestamp = formatInstant(Math.min(now, this.#parts.journal.snapshot.latestAtMs() ?? now));
    return { timestamp, payload: this.#payload(now) };
  }

  /** Whether values that came now go out now; else they wait for the next message or the pulse. No timer does it. */
  isDue(now: number): boolean {
    return this.#nextMs() <= now;
  }

  /** What is known now, to every key that may see the plant. */
  emit(now: number): void {
    const { identity, registry } = this.#parts;
    if (!identity.known || !registry.record?.plantId) return;
    const event = telemetryEvent(this.#payload(now), now);
    for (const keyId of registry.keyIds) this.#deliver(keyId, identity.known, event);
  }

  /**
   * The pulse of a plant that is online: what waited goes with it. While one of its devices sends, no alarm stands for
   * it: the bridges tell of those that do not.
   */
  dueMs(): number | undefined {
    const { journal, registry, sessions, clock } = this.#parts;
    if (!sessions.isAnyConnected || !registry.record?.plantId || journal.isEmpty) return undefined;
    const isBusy = clock.now() - journal.lastAtMs < LULL_MS;
    if (isBusy && sessions.areLullsTold) return undefined;
    return Math.max(this.#nextMs(), journal.eventAtMs + LIMIT.telemetryPulseMs);
  }

  run(turn: Turn): void {
    this.#parts.journal.noteEvent(turn);
    turn.send(() => this.emit(turn.now));
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
