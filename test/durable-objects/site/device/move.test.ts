/**
 * The steps of a device's move between objects, repeated as after a crash: at any time at most one object has
 * the device [C-3.1].
 */
import { vi } from 'vitest';
import { dialSite } from '#workerd/links.ts';
import { HOUR, passTime, START_MS, setClock } from '#workerd/site-clock.ts';
import { connectListening, connectTo, nthCommand, publish, sendTelemetry } from '#workerd/site-devices.ts';
import { leftOf, NOTHING, newMove, PING, statusOfDial, whole } from '#workerd/site-move.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { breakWrites, evictSite, openSessions, repair } from '#workerd/site-rows.ts';
import { dropOf } from '#workerd/site-secrets.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { randomHex, siteOf } from '#workerd/world.ts';
import { CLOSE_CODES } from '../../../../protocol/link/live.ts';

describe('a device that moves', () => {
  it('is disconnected from its old site by the first step, and can connect to the new one after the last [C-3.1]', async () => {
    const { fromId, toId, id, gateway, move } = await newMove();
    const link = await connectTo(fromId, id);
    await sendTelemetry(link, gateway, { gridPowerKw: 5 });
    await move.release();
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.takenOver });
    expect(await openSessions(fromId)).toBe(0);
    await move.take();
    await move.drop();
    const again = await connectTo(toId, id);
    expect(await sendTelemetry(again, gateway, { gridPowerKw: 7 })).toBe(true);
  });

  it('gets 503 from both sites between two steps, so that its bridge retries, and no failed login counts [C-3.11]', async () => {
    const { organization, fromId, toId, id, move, evict } = await newMove();
    await move.release();
    for (let round = 0; round < 2; round++) {
      for (const siteId of [fromId, toId]) {
        const response = await dialSite(siteId, id);
        expect(response.status).toBe(503);
        expect(await response.json()).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
      }
      await evict();
    }
    const refused = { address: '192.0.2.7', reason: 'r', counts: true, organizationId: organization.id };
    await siteOf(fromId).noteRefusedLogin(id, refused);
    await move.take();
    expect((await siteOf(toId).diagnostics(id)).connects).toEqual([]);
    expect(await statusOfDial(fromId, id)).toBe(503);
    expect(await statusOfDial(toId, id)).toBe(101);
  });

  it('leaves its measurements in the old site, and nothing else [C-3.1]', async () => {
    const { fromId, toId, id, gateway, plant, move } = await newMove();
    const link = await connectListening(plant);
    await siteOf(fromId).submitRestCommand(id, PING);
    await nthCommand(link, 1);
    await sendTelemetry(link, gateway, { gridPowerKw: 5 });
    await publish(link, 'hello');
    // Another login takes the place of the live session.
    expect(await statusOfDial(fromId, id)).toBe(101);
    expect(Object.values(await leftOf(fromId, id))).not.toContain(0);
    await whole(move);
    expect(await leftOf(fromId, id)).toEqual(NOTHING);
    const moved = { device: 1, device_secret: 1, rest_command: 1, dispatch: 0 };
    expect(await leftOf(toId, id)).toMatchObject(moved);
    expect(await gridPowerKw(plant)).toBe(5);
    await evictSite(fromId);
    expect(await leftOf(fromId, id)).toEqual(NOTHING);
  });

  it('can connect to its new site even if a day passes between two steps', async () => {
    const { fromId, toId, id, move } = await newMove();
    await move.release();
    await passTime(fromId, HOUR);
    setClock(START_MS + 24 * HOUR);
    await move.take();
    await move.drop();
    expect(await statusOfDial(toId, id)).toBe(101);
  });
});

describe('the steps of a move, repeated as after a crash', () => {
  const ORDERS = [
    ['release', 'take', 'drop'],
    ['release', 'release', 'take', 'take', 'drop', 'drop'],
    ['release', 'take', 'release', 'take', 'drop', 'drop'],
    ['release', 'take', 'drop', 'release', 'take', 'drop'],
    ['release', 'take', 'drop', 'take', 'take', 'drop'],
    ['drop', 'release', 'take', 'drop', 'release'],
  ] as const;

  it.for(
    ORDERS.flatMap((order) => [false, true].map((evicted) => [order.join(', '), evicted, order] as const)),
  )(
    'after the steps %s only the new object has the device (evicted between steps: %s)',
    async ([_title, isEvicted, order], { moving: { plant, toId, fromId, id, gateway, move, evict } }) => {
      const link = await connectListening(plant);
      expect(await dropOf(fromId, link, gateway, 'used')).toBeUndefined();
      await publish(link, 'hello');
      await siteOf(fromId).submitRestCommand(id, PING);
      for (const step of order) {
        await move[step]();
        if (isEvicted) await evict();
      }
      expect(await leftOf(fromId, id)).toEqual(NOTHING);
      expect(await statusOfDial(fromId, id)).toBe(503);
      expect(await siteOf(toId).diagnostics(id)).toMatchObject({ drops: { MALFORMED: 1 } });
      expect(await siteOf(toId).pageRestCommands(id, 1, 10)).toMatchObject({ total: 1 });
      const again = await connectTo(toId, id);
      expect(await dropOf(toId, again, gateway, 'used', '{"gridPowerKw":2}')).toBe('NONCE');
      expect(await dropOf(toId, again, gateway, 'new')).toBeUndefined();
    },
  );

  it('release returns the same package each time until drop', async () => {
    const { plant, move, evict, gateway } = await newMove();
    await sendTelemetry(await connectListening(plant), gateway, { gridPowerKw: 1 });
    const first = await move.release();
    expect(first?.nonces).toHaveLength(1);
    await evict();
    expect(await move.release()).toEqual(first);
    await move.drop();
    expect(await move.release()).toBeUndefined();
  });

  it('a repeated take does not change a device that has been active at its new site since the first take', async () => {
    const { toId, id, gateway, move } = await newMove();
    await whole(move);
    const link = await connectTo(toId, id);
    await publish(link, 'hello');
    await siteOf(toId).rotateSecret(id, randomHex(32));
    expect(await dropOf(toId, link, gateway, 'later')).toBeUndefined();
    await move.take();
    expect(await siteOf(toId).diagnostics(id)).toMatchObject({ drops: { MALFORMED: 1 } });
    expect(await leftOf(toId, id)).toMatchObject({ device: 1, device_secret: 2 });
    expect(link.closed).toBeUndefined();
    expect(await dropOf(toId, link, gateway, 'later', '{"a":2}')).toBe('NONCE');
  });

  it('drop does not delete a device that was not released', async () => {
    const { fromId, id } = await newMove();
    await siteOf(fromId).dropDevice(id);
    expect(await statusOfDial(fromId, id)).toBe(101);
  });

  it('a take whose write fails stores nothing, and succeeds on retry [rule 3]', async () => {
    const { toId, id, move } = await newMove();
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    await move.release();
    await breakWrites(toId, 'INSERT ON device_secret');
    await expect(move.take()).rejects.toThrow();
    expect(await leftOf(toId, id)).toEqual(NOTHING);
    expect(await statusOfDial(toId, id)).toBe(503);
    await repair(toId);
    await move.take();
    expect(await statusOfDial(toId, id)).toBe(101);
  });

  it('release and drop of an unknown device do nothing', async () => {
    const { fromId, move } = await newMove();
    const unknown = crypto.randomUUID();
    expect(await siteOf(fromId).releaseDevice(unknown, 'move-1')).toBeUndefined();
    await siteOf(fromId).dropDevice(unknown);
    expect(await move.release()).toBeDefined();
  });
});
