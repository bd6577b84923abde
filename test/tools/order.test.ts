/** Orders that a person sends by hand: routing keys and times. */
import { describe, expect, it } from 'vitest';
import { readOrder } from '../../tools/order.ts';

const NOON_MS = Date.parse('2026-11-23T12:00:00Z');

describe('an order', () => {
  it.each([
    ['command.device', 'device', undefined],
    ['command.site-setpoint', 'site-setpoint', undefined],
    ['schedule.cancel', 'schedule', 'cancel'],
    ['config.set', 'config', 'set'],
  ])('%s is of the family %s', (key, family, word) => {
    expect(readOrder(key, '{}', NOON_MS)).toEqual({ family, word, payload: {} });
  });

  it('has times computed from their offset to now, at any depth, and other words unchanged', () => {
    const text =
      '{"validFrom":"now","deep":[{"validUntil":"now+8s","from":"now-30s"}],"reason":"now or never"}';
    expect(readOrder('command.mode', text, NOON_MS).payload).toEqual({
      validFrom: '2026-11-23T12:00:00.000Z',
      deep: [{ validUntil: '2026-11-23T12:00:08.000Z', from: '2026-11-23T11:59:30.000Z' }],
      reason: 'now or never',
    });
  });

  it.each([
    ['event.telemetry', '{}', /; for example command.device/],
    ['command', '{}', /; for example command.device/],
    ['command.mode', '5', /must be a JSON object/],
    ['command.mode', '{', /JSON/],
  ])('cannot be sent with the routing key %s and the payload %s', (key, text, reason) => {
    expect(() => readOrder(key, text, NOON_MS)).toThrow(reason);
  });
});
