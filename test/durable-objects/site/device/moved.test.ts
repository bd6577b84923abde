/** What a device takes to another object, what it finds when it returns, and the values that it leaves [C-3.1]. */
import { HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  connectListening,
  connectTo,
  nthCommand,
  publish,
  sendAck,
  sendStatus,
  sendTelemetry,
} from '#workerd/site-devices.ts';
import { leftOf, moveDevice, NOTHING, newMove, PING, statusOfDial, whole } from '#workerd/site-move.ts';
import { evictSite, numberOf, openSessions, rowsOf } from '#workerd/site-rows.ts';
import { ackWith, dropOf, isSignedWith } from '#workerd/site-secrets.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, randomHex, siteOf } from '#workerd/world.ts';
import type { DevicePack } from '../../../../durable-objects/rpc.ts';

describe('the data that moves with a device', () => {
  it('used nonces move with a device and stay used until they expire [C-3.8]', async () => {
    const { plant, fromId, toId, gateway, move } = await newMove();
    const link = await connectListening(plant);
    expect(await dropOf(fromId, link, gateway, 'n-1')).toBeUndefined();
    setClock(START_MS + MINUTE);
    await whole(move);
    for (const isEvicted of [false, true]) {
      if (isEvicted) await evictSite(toId);
      const again = await connectTo(toId, gateway.id);
      expect(await dropOf(toId, again, gateway, 'n-1', '{"a":2}')).toBe('NONCE');
    }
    await passTime(toId, 10 * MINUTE);
    expect(await numberOf(toId, 'SELECT count(*) FROM moved_nonce')).toBe(0);
    const late = await connectTo(toId, gateway.id);
    expect(await dropOf(toId, late, gateway, 'n-1', '{"a":2}')).toBeUndefined();
  });

  it('a device that moves again and again carries each valid nonce once, and expired ones not at all [C-3.8]', async () => {
    const { fromId, toId, id, gateway, move } = await newMove();
    await dropOf(fromId, await connectTo(fromId, id), gateway, 'first');
    await whole(move);
    let pack: DevicePack | undefined;
    for (let count = 0; count < 20; count++) {
      const [here, there] = count % 2 === 0 ? ([toId, fromId] as const) : ([fromId, toId] as const);
      await dropOf(here, await connectTo(here, id), gateway, `nonce ${count}`);
      pack = await siteOf(here).releaseDevice(id, `move ${count}`);
      if (pack) await siteOf(there).takeDevice(there, id, pack);
      await siteOf(here).dropDevice(id);
    }
    expect(new Set(pack?.nonces.map(({ nonce }) => nonce)).size).toBe(21);
    expect(pack?.nonces).toHaveLength(21);
    setClock(Date.now() + 300_001);
    expect((await siteOf(toId).releaseDevice(id, 'the last move'))?.nonces).toEqual([]);
  });

  it("only a device's own nonces move with it, and those of the other devices in the new site still count", async () => {
    const { plant, target, toId, gateway, move, pack } = await newMove();
    await sendTelemetry(await connectListening(plant), gateway, { a: 1 });
    const there = await connectListening(target);
    expect(await dropOf(toId, there, target.gateway, 'theirs')).toBeUndefined();
    await whole(move);
    expect(pack()?.nonces.map(({ deviceId }) => deviceId)).toEqual([gateway.id]);
    expect(await dropOf(toId, there, target.gateway, 'theirs', '{"a":2}')).toBe('NONCE');
  });

  it('both secrets move with a device during the grace period, with the proven secret and its key form [C-3.7]', async () => {
    const { plant, fromId, toId, id, gateway, move } = await newMove();
    const next = randomHex(32);
    await siteOf(fromId).rotateSecret(id, next);
    await ackWith(fromId, await connectTo(plant.id, id), id, gateway.hmacSecret, 'bytes');
    await whole(move);
    const link = await connectTo(toId, id);
    link.send({ kind: 'subscribed', commands: true });
    await siteOf(toId).submitRestCommand(id, PING);
    expect(isSignedWith(id, await nthCommand(link, 1), gateway.hmacSecret, 'bytes')).toBe(true);
    expect(await ackWith(toId, link, id, next)).toBe(true);
    await passTime(toId, HOUR);
    expect(await ackWith(toId, link, id, gateway.hmacSecret)).toBe(false);
    expect(await numberOf(toId, `SELECT count(*) FROM device_secret WHERE device_id = '${id}'`)).toBe(1);
  });

  it('diagnostics move with a device, and their counts and numbering continue [C-3.8]', async () => {
    const { fromId, toId, id, move } = await newMove();
    const link = await connectTo(fromId, id, { address: '192.0.2.7' });
    await publish(link, 'hello');
    const { rowsWritten: _here, ...before } = await siteOf(fromId).diagnostics(id);
    await whole(move);
    const { rowsWritten: _there, ...after } = await siteOf(toId).diagnostics(id);
    expect(after).toEqual(before);
    setClock(START_MS + SECOND);
    await publish(await connectTo(toId, id, { address: '192.0.2.8' }), 'hello again');
    const { drops, recent, connects } = await siteOf(toId).diagnostics(id);
    expect(drops).toEqual({ MALFORMED: 2 });
    expect(recent.slice(1)).toEqual(before.recent);
    expect(connects.map(({ address }) => address)).toEqual(['192.0.2.8', '192.0.2.7']);
  });

  it('REST commands move with a device, in order, with their ends and idempotency keys [C-3.4]', async () => {
    const { plant, fromId, toId, id, gateway, move } = await newMove();
    const link = await connectListening(plant);
    const site = siteOf(fromId);
    await site.submitRestCommand(id, PING);
    await sendAck(link, gateway, (await nthCommand(link, 1)).cmdId, 'COMPLETED');
    for (const action of ['B', 'C'])
      await site.submitRestCommand(id, { ...PING, action, idempotencyKey: action });
    await whole(move);
    const { commands } = await siteOf(toId).pageRestCommands(id, 1, 10);
    expect(commands.map(({ action, status, reason }) => [action, status, reason])).toEqual([
      ['C', 'FAILED', 'MOVED'],
      ['B', 'FAILED', 'MOVED'],
      ['PING', 'COMPLETED', undefined],
    ]);
    expect(await siteOf(toId).submitRestCommand(id, PING)).toEqual({ command: commands[2] });
    expect(await siteOf(toId).submitRestCommand(id, { ...PING, action: 'X' })).toEqual({ refused: 'reused' });
  });

  it('a suspension and the failed logins that count toward one move with a device [C-3.11]', async () => {
    const { organization, fromId, toId, id, move } = await newMove();
    const refused = { address: '192.0.2.7', reason: 'r', counts: true, organizationId: organization.id };
    for (let count = 0; count < 9; count++) await siteOf(fromId).noteRefusedLogin(id, refused);
    await whole(move);
    await siteOf(toId).noteRefusedLogin(id, refused);
    expect(await statusOfDial(toId, id)).toBe(401);
    const pack = await siteOf(toId).releaseDevice(id, 'move-2');
    if (pack) await siteOf(fromId).takeDevice(fromId, id, pack);
    expect(await statusOfDial(fromId, id)).toBe(401);
    const [row] = await rowsOf(fromId, `SELECT suspend_reason FROM device WHERE id = '${id}'`);
    expect(row).toEqual({ suspend_reason: expect.stringContaining('10 failed logins') });
  });

  it('the reported status moves with a device', async () => {
    const { plant, toId, id, gateway, move } = await newMove();
    await sendStatus(await connectListening(plant), gateway, 'MAINTENANCE');
    await whole(move);
    const [row] = await rowsOf(toId, `SELECT reported_status, leaving FROM device WHERE id = '${id}'`);
    expect(row).toEqual({ reported_status: 'MAINTENANCE', leaving: null });
  });
});

