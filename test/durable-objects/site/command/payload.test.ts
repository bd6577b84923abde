/** A payload that does not fit its command type is rejected with the reason, and logged. */
import { setScene } from '#workerd/scene.ts';
import { HOUR, START_MS } from '#workerd/site-clock.ts';
import { newestCommand } from '#workerd/site-reads.ts';
import { batch, batteryCommand, powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { formatInstant } from '../../../../protocol/ids.ts';
import type { CommandFamily } from '../../../../protocol/routing-keys.ts';

/** As many batteries as a batch may name. */
const BATTERIES = Array.from({ length: 32 }, (_none, index) => ({
  externalId: `BESS-${index + 1}`,
  assetType: 'BESS' as const,
}));

describe('the payload of a command', () => {
  const energy = { ...powerSetpoint(5), type: 'ENERGY', targetValueKwh: 1 };
  const later = formatInstant(START_MS + HOUR);
  const invalid: [string, CommandFamily, unknown][] = [
    ['an unknown field', 'site-setpoint', { ...powerSetpoint(5), watts: 1 }],
    ['a negative target', 'site-setpoint', powerSetpoint(-1)],
    ['1e308', 'site-setpoint', powerSetpoint(1e308)],
    ['a number over 1e9', 'site-setpoint', powerSetpoint(1e9 + 1)],
    ['no target for POWER', 'site-setpoint', { ...powerSetpoint(5), targetValueKw: undefined }],
    ['ENERGY without intervalMinutes', 'site-setpoint', energy],
    ['validFrom without a zone', 'site-setpoint', powerSetpoint(5, { validFrom: '2030-03-05T09:00:00' })],
    ['validUntil that is now', 'site-setpoint', powerSetpoint(5, { validUntil: formatInstant(START_MS) })],
    ['validUntil in the past', 'mode', { mode: 'STANDARD', validUntil: formatInstant(START_MS - 1) }],
    ['validUntil is validFrom', 'site-setpoint', powerSetpoint(5, { validFrom: later, validUntil: later })],
    ['no items', 'device', batch()],
    ['33 items', 'device', batch(...Array.from({ length: 33 }, () => batteryCommand(1)))],
    ['negative powerKw', 'device', batch(batteryCommand(-1))],
    ['percent missing', 'device', batch(batteryCommand(1, { command: 'FVE_REDUCE_PERCENT' }))],
    ['an unknown command', 'device', { commands: [{ ...batteryCommand(1), command: 'BESS_EXPLODE' }] }],
    ['an unknown mode', 'mode', { mode: 'TURBO' }],
    ['a reason of 501 characters', 'emergency', { type: 'STOP', reason: '😀'.repeat(501) }],
    ['an array as the payload', 'emergency', []],
  ];
  it.each([
    ['a power of 0', 'site-setpoint', powerSetpoint(0)],
    ['a power of -0', 'site-setpoint', powerSetpoint(-0)],
    ['100 percent', 'device', batch(batteryCommand(0, { command: 'BESS_STOP', params: { percent: 100 } }))],
    [
      '32 items',
      'device',
      batch(...BATTERIES.map(({ externalId: deviceId }) => batteryCommand(1, { deviceId }))),
    ],
    ['a reason of 500 characters', 'emergency', { type: 'STOP', reason: '😀'.repeat(500) }],
  ] satisfies [string, CommandFamily, unknown][])(
    'a payload with %s is valid [C-7.4]',
    async (_what, family, payload) => {
      const { plant, partner } = await setScene({ plant: { subDevices: BATTERIES } });
      expect(await partner.acknowledge(submission(family, payload))).toMatchObject({ status: 'QUEUED' });
      expect(await newestCommand(plant.id)).toMatchObject({ status: 'PENDING' });
    },
  );

  it.for(invalid)(
    'a payload with this error is REJECTED with INVALID_PAYLOAD, and its log row has the reason: %s [spec: Command processing]',
    async ([_what, family, payload], { plainSite: { plant, partner } }) => {
      const one = submission(family, payload);
      const ack = await partner.acknowledge(one);
      expect(ack).toMatchObject({ status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD' });
      expect(ack.message).toBeTruthy();
      expect(await newestCommand(plant.id)).toMatchObject({
        messageId: one.messageId,
        commandType: ack.commandType,
        status: 'REJECTED',
        rejectionCode: 'INVALID_PAYLOAD',
        message: ack.message,
        payload: JSON.parse(one.payloadText),
        finishedAt: formatInstant(START_MS),
      });
    },
  );

  it.for<[CommandFamily, unknown, RegExp]>([
    [
      'site-setpoint',
      {
        ...powerSetpoint(5, { validFrom: 'now', validUntil: formatInstant(START_MS - 1) }),
        targetValueKw: undefined,
        watts: 1,
      },
      /^validFrom: .*; unknown field "watts"; targetValueKw: required when type is POWER; validUntil: must be in the future$/,
    ],
    [
      'device',
      batch(batteryCommand(-1), batteryCommand(1, { command: 'FVE_REDUCE_PERCENT' })),
      /^commands\.0\.params\.powerKw: .*; commands\.1\.params\.percent: required for FVE_REDUCE_PERCENT$/,
    ],
    [
      'schedule',
      { startTime: 'now', slots: Array.from({ length: 672 }, () => ({ slotIndex: 0, mode: 'TURBO' })) },
      /^startTime: .*(; slots\.\d+\.mode: [^;]*){19}; and 654 more$/,
    ],
  ])(
    'the acknowledgement and the log row of an invalid %s payload list its errors, up to 20 of them [C-7.4]',
    async ([family, payload, expected], { plainSite: { plant, partner } }) => {
      const ack = await partner.acknowledge(submission(family, payload));
      expect(ack).toMatchObject({
        rejectionCode: 'INVALID_PAYLOAD',
        message: expect.stringMatching(expected),
      });
      expect(await newestCommand(plant.id)).toMatchObject({ message: ack.message });
    },
  );
});
