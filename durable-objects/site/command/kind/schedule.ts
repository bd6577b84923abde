/** SCHEDULE: sets or cancels a schedule of slots for the whole site (spec: {slug}.schedule.*; [C-7.9]). */
import { EXPORTING, MODE_NEEDS } from '../../../../protocol/asset.ts';
import { type ScheduleCancel, type ScheduleSet, scheduleWindow } from '../../../../protocol/schedule.ts';
import { toDevices } from '../../dispatch/dispatch.ts';
import { type Refusal, together } from '../../refusal.ts';
import type { SiteView } from '../../site-view.ts';
import { checkGateway, checkPower, checkTopology, lowestLimit } from '../constraints.ts';
import type { Kind } from './kind.ts';

type Payload = ScheduleSet | ScheduleCancel;

export function isScheduleSet(payload: Payload): payload is ScheduleSet {
  return 'slots' in payload;
}

/** The id of a new schedule must be unused; a schedule to cancel must exist and be open. */
function idFaults(payload: Payload, view: SiteView): string[] {
  const { scheduleId } = payload;
  const status = scheduleId === undefined ? undefined : view.scheduleStatus(scheduleId);
  if (isScheduleSet(payload))
    return status === undefined ? [] : ['scheduleId: another schedule has this id: choose another one'];
  if (status === undefined) return ['scheduleId: the site has no such schedule'];
  const isOpen = status === 'PENDING' || status === 'ACCEPTED' || status === 'ACTIVE';
  return isOpen ? [] : [`scheduleId: the schedule is already ${status}`];
}

/** Checks each slot like a setpoint; the refusal lists the slots that violate a limit, up to `LIMIT.faultsReported`. */
function checkLimits({ slots }: ScheduleSet, view: SiteView): Refusal | undefined {
  return together(
    slots.map(({ slotIndex, setpoint }) => setpoint && checkPower(view, setpoint.value, slotIndex)),
  );
}

function checkTopologies({ slots }: ScheduleSet, view: SiteView): Refusal | undefined {
  return together(
    slots.map(({ slotIndex, mode, setpoint }) => {
      const isExport = setpoint !== undefined && setpoint.value < 0;
      const why =
        checkTopology(MODE_NEEDS[mode], view) ?? (isExport ? checkTopology(EXPORTING, view) : undefined);
      return why && { ...why, message: `slot ${slotIndex}: ${why.message}` };
    }),
  );
}

export const scheduleKind: Kind<Payload> = {
  faults: idFaults,
  stages: [
    ['target', ({ view }) => checkGateway(view)],
    ['constraint', ({ payload, view }) => (isScheduleSet(payload) ? checkLimits(payload, view) : undefined)],
    [
      'topology',
      ({ payload, view }) => (isScheduleSet(payload) ? checkTopologies(payload, view) : undefined),
    ],
  ],
  nearest: (payload, { slot }, view) => {
    const value = isScheduleSet(payload) ? payload.slots[slot ?? -1]?.setpoint?.value : undefined;
    if (!isScheduleSet(payload) || value === undefined) return undefined;
    const most = lowestLimit(view, value < 0 ? 'maxExportKw' : 'maxImportKw');
    if (most === undefined) return undefined;
    const setpoint = { value: value < 0 ? 0 - most : most };
    const slots = payload.slots.map((one, index) => (index === slot ? { ...one, setpoint } : one));
    const field = `slots[${slot}].setpoint.value`;
    const bound = value < 0 ? { min: setpoint.value } : { max: setpoint.value };
    return { payload: { ...payload, slots }, admissible: { field, unit: 'kW', ...bound } };
  },
  window: (payload) => {
    if (!isScheduleSet(payload)) return {};
    const { startsAtMs, endsAtMs } = scheduleWindow(payload);
    // A schedule may start in the past, and is sent to the gateway at once.
    return { fromMs: startsAtMs, untilMs: endsAtMs, untilField: 'endTime', isSentAtOnce: true };
  },
  logColumns: () => ({ priority: null, target: 'SITE', target_value_kw: null }),
  // `Schedules.send` fills in the payload once the schedule has its sequence.
  plan: (payload, _items, { gatewayId }) =>
    isScheduleSet(payload)
      ? toDevices([gatewayId], 'SCHEDULE_SET', {})
      : toDevices([gatewayId], 'SCHEDULE_CANCEL', payload),
  replan: (_payload, { action, payloadText }, { gatewayId }) =>
    gatewayId === undefined ? [] : [{ deviceId: gatewayId, action, payloadText, items: [] }],
  recheck: () => undefined,
};
