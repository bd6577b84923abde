/** The command kinds. A type without one does not compile. */
import type { CommandOf, CommandPayload } from '../../../../protocol/command.ts';
import type { CommandType } from '../../../../protocol/routing-keys.ts';
import { configKind } from './config.ts';
import { deviceCommandKind } from './device-command.ts';
import { emergencyKind } from './emergency.ts';
import type { Kind } from './kind.ts';
import { modeChangeKind } from './mode-change.ts';
import { scheduleKind } from './schedule.ts';
import { siteSetpointKind } from './site-setpoint.ts';

export const KINDS: { [T in CommandType]: Kind<CommandPayload<T>> } = {
  SITE_SETPOINT: siteSetpointKind,
  DEVICE_COMMAND: deviceCommandKind,
  EMERGENCY: emergencyKind,
  MODE_CHANGE: modeChangeKind,
  SCHEDULE: scheduleKind,
  CONFIG: configKind,
};

export function kindOf<T extends CommandType>(command: CommandOf<T>): Kind<CommandPayload<T>> {
  return KINDS[command.commandType];
}
