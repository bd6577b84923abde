/**
 * A simulated plant with its gateway. It reports periodically and after each change; its behaviour can change
 * at any time.
 */
import type { Constraints } from '../../protocol/site-config.ts';
import { BEHAVIOURS, type BehaviourName } from './behaviour.ts';
import { Gateway, type GatewayOptions } from './gateway.ts';
import type { SiteCommand } from './orders.ts';
import { type PlantAsset, SimulatedPlant } from './simulated-plant.ts';
import { type AppliedTemplate, isTemplateAction, templateReadings } from './template.ts';

export interface SimulationOptions {
  behaviour: BehaviourName;
  assets: readonly PlantAsset[];
  constraints: Constraints | null;
  intervalMs: number;
  /** The options of the gateway without its token, because each connect uses the token that is current then. */
  gateway: Omit<GatewayOptions, 'token' | 'manners'>;
  token: () => string;
  /** Reads the templates of the gateway and its sub-devices; called at each connect. */
  templates: () => Promise<AppliedTemplate[]>;
}

export class Simulation {
  readonly #options: SimulationOptions;
  readonly #plant: SimulatedPlant;
  readonly #clock: NodeJS.Timeout;
  #gateway: Gateway | undefined;
  #templates: readonly AppliedTemplate[] = [];

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#plant = new SimulatedPlant(BEHAVIOURS[options.behaviour], options.assets, options.constraints);
    this.#clock = setInterval(() => this.#report(), options.intervalMs);
    void this.#connect();
  }

  /** Resolves when the behaviour is active: commands reach the gateway, or it has disconnected. */
  async behave(name: BehaviourName): Promise<void> {
    const behaviour = BEHAVIOURS[name];
    this.#plant.behaviour = behaviour;
    if (behaviour.connects) await this.#connect();
    else await this.#leave();
    this.#report();
  }

  async stop(): Promise<void> {
    clearInterval(this.#clock);
    await this.#leave();
  }

  async #connect(): Promise<void> {
    if (this.#gateway || !this.#plant.behaviour.connects) return;
    const { gateway, token } = this.#options;
    void this.#readTemplates();
    await new Promise<void>((resolve) => {
      const onListening = () => {
        gateway.onListening?.();
        resolve();
      };
      const options = { ...gateway, token: token(), manners: () => this.#plant.behaviour, onListening };
      this.#gateway = new Gateway(options, (command) => this.#obey(command));
    });
  }

  async #leave(): Promise<void> {
    const gateway = this.#gateway;
    this.#gateway = undefined;
    await gateway?.stop();
  }

  async #readTemplates(): Promise<void> {
    try {
      this.#templates = await this.#options.templates();
    } catch (error) {
      console.error(`simulator: cannot read the device templates: ${String(error)}`);
    }
  }

  #obey(command: SiteCommand): boolean {
    const isObeyed =
      this.#plant.obey(command) ||
      (!this.#plant.behaviour.inFault && isTemplateAction(this.#templates, command));
    // The new powers are reported immediately, and not only at the next interval.
    if (isObeyed) setImmediate(() => this.#report());
    return isObeyed;
  }

  #report(): void {
    const gateway = this.#gateway?.connected ? this.#gateway : undefined;
    const ofPlant = this.#plant.read(gateway !== undefined);
    // Where a template names a signal that the plant simulates, the plant's value is reported.
    const readings = { ...templateReadings(this.#templates, Date.now()), ...ofPlant };
    if (!this.#plant.behaviour.reports) return;
    gateway
      ?.publishTelemetry(readings)
      .catch((error: unknown) => console.error(`simulator: ${String(error)}`));
  }
}
