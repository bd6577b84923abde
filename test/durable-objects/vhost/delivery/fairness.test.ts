/** Queues of one connection share its window: a backlog in one delays no event of another (rule 9). */
import { describe, expect, it } from 'vitest';
import { hand } from '#workerd/outbox-events.ts';
import { setScene } from '#workerd/scene.ts';

const CREDIT_STEP_BYTES = 128 * 1024;
const MIB = 1024 * 1024;

describe('a backlog of telemetry that its client is reading', () => {
  it('does not delay an acknowledgement or an alarm: both arrive within the next 2 MiB that the client drains [C-6.4]', async () => {
    const { key, siteId, partner } = await setScene({ partner: 'connected' });
    // Six full windows.
    for (let from = 1; from <= 600; from += 50) {
      await hand(key, siteId, from, 50, { kind: 'telemetry', chars: 10_000 });
    }
    for (const queue of ['event.telemetry', 'event.status', 'event.alarm'] as const) {
      await partner.consume(queue, { noAck: true });
    }
    await partner.quiet();
    await hand(key, siteId, 1_001, 1);
    await hand(key, siteId, 1_002, 1, { kind: 'alarm' });
    const arrived = () =>
      (['event.status', 'event.alarm'] as const).filter((queue) => partner.deliveries(queue).length > 0);
    let drainedBytes = 0;
    for (let step = 0; step < (2 * MIB) / CREDIT_STEP_BYTES && arrived().length < 2; step++) {
      drainedBytes += CREDIT_STEP_BYTES;
      partner.link.send({ kind: 'credit', drainedBytes });
      await partner.quiet();
    }
    expect(arrived()).toEqual(['event.status', 'event.alarm']);
    expect(partner.deliveries('event.telemetry').length).toBeLessThan(600);
  });
});
