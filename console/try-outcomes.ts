/** The outcomes of docs/simulator.md that a person can cause, and the commands that cause them. Pure. */

interface TryCommand {
  family: 'device' | 'site-setpoint' | 'mode' | 'emergency';
  /** A text `now`, or `now+4s`, becomes that time when the command is sent. */
  payload: Record<string, unknown>;
}

const batch = (...commands: Record<string, unknown>[]): TryCommand => ({
  family: 'device',
  payload: { commands },
});
const stop = (deviceId: string, assetType = 'BESS') => ({ deviceId, assetType, command: 'BESS_STOP' });
const setpoint = (targetValueKw: number, validFrom: string, validUntil: string): TryCommand => ({
  family: 'site-setpoint',
  payload: {
    ...{ type: 'POWER', targetValueKw, direction: 'IMPORT', includeConsumption: true },
    ...{ priority: 'NORMAL', validFrom, validUntil },
  },
});

/** By their names in docs/simulator.md. */
export const TRY_COMMANDS = {
  charge: batch({
    ...{ deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE' },
    params: { powerKw: 5 },
  }),
  stop: batch(stop('BESS-1')),
  'stop-two': batch(stop('BESS-1'), stop('BESS-9')),
  'stop-unknown': batch(stop('BESS-9')),
  'stop-meter': batch(stop('METER-1', 'METER')),
  'setpoint-2s': setpoint(20, 'now', 'now+2s'),
  'setpoint-4s': setpoint(20, 'now', 'now+4s'),
  'setpoint-600s': setpoint(20, 'now', 'now+600s'),
  'setpoint-later': setpoint(20, 'now+3s', 'now+5s'),
  'setpoint-30kw': setpoint(30, 'now', 'now+2s'),
  'setpoint-200kw': {
    family: 'site-setpoint',
    payload: {
      ...{ type: 'POWER', targetValueKw: 200, direction: 'IMPORT', includeConsumption: true },
      ...{ priority: 'HIGH', validFrom: 'now' },
    },
  },
  'setpoint-invalid': { family: 'site-setpoint', payload: { type: 'POWER', direction: 'IMPORT' } },
  mode: { family: 'mode', payload: { mode: 'STANDARD' } },
  emergency: { family: 'emergency', payload: { type: 'STOP', reason: 'drill' } },
} satisfies Record<string, TryCommand>;

export const BEHAVIOURS = ['on', 'off', 'offline', 'silent', 'slow', 'faulty', 'short'] as const;
export type Behaviour = (typeof BEHAVIOURS)[number];

export interface Outcome {
  /** What the first command ends with, as in docs/simulator.md. */
  sees: string;
  behaviour: Behaviour;
  send: readonly (keyof typeof TRY_COMMANDS)[];
}

export const OUTCOMES: readonly Outcome[] = [
  { sees: 'COMPLETED', behaviour: 'on', send: ['charge'] },
  { sees: 'COMPLETED with a measured verdict', behaviour: 'on', send: ['setpoint-4s'] },
  { sees: 'QUEUED (its time has not come)', behaviour: 'on', send: ['setpoint-later'] },
  { sees: 'PARTIAL', behaviour: 'on', send: ['stop-two'] },
  { sees: 'REJECTED INVALID_PAYLOAD', behaviour: 'on', send: ['setpoint-invalid'] },
  { sees: 'REJECTED DEVICE_OFFLINE (not in the topology)', behaviour: 'on', send: ['stop-unknown'] },
  { sees: 'REJECTED INVALID_COMMAND', behaviour: 'on', send: ['stop-meter'] },
  { sees: 'REJECTED CONSTRAINT_VIOLATION, and its alarm', behaviour: 'on', send: ['setpoint-200kw'] },
  { sees: 'FAILED SUPERSEDED by …', behaviour: 'on', send: ['setpoint-600s', 'setpoint-30kw'] },
  { sees: 'DEVIATED, and its alarm', behaviour: 'short', send: ['setpoint-4s'] },
  {
    sees: 'QUEUED (the plant is offline), then FAILED EXPIRED and its alarm',
    ...{ behaviour: 'offline', send: ['setpoint-2s'] },
  },
  { sees: 'FAILED EMERGENCY', behaviour: 'offline', send: ['stop', 'emergency'] },
  {
    sees: 'REJECTED CONSTRAINT_VIOLATION (an emergency is active)',
    ...{ behaviour: 'on', send: ['charge', 'mode'] },
  },
  { sees: 'FAILED (its device answered FAILED)', behaviour: 'faulty', send: ['mode'] },
  { sees: 'REJECTED DEVICE_FAULT', behaviour: 'faulty', send: ['stop'] },
];

/** Outcomes of commands that come while an emergency is active; all others come without one. */
export const DURING_EMERGENCY: readonly string[] = ['REJECTED CONSTRAINT_VIOLATION (an emergency is active)'];

const NOW = /^now(?:\+(\d+)s)?$/;

/** The payload with its times. */
export function payloadAt(payload: Record<string, unknown>, nowMs: number): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(payload).map(([name, value]) => {
      const found = typeof value === 'string' ? NOW.exec(value) : null;
      return [name, found ? new Date(nowMs + Number(found[1] ?? 0) * 1_000).toISOString() : value];
    }),
  );
}
