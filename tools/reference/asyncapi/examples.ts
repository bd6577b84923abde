/**
 * Complete example messages for the AsyncAPI document and the docs. They are signed with the public key of
 * docs/signature-vectors.json, so that the author of a client can check signatures against them.
 */
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import {
  ackSigningString,
  commandSigningString,
  envelopeSigningString,
  statusSigningString,
  telemetrySigningString,
} from '../../../protocol/signing.ts';

export const EXAMPLE_KEY = '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff';
const SLUG = 'acme';
const SITE_ID = '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10';
const DEVICE_ID = '3f2b8c1e-5d47-4a90-9b1a-6c0f2d7e4a11';
export const SCHEDULE_ID = '7d0c6f5e-2b1a-4c3d-8e9f-a0b1c2d3e4f5';
const AT = '2026-01-15T10:00:00.000Z';
const TS = Date.parse(AT);

/** Returns a UUID with `number` as its last digits. */
function id(number: number): string {
  return `6f1c2f0a-3f0e-4a57-9d0b-${String(number).padStart(12, '0')}`;
}

let published = 0;

/** Returns a signed partner message and its full routing key. `key` is the routing key without the slug. */
export function publish(key: string, payload: object) {
  published += 1;
  const fields = envelope(id(published), `order-${published}`, 'acme-trader');
  return { routingKey: `${SLUG}.${key}`, message: signed(fields, `${SLUG}.${key}`, payload) };
}

/** Returns a signed event and its full routing key. `correlationId` is that of the message it answers. */
function event(number: number, key: string, payload: object, correlationId?: string) {
  const routingKey = `${SLUG}.event.${key}`;
  return {
    routingKey,
    message: signed(envelope(id(100 + number), correlationId, 'sitewire'), routingKey, payload),
  };
}

function envelope(messageId: string, correlationId: string | undefined, source: string) {
  const correlated = correlationId === undefined ? {} : { correlationId };
  return { version: '1.1', messageId, ...correlated, timestamp: AT, source, siteId: SITE_ID };
}

function signed(fields: ReturnType<typeof envelope>, routingKey: string, payload: object) {
  const text = envelopeSigningString(fields, routingKey, JSON.stringify(payload)) ?? '';
  return { ...fields, payload, signature: hmacHex(EXAMPLE_KEY, text) };
}

const CHARGE = { deviceId: 'BESS-1', command: 'BESS_CHARGE' };
const REDUCE = { deviceId: 'FVE-1', command: 'FVE_REDUCE_PERCENT' };

/** Events; most of them answer a message of PUBLISHES. */
export const EVENTS = {
  Accepted: event(1, 'command.ack', { status: 'ACCEPTED', commandType: 'SITE_SETPOINT' }, 'order-1'),
  Partial: event(
    2,
    'command.ack',
    {
      status: 'PARTIAL',
      commandType: 'DEVICE_COMMAND',
      results: [
        { index: 0, ...CHARGE, status: 'ACCEPTED' },
        {
          index: 1,
          ...REDUCE,
          status: 'REJECTED',
          rejectionCode: 'DEVICE_FAULT',
          message: 'FVE-1 reports a fault',
        },
      ],
    },
    'order-3',
  ),
  Rejected: event(
    3,
    'command.ack',
    {
      status: 'REJECTED',
      commandType: 'SITE_SETPOINT',
      message: '42.5 kW exceeds maxImportKw 40 kW',
      rejectionCode: 'CONSTRAINT_VIOLATION',
    },
    'order-1',
  ),
  Executing: event(
    4,
    'execution',
    { commandType: 'SITE_SETPOINT', status: 'EXECUTING', targetValueKw: 42.5 },
    'order-1',
  ),
  Deviated: event(
    5,
    'execution',
    {
      commandType: 'SITE_SETPOINT',
      status: 'DEVIATED',
      actualValueKw: 30.1,
      targetValueKw: 42.5,
      deviationKw: -12.4,
    },
    'order-1',
  ),
  Failed: event(
    6,
    'execution',
    { commandType: 'DEVICE_COMMAND', status: 'FAILED', reason: 'NO_ACK: BESS-1' },
    'order-3',
  ),
  Violation: event(
    7,
    'alarm',
    {
      alarmId: id(107),
      type: 'CONSTRAINT_VIOLATION',
      severity: 'WARNING',
      status: 'RAISED',
      message: 'SITE_SETPOINT rejected: 42.5 kW exceeds maxImportKw 40 kW',
      commandType: 'SITE_SETPOINT',
      constraint: 'maxImportKw',
      limit: 40,
      value: 42.5,
      unit: 'kW',
      raisedAt: AT,
    },
    'order-1',
  ),
  Alert: event(9, 'alarm', {
    alarmId: id(109),
    kind: 'ALERT',
    type: 'THRESHOLD',
    severity: 'WARNING',
    status: 'RAISED',
    message: 'Battery nearly empty: BESS-1/socPercent is 8, under 10',
    limit: 10,
    value: 8,
    ruleId: id(110),
    metric: 'BESS-1/socPercent',
    raisedAt: AT,
  }),
  Telemetry: event(8, 'telemetry', {
    gridPowerKw: 41.8,
    fvePowerKw: 12.2,
    batteryPowerKw: 12.5,
    consumptionPowerKw: 41.5,
    socPercent: 61,
    availableBatteryEnergyKwh: 61,
    batteryTemperatureCelsius: 24.5,
    currentOperatingMode: 'STANDARD',
    dataQuality: 'GOOD',
    devices: [{ deviceId: 'BESS-1', assetType: 'BESS', powerKw: 12.5, socPercent: 61 }],
  }),
};

/** Messages that a device publishes. */
export const SAYS = {
  DeviceTelemetry: says(10, { gridPowerKw: 41.8, 'BESS-1/powerKw': 12.5, 'BESS-1/socPercent': 61 }),
  DeviceStatus: {
    ts: TS,
    nonce: id(11),
    status: 'ONLINE',
    sig: hmacHex(EXAMPLE_KEY, statusSigningString(DEVICE_ID, TS, id(11), 'ONLINE')),
  },
  DeviceAck: {
    cmdId: id(20),
    status: 'COMPLETED',
    ts: TS,
    sig: hmacHex(EXAMPLE_KEY, ackSigningString(DEVICE_ID, id(20), TS, 'COMPLETED')),
  },
};

function says(number: number, data: object) {
  const text = telemetrySigningString(DEVICE_ID, TS, id(number), JSON.stringify(data));
  return { ts: TS, nonce: id(number), data, sig: hmacHex(EXAMPLE_KEY, text) };
}

let commandCount = 19;

/** Returns a signed command to a device. `DeviceAck` acknowledges the first one. */
export function command(action: string, payload: object) {
  commandCount += 1;
  const cmdId = id(commandCount);
  const sig = hmacHex(
    EXAMPLE_KEY,
    commandSigningString(DEVICE_ID, cmdId, TS, action, JSON.stringify(payload)),
  );
  return { cmdId, ts: TS, action, payload, sig };
}