describe('a device that returns to its previous site', () => {
  it.for([
    ['its departure was finished', true],
    ['its departure was not finished', false],
  ])(
    'a device that returns to a site where %s has all its data, and nonces used elsewhere count [C-3.8]',
    async ([_title, isOver], { moving: { fromId, toId, id, gateway, move, evict } }) => {
      await dropOf(fromId, await connectTo(fromId, id), gateway, 'first');
      await move.release();
      await move.take();
      if (isOver) await move.drop();
      await dropOf(toId, await connectTo(toId, id), gateway, 'second');
      await evict();
      const back = await siteOf(toId).releaseDevice(id, 'move-2');
      for (let count = 0; count < 2; count++) if (back) await siteOf(fromId).takeDevice(fromId, id, back);
      for (let count = 0; count < 2; count++) await siteOf(toId).dropDevice(id);
      // The last step of the first move comes late.
      await move.drop();
      expect(await leftOf(toId, id)).toEqual(NOTHING);
      expect(await leftOf(fromId, id)).toMatchObject({ device: 1, device_secret: 1 });
      const link = await connectTo(fromId, id);
      for (const nonce of ['first', 'second'])
        expect(await dropOf(fromId, link, gateway, nonce, '{"a":2}')).toBe('NONCE');
      expect(await dropOf(fromId, link, gateway, 'third')).toBeUndefined();
    },
  );

  it('a device that moves back and forth keeps its dropped messages and logins in order, up to the limit of each [C-3.8]', async () => {
    const { fromId, toId, id, gateway, move } = await newMove();
    const [most, each] = [100, 40];
    let last = 0;
    const stray = async (siteId: string) => {
      const link = await connectTo(siteId, id, { address: `192.0.2.${last}` });
      for (let end = last + each; last < end; )
        link.send({ kind: 'foreign-topic', act: 'publish', topic: `${++last}` });
      await sendAck(link, gateway, 'none', 'RECEIVED');
      const { recent, drops, connects } = await siteOf(siteId).diagnostics(id);
      expect(drops).toEqual({ TOPIC: last });
      expect(recent.map(({ topic }) => Number(topic))).toEqual(
        Array.from({ length: Math.min(last, most) }, (_none, index) => last - index),
      );
      return connects.map(({ address }) => address);
    };
    await stray(fromId);
    await whole(move);
    await stray(toId);
    for (const [from, to, name] of [
      [toId, fromId, 'move-2'],
      [fromId, toId, 'move-3'],
    ] as const) {
      await moveDevice(from, to, id, name);
      await stray(to);
    }
    const connects = await stray(toId);
    expect(connects).toEqual([160, 120, 80, 40, 0].map((number) => `192.0.2.${number}`));
  });

  it('a device that was released but never taken is unchanged after its return, except that its session ended', async () => {
    const { fromId, id, gateway, move } = await newMove();
    const before = await connectTo(fromId, id);
    const pack = await move.release();
    await before.untilClosed();
    if (pack) await siteOf(fromId).takeDevice(fromId, id, pack);
    expect(await openSessions(fromId)).toBe(0);
    expect(await sendTelemetry(await connectTo(fromId, id), gateway, { a: 1 })).toBe(true);
  });
});

