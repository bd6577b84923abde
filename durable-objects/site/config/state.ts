/** The stored configuration and mode of a site: what partners read and what commands are checked against [C-2.3]. */
import type { OperatingMode } from '../../../protocol/enums.ts';
import { parseInstant } from '../../../protocol/ids.ts';
import { DEFAULT_SITE_CONFIG, type ModeOverride, type SiteConfig } from '../../../protocol/site-config.ts';
import type { Facts } from '../../object/facts.ts';
import type { Turn } from '../../object/turn.ts';

type ConfigurationFact = 'config' | 'modeOverride' | 'configuredGateway';

export class ConfigurationState {
  readonly #facts: Facts<ConfigurationFact>;
  #config: SiteConfig;
  #override: ModeOverride | null;
  /** The gateway that was sent configuration and schedules last; undefined: there was nothing to send yet. */
  #configuredGateway: string | null | undefined;

  constructor(facts: Facts<ConfigurationFact>) {
    this.#facts = facts;
    this.#config = facts.get<SiteConfig>('config') ?? DEFAULT_SITE_CONFIG;
    this.#override = facts.get<ModeOverride | null>('modeOverride') ?? null;
    this.#configuredGateway = facts.get<string | null>('configuredGateway');
  }

  /** Whether a gateway must still be sent what it needs to run without the platform: configuration and schedules. */
  isOwedTo(gatewayId: string): boolean {
    return this.#configuredGateway !== undefined && this.#configuredGateway !== gatewayId;
  }

  /** `deviceId`: the gateway that is sent them now; null: there is no gateway. */
  noteConfigured(turn: Turn, deviceId: string | null): void {
    const before = this.#configuredGateway;
    if (before === deviceId) return;
    turn.undo(() => {
      this.#configuredGateway = before;
    });
    this.#configuredGateway = deviceId;
    this.#facts.set(turn, 'configuredGateway', deviceId);
  }

  get config(): SiteConfig {
    return this.#config;
  }

  /** Null when there is no override or it has expired. */
  activeOverride(now: number): ModeOverride | null {
    const override = this.#override;
    return override && (parseInstant(override.validUntil) ?? 0) > now ? override : null;
  }

  /** When the mode override expires; undefined when there is none. */
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

  /** Changes the site's operating mode, which ends an override [C-7.7]. */
  setMode(turn: Turn, mode: OperatingMode): void {
    this.configure(turn, { ...this.#config, operatingMode: mode });
    this.#setOverride(turn, null);
  }

  /** A mode until a time. */
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
