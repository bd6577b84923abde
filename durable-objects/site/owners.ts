/** The owner of every dispatch: one for each command type, the plan and REST commands. A missing one does not compile. */

import { BatchOwner, type BatteryDemands } from './command/batch-owner.ts';
import type { CommandOwnerHost, CommandOwners } from './command/owner.ts';
import { ConfigOwner, type Configuration } from './config/configuration.ts';
import type { Owner } from './dispatch/owner.ts';
import type { OwnerName } from './dispatch/rows.ts';
import { EmergencyOwner, ModeOwner, PlanOwner, SetpointOwner } from './plan/owner.ts';
import type { Plan } from './plan/plan.ts';
import type { RestCommands } from './rest-command/rest-commands.ts';
import { ScheduleOwner } from './schedule/owner.ts';
import type { Schedules } from './schedule/schedules.ts';

export interface OwnersHost extends CommandOwnerHost {
  plan: Plan;
  schedules: Schedules;
  configuration: Configuration;
  demands: BatteryDemands;
  restCommands: RestCommands;
}

export type Owners = CommandOwners & { readonly [Name in OwnerName]: Owner };

export function makeOwners(host: OwnersHost): Owners {
  const { configuration, demands, restCommands } = host;
  return {
    SITE_SETPOINT: new SetpointOwner(host),
    DEVICE_COMMAND: new BatchOwner(host, demands),
    EMERGENCY: new EmergencyOwner(host),
    MODE_CHANGE: new ModeOwner({ ...host, configuration: configuration.state }),
    SCHEDULE: new ScheduleOwner({ ...host, configuration: configuration.state }),
    CONFIG: new ConfigOwner(host),
    PLAN: new PlanOwner(host),
    REST_COMMAND: restCommands,
  };
}
