/** SCHEDULE: a plan of slots for the whole site, and its end before its time (spec: {slug}.schedule.*; [C-7.9]). */
import { EXPORTING, MODE_NEEDS } from '../../../../protocol/asset.ts';
import { type ScheduleCancel, type ScheduleSet, scheduleWindow } from '../../../../protocol/schedule.ts';
import type { SiteFacts } from '../../site-facts.ts';
import { checkGateway, checkPower, checkTopology } from '../checks.ts';
import { type Refusal, together } from '../refusal.ts';
import { toDevices } from '../to-devices.ts';
import type { Kind } from './kind.ts';

type Payload = ScheduleSet | ScheduleCancel;

export function isScheduleSet(payload: Payload): payload is ScheduleSet {
  return 'slots' in payload;
}

/** What is set has an id that no other has; what is cancelled is there, and open. */
function idFaults(payload: Payload, facts: SiteFacts): string[] {
  const { scheduleId } = payload;
  const status = scheduleId === undefined ? undefined : facts.scheduleStatus(scheduleId);
  if (isScheduleSet(payload)) return status === undefined ? [] : ['scheduleId: another schedule has it'];
  if (status === undefined) return ['scheduleId: no such schedule'];
  const isOpen = status === 'PENDING' || status === 'ACCEPTED' || status === 'ACTIVE';
  return isOpen ? [] : [`scheduleId: that schedule is ${status}`];
}

/** Each slot as a setpoint of its own; those that break a limit say so for all. */
function checkLimits({ slots }: ScheduleSet, facts: SiteFacts): Refusal | undefined {
  return together(
    slots.map(({ slotIndex, setpoint }) => setpoint && checkPower(facts, setpoint.value, slotIndex)),
  );
}

function checkTopologies({ slots }: ScheduleSet, facts: SiteFacts): Refusal | undefined {
  return together(
    slots.map(({ slotIndex, mode, setpoint }) => {
      const isExport = setpoint !== undefined && setpoint.value < 0;
      const why =
        checkTopology(MODE_NEEDS[mode], facts) ?? (isExport ? checkTopology(EXPORTING, facts) : undefined);
      return why && { ...why, message: `slot ${slotIndex}: ${why.message}` };
    }),
  );
}

export const scheduleKind: Kind<Payload> = {
  faults: idFaults,
  stages: [
    ['target', ({ facts }) => checkGateway(facts)],
    [
      'constraint',
      ({ payload, facts }) => (isScheduleSet(payload) ? checkLimits(payload, facts) : undefined),
    ],
    [
      'topology',
      ({ payload, facts }) => (isScheduleSet(payload) ? checkTopologies(payload, facts) : undefined),
    ],
  ],
  window: (payload) => {
    if (!isScheduleSet(payload)) return {};
    const { startsAtMs, endsAtMs } = scheduleWindow(payload);
    // It may have begun, and its gateway is told of it at once.
    return { fromMs: startsAtMs, untilMs: endsAtMs, untilField: 'endTime', isToldAtOnce: true };
  },
  logColumns: () => ({ priority: null, target: 'SITE', target_value_kw: null }),
  // What sets one is told with its place among others, once it has that: see `tellSchedule`.
  plan: (payload, _items, { gatewayId }) =>
    isScheduleSet(payload)
      ? toDevices([gatewayId], 'SCHEDULE_SET', {})
      : toDevices([gatewayId], 'SCHEDULE_CANCEL', payload),
  replan: (_payload, { action, payload }, { gatewayId }) =>
    gatewayId === undefined ? [] : [{ deviceId: gatewayId, action, payloadText: payload, items: [] }],
  recheck: () => undefined,
  end: 'ack',
};
