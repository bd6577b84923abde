/** The stored configuration and mode of a site: what partners read and what commands are checked against [C-2.3]. */
import type { OperatingMode } from '../../../protocol/enums.ts';
import { parseInstant } from '../../../protocol/ids.ts';
import { DEFAULT_SITE_CONFIG, type ModeOverride, type SiteConfig } from '../../../protocol/site-config.ts';
import type { Asker } from '../../ask-rpc.ts';
import type { KeyValues } from '../../object/key-values.ts';
import type { Turn } from '../../object/turn.ts';
import { isSeen, organizationFor } from '../sight.ts';
import { Fact, type SiteFact } from '../stored.ts';

/** An override with the partner that set it. `setBy` null: a person set it. */
type StoredOverride = ModeOverride & { partnerId: string };

export class ConfigurationState {
  readonly #config: Fact<SiteConfig>;
  readonly #override: Fact<StoredOverride | null>;
  /**
   * The gateway that was sent configuration and schedules last. Null: there was no gateway to send them to.
   * Undefined: there was nothing to send yet.
   */
  readonly #configuredGateway: Fact<string | null | undefined>;
  readonly #changed: () => void;

  /** `changed`: called when the configuration or the mode has changed. */
  constructor(values: KeyValues<SiteFact>, changed: () => void) {
    this.#changed = changed;
    this.#config = new Fact<SiteConfig>(values, 'config', DEFAULT_SITE_CONFIG);
    this.#override = new Fact<StoredOverride | null>(values, 'modeOverride', null);
    this.#configuredGateway = new Fact<string | null | undefined>(values, 'configuredGateway', undefined);
  }

  /**
   * Whether configuration and schedules, which a gateway needs to work without the platform, must still be
   * sent to this gateway.
   */
  isOwedTo(gatewayId: string): boolean {
    const { value } = this.#configuredGateway;
    return value !== undefined && value !== gatewayId;
  }

  /** Notes the gateway that is sent configuration and schedules now; null: there is no gateway. */
  noteConfigured(turn: Turn, deviceId: string | null): void {
    if (this.#configuredGateway.value !== deviceId) this.#configuredGateway.set(turn, deviceId);
  }

  get config(): SiteConfig {
    return this.#config.value;
  }

  /** Null when there is no override or it has expired. */
  activeOverride(now: number): StoredOverride | null {
    const override = this.#override.value;
    return override && (parseInstant(override.validUntil) ?? 0) > now ? override : null;
  }

  /** Of the override of another partner an asker sees the mode and its times [C-15.1]. */
  overrideFor(asker: Asker, now: number): ModeOverride | null {
    const override = this.activeOverride(now);
    if (!override) return null;
    const { partnerId, ...shown } = override;
    if (!isSeen(asker, partnerId)) return { ...shown, reason: null, commandId: null, setBy: null };
    return { ...shown, setBy: shown.setBy ?? organizationFor(asker) };
  }

  /** When the mode override expires; undefined when there is none. */
  overrideEndsAtMs(now: number): number | undefined {
    const override = this.activeOverride(now);
    return override ? parseInstant(override.validUntil) : undefined;
  }

  operatingMode(now: number): OperatingMode {
    return this.activeOverride(now)?.mode ?? this.config.operatingMode;
  }

  configure(turn: Turn, config: SiteConfig): void {
    this.#changed();
    this.#config.set(turn, config);
  }

  /** Changes the site's operating mode, which ends an override [C-7.7]. */
  setMode(turn: Turn, mode: OperatingMode): void {
    this.configure(turn, { ...this.config, operatingMode: mode });
    this.overrideMode(turn, null);
  }

  /** Sets the mode override, which ends at its `validUntil`; null ends the present one. */
  overrideMode(turn: Turn, override: StoredOverride | null): void {
    this.#changed();
    this.#override.set(turn, override);
  }
}
