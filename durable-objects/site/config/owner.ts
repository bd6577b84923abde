/** The owner of CONFIG: in force when it is recorded; its ack says that the gateway has it [C-7.9]. */
import type { ConfigPatch } from '../../../protocol/site-config.ts';
import type { Turn } from '../../object/turn.ts';
import { configKind, mergedConfig } from '../command/kind/config.ts';
import { CommandOwner, type CommandOwnerHost, type Recorded } from '../command/owner.ts';
import type { DispatchRow } from '../dispatch/rows.ts';
import type { Configuration } from './configuration.ts';

export class ConfigOwner extends CommandOwner<'CONFIG'> {
  override readonly survivesEmergency = true;
  override readonly mayReachAnother = true;
  readonly #configuration: Configuration;

  constructor(host: CommandOwnerHost & { configuration: Configuration }) {
    super('CONFIG', configKind, host);
    this.#configuration = host.configuration;
  }

  override recorded(turn: Turn, command: Recorded<ConfigPatch>): void {
    super.recorded(turn, command);
    this.#configuration.apply(turn, mergedConfig(command.payload, command.view.config), command);
  }

  override sending(turn: Turn, { device_id: deviceId }: DispatchRow): void {
    this.#configuration.state.noteConfigured(turn, deviceId);
  }
}
