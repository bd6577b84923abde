/** The values nearest to those of a refused batch that keep the limits of the site [C-13.1]. Pure. */
import { deviceCommandRule } from '../../../../protocol/asset.ts';
import type { DeviceCommand, DeviceCommandItem } from '../../../../protocol/command.ts';
import type { Violation } from '../../refusal.ts';
import type { SiteView } from '../../site-view.ts';
import { lowestLimit } from '../constraints.ts';
import { BATTERY_LIMITS, demandOf, earlierDemands, sumKw } from './battery-demand.ts';
import type { Nearest } from './kind.ts';

/** The payload in which the refused item, or the sum of all items, keeps the limit. */
export function nearest(
  payload: DeviceCommand,
  { constraint, deviceId }: Violation,
  view: SiteView,
  round: (value: number) => number,
): Nearest<DeviceCommand> | undefined {
  if (deviceId === undefined) return nearestSum(payload, constraint, view, round);
  const index = payload.commands.findIndex((item) => item.deviceId === deviceId);
  const item = payload.commands[index];
  if (!item) return undefined;
  const rule = deviceCommandRule(item.command);
  const isPower = constraint.endsWith('Kw');
  if (constraint === 'emergency' && rule.required === 'percent') {
    const field = `commands[${index}].params.percent`;
    return {
      payload: withParams(payload, index, { percent: 100 }),
      admissible: { field, unit: '%', min: 100 },
    };
  }
  // Only a power of 0 is accepted by an emergency and at a bound of the state of charge.
  const most = isPower && rule.limit ? lowestLimit(view, rule.limit) : 0;
  if (most === undefined) return undefined;
  const field = `commands[${index}].params.powerKw`;
  return {
    payload: withParams(payload, index, { powerKw: most }),
    admissible: { field, unit: 'kW', max: most },
  };
}

function nearestSum(
  payload: DeviceCommand,
  constraint: string,
  view: SiteView,
  round: (value: number) => number,
): Nearest<DeviceCommand> | undefined {
  const limit = BATTERY_LIMITS.find((name) => constraint.endsWith(name));
  const most = limit && lowestLimit(view, limit);
  if (limit === undefined || most === undefined) return undefined;
  const places = payload.commands.flatMap((item, index) =>
    demandOf(item, view)?.limit === limit ? [index] : [],
  );
  const earlierKw = sumKw(earlierDemands(payload.commands, limit, view));
  const left = round(most - earlierKw);
  const [first, ...others] = places;
  if (first === undefined || left < 0) return undefined;
  const field =
    others.length > 0 ? 'the sum of commands[].params.powerKw' : `commands[${first}].params.powerKw`;
  const cleared = others.reduce((changed, index) => withParams(changed, index, { powerKw: 0 }), payload);
  return {
    payload: withParams(cleared, first, { powerKw: left }),
    admissible: { field, unit: 'kW', max: left },
  };
}

function withParams(
  payload: DeviceCommand,
  place: number,
  params: DeviceCommandItem['params'],
): DeviceCommand {
  const changed = (item: DeviceCommandItem) => ({ ...item, params: { ...item.params, ...params } });
  return { commands: payload.commands.map((item, index) => (index === place ? changed(item) : item)) };
}