type Move = Awaited<ReturnType<typeof newMove>>;

const WAYS: Record<string, (scene: Move) => Promise<void>> = {
  moved: async ({ move }) => await whole(move),
  'moved, what it left still there': async ({ move }) => {
    await move.release();
    await move.take();
  },
  deleted: async ({ fromId, id }) => await siteOf(fromId).forgetDevice(id),
};

async function valuesOf(siteId: string) {
  return (await siteOf(siteId).readLatestTelemetry(siteId)).payload;
}

/** A site whose gateway has reported site values twice, and a value of the battery. */
async function newReportedSite() {
  const scene = await newMove();
  const link = await connectListening(scene.plant);
  await sendTelemetry(link, scene.gateway, { gridPowerKw: 7, socPercent: 40, 'BESS-1/powerKw': 3 });
  await sendTelemetry(link, scene.gateway, { socPercent: 41 });
  const before = await valuesOf(scene.fromId);
  expect(before.gridPowerKw).toBe(7);
  return { ...scene, before };
}

describe.each(Object.keys(WAYS))('the latest values of a site whose gateway was %s', (name) => {
  const leave = async (scene: Move) => await WAYS[name]?.(scene);

  it('the latest values stay after the gateway leaves, also after evictions before and after the departure', async () => {
    const scene = await newReportedSite();
    await scene.evict();
    await leave(scene);
    const after = await valuesOf(scene.fromId);
    expect(after.gridPowerKw).toBe(7);
    for (let count = 0; count < 2; count++) {
      await evictSite(scene.fromId);
      expect(await valuesOf(scene.fromId)).toEqual(after);
    }
  });

  it('the latest values stay next to those of the next gateway, also after an eviction', async () => {
    const scene = await newReportedSite();
    await leave(scene);
    const next = await createDevice(scene.organization, scene.fromId, 'GATEWAY');
    const link = await connectTo(scene.fromId, next.id);
    await sendTelemetry(link, next, { pvPowerKw: 2 });
    const after = await valuesOf(scene.fromId);
    expect(after.gridPowerKw).toBe(7);
    await evictSite(scene.fromId);
    expect(await valuesOf(scene.fromId)).toEqual(after);
    await passTime(scene.fromId, MINUTE);
    await sendTelemetry(await connectTo(scene.fromId, next.id), next, { gridPowerKw: 8 });
    await evictSite(scene.fromId);
    expect((await valuesOf(scene.fromId)).gridPowerKw).toBe(8);
  });

  it("the latest values do not move to the gateway's new site", async () => {
    const scene = await newReportedSite();
    await leave(scene);
    await evictSite(scene.toId);
    expect((await valuesOf(scene.toId)).gridPowerKw).toBeNull();
  });
});

describe('a gateway that returns', () => {
  it('its earlier values are still in the old site, which accepts its new values, across evictions', async () => {
    const scene = await newReportedSite();
    await whole(scene.move);
    await sendTelemetry(await connectTo(scene.toId, scene.id), scene.gateway, { gridPowerKw: 9 });
    await moveDevice(scene.toId, scene.fromId, scene.id, 'move-2');
    await scene.evict();
    expect((await valuesOf(scene.fromId)).gridPowerKw).toBe(7);
    expect((await valuesOf(scene.toId)).gridPowerKw).toBe(9);
    await sendTelemetry(await connectTo(scene.fromId, scene.id), scene.gateway, { gridPowerKw: 10 });
    await evictSite(scene.fromId);
    expect((await valuesOf(scene.fromId)).gridPowerKw).toBe(10);
  });
});
