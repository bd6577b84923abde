/** SCHEDULE: a plan of slots for the whole site, and its end before its time (spec: {slug}.schedule.*; [C-7.9]). */
import { EXPORTING, MODE_NEEDS } from '../../../../protocol/asset.ts';
import { type ScheduleCancel, type ScheduleSet, scheduleWindow } from '../../../../protocol/schedule.ts';
import type { SiteFacts } from '../../site-facts.ts';
import { checkGateway, checkPower, checkTopology } from '../checks.ts';
import { type Refusal, refusal } from '../refusal.ts';
import { toDevices } from '../to-devices.ts';
import type { Kind } from './kind.ts';

type Payload = ScheduleSet | ScheduleCancel;

export function isScheduleSet(payload: Payload): payload is ScheduleSet {
  return 'slots' in payload;
}

/** What is set has an id that no other has; what is cancelled is there, and open. */
function checkId(payload: Payload, facts: SiteFacts): Refusal | undefined {
  const { scheduleId } = payload;
  const status = scheduleId === undefined ? undefined : facts.scheduleStatus(scheduleId);
  if (isScheduleSet(payload)) {
    return status === undefined
      ? undefined
      : refusal('INVALID_PAYLOAD', 'scheduleId: another schedule has it');
  }
  if (status === undefined) return refusal('INVALID_PAYLOAD', 'scheduleId: no such schedule');
  if (status === 'PENDING' || status === 'ACCEPTED' || status === 'ACTIVE') return undefined;
  return refusal('INVALID_PAYLOAD', `scheduleId: that schedule is ${status}`);
}

/** Each slot as a setpoint of its own; the first that breaks a limit says so for all. */
function checkLimits({ slots }: ScheduleSet, facts: SiteFacts): Refusal | undefined {
  for (const { slotIndex, setpoint } of slots) {
    const why = setpoint && checkPower(facts, setpoint.value, slotIndex);
    if (why) return why;
  }
  return undefined;
}

function checkTopologies({ slots }: ScheduleSet, facts: SiteFacts): Refusal | undefined {
  for (const { slotIndex, mode, setpoint } of slots) {
    const isExport = setpoint !== undefined && setpoint.value < 0;
    const why =
      checkTopology(MODE_NEEDS[mode], facts) ?? (isExport ? checkTopology(EXPORTING, facts) : undefined);
    if (why) return { ...why, message: `slot ${slotIndex}: ${why.message}` };
  }
  return undefined;
}

export const scheduleKind: Kind<Payload> = {
  stages: [
    ['payload', ({ payload, facts }) => checkId(payload, facts)],
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
