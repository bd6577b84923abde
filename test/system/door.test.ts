/**
 * A revocation is complete when it returns: no client stays connected, none can connect, and nothing more is
 * recorded.
 */
import type { ChannelModel } from 'amqplib';
import { describe, expect, it } from 'vitest';
import { readLog } from '#support/command-history.ts';
import { envelopeOf, openConnection, ReturningPartner, setpointOrder } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { faultyStack } from '#support/suite-stack.ts';
import { VhostCaller } from '#support/vhost-caller.ts';
import { EXCHANGE } from '../../protocol/routing-keys.ts';

const CLIENTS = 100;
/** [C-6.3] */
const CONNECTIONS_PER_KEY = 10;
const CONFIRMED_BEFORE = 50;
const BUSY_WITHIN_MS = 20_000;
const GONE_WITHIN_MS = 1_000;

describe('the revocation of a key', () => {
  const { control, stack } = faultyStack();

  it('ends a hundred clients that connect and publish in parallel [C-5.6]', async () => {
    const plant = await stack.addPlant();
    const key = await stack.addKey();
    const options = stack.partnerOptions(key);
    const live = new Set<ChannelModel>();
    /** The outcome of each connect that began after the revocation had returned. */
    const late: string[] = [];
    let confirmed = 0;
    let highWater = 0;
    let revokedAtMs = Number.POSITIVE_INFINITY;
    let isOver = false;

    /**
     * Connects, publishes until it is closed, and reconnects, until a connect after the revocation is
     * refused.
     */
    const client = async () => {
      while (!isOver) {
        const isLate = Date.now() > revokedAtMs;
        const outcome = await openConnection(options).catch((error: Error) => error.message);
        if (isLate) late.push(typeof outcome === 'string' ? outcome : 'accepted');
        if (typeof outcome !== 'string') await publishUntilClosed(outcome);
        if (isLate) return;
      }
    };
    const publishUntilClosed = async (connection: ChannelModel) => {
      live.add(connection);
      highWater = Math.max(highWater, live.size);
      const closed = new Promise<void>((resolve) => connection.once('close', () => resolve()));
      void closed.then(() => live.delete(connection));
      try {
        const channel = await connection.createConfirmChannel();
        channel.on('error', () => {});
        while (live.has(connection)) {
          const { routingKey, body } = envelopeOf(options, setpointOrder(plant.id, { targetValueKw: 500 }));
          channel.publish(EXCHANGE, routingKey, body);
          await channel.waitForConfirms();
          confirmed += 1;
        }
      } catch {
        // The connection closed during the publish.
      }
      await closed;
    };

    const clients = Promise.all(Array.from({ length: CLIENTS }, client));
    try {
      const isBusy = () => highWater === CONNECTIONS_PER_KEY && confirmed >= CONFIRMED_BEFORE;
      await eventually(() => isBusy() || undefined, BUSY_WITHIN_MS);
      const vhost = await VhostCaller.of(stack, key.id);
      await vhost.revoke();
      revokedAtMs = Date.now();
      await eventually(() => live.size === 0 || undefined, GONE_WITHIN_MS);
      await stack.admin.call('DELETE', `/partner/api-keys/${key.id}`);
      await clients;
    } finally {
      isOver = true;
    }
    expect(late).toHaveLength(CLIENTS);
    for (const outcome of late) expect(outcome).toContain('403 (ACCESS-REFUSED)');
    expect(live.size).toBe(0);

    // Another key of the organization reads the plant's command log.
    const rows = await readLog(stack, plant.id);
    expect(rows.length).toBeGreaterThanOrEqual(confirmed);
    for (const row of rows) expect(Date.parse(row.createdAt)).toBeLessThanOrEqual(revokedAtMs);
  }, 60_000);

  it('returns after the call to a site in progress; publishes that waited for that call are not recorded [C-5.6]', async () => {
    const plant = await stack.addPlant();
    const key = await stack.addKey();
    const partner = new ReturningPartner(stack.partnerOptions(key), []);
    await eventually(() => partner.connected || undefined);
    const hold = control.hold('before-rpc', { subject: plant.id });
    const underWay = setpointOrder(plant.id);
    const behind = [setpointOrder(plant.id), setpointOrder(plant.id)];
    const publishes = [partner.publish(underWay)];
    await hold.reached;
    publishes.push(...behind.map((order) => partner.publish(order)));
    // Another site confirms this publish, so it comes after the waiting ones.
    expect(await partner.publish(setpointOrder(stack.credentials.plantId))).toBe(true);

    let hasReturned = false;
    const vhost = await VhostCaller.of(stack, key.id);
    const revoked = vhost.revoke().then(() => {
      hasReturned = true;
    });
    expect(await Promise.all(publishes)).not.toContain(true);
    await readLog(stack, plant.id);
    expect(hasReturned).toBe(false);
    hold.release();
    await revoked;

    const other = new ReturningPartner(stack.partnerOptions(), []);
    await eventually(() => other.connected || undefined);
    const fence = setpointOrder(plant.id);
    expect(await other.publish(fence)).toBe(true);
    const logged = (await readLog(stack, plant.id)).map((row) => row.messageId);
    expect(logged).toContain(fence.messageId);
    for (const order of behind) expect(logged).not.toContain(order.messageId);
    await Promise.all([partner.stop(), other.stop()]);
  });
});
