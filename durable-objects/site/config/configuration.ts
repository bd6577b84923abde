/** A site's configuration and mode as they stand: what partners read, what the checks hold commands to [C-2.3]. */
import type { OperatingMode } from '../../../protocol/enums.ts';
import { parseInstant } from '../../../protocol/ids.ts';
import { DEFAULT_SITE_CONFIG, type ModeOverride, type SiteConfig } from '../../../protocol/site-config.ts';
import type { Facts } from '../../object/facts.ts';
import type { Turn } from '../../object/turn.ts';

type ConfigurationFact = 'config' | 'modeOverride' | 'agreedWith';

export class SiteConfiguration {
  readonly #facts: Facts<ConfigurationFact>;
  #config: SiteConfig;
  #override: ModeOverride | null;
  /** Undefined: there was nothing to tell yet. */
  #agreedWith: string | null | undefined;

  constructor(facts: Facts<ConfigurationFact>) {
    this.#facts = facts;
    this.#config = facts.get<SiteConfig>('config') ?? DEFAULT_SITE_CONFIG;
    this.#override = facts.get<ModeOverride | null>('modeOverride') ?? null;
    this.#agreedWith = facts.get<string | null>('agreedWith');
  }

  /** Whether a gateway is still to be told of what a plant keeps for when nobody reaches it: configuration and schedules. */
  isOwedTo(gatewayId: string): boolean {
    return this.#agreedWith !== undefined && this.#agreedWith !== gatewayId;
  }

  /** `deviceId`: the gateway that is told of it now; null: none is there. */
  noteAgreed(turn: Turn, deviceId: string | null): void {
    const before = this.#agreedWith;
    if (before === deviceId) return;
    turn.undo(() => {
      this.#agreedWith = before;
    });
    this.#agreedWith = deviceId;
    this.#facts.set(turn, 'agreedWith', deviceId);
  }

  get config(): SiteConfig {
    return this.#config;
  }

  /** Null once it has expired. */
  activeOverride(now: number): ModeOverride | null {
    const override = this.#override;
    return override && (parseInstant(override.validUntil) ?? 0) > now ? override : null;
  }

  /** When the mode for a while ends; undefined while there is none. */
  overrideEndsAtMs(now: number): number | undefined {
    const override = this.activeOverride(now);
    return override ? parseInstant(override.validUntil) : undefined;
  }

  operatingMode(now: number): OperatingMode {
    return this.activeOverride(now)?.mode ?? this.#config.operatingMode;
  }

  configure(turn: Turn, config: SiteConfig): void {
    const before = this.#config;
    turn.undo(() => {
      this.#config = before;
    });
    this.#config = config;
    this.#facts.set(turn, 'config', config);
  }

  /** The mode for good: it ends an override [C-7.7]. */
  setMode(turn: Turn, mode: OperatingMode): void {
    this.configure(turn, { ...this.#config, operatingMode: mode });
    this.#setOverride(turn, null);
  }

  /** A mode for a while. */
  overrideMode(turn: Turn, override: ModeOverride): void {
    this.#setOverride(turn, override);
  }

  #setOverride(turn: Turn, override: ModeOverride | null): void {
    const before = this.#override;
    turn.undo(() => {
      this.#override = before;
    });
    this.#override = override;
    this.#facts.set(turn, 'modeOverride', override);
  }
}
