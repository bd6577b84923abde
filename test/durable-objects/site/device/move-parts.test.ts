/**
 * A device with more nonces than one part of its move carries, whose move is interrupted between the parts. Either way to
 * finish it loses no nonce and stores none twice [C-3.1], [C-3.8].
 */
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { runSql, valueFrom } from '#workerd/d1.ts';
import { START_MS } from '#workerd/site-clock.ts';
import { connectTo } from '#workerd/site-devices.ts';
import { leftOf, newMove } from '#workerd/site-move.ts';
import { evictSite, rowsOf } from '#workerd/site-rows.ts';
import { dropOf } from '#workerd/site-secrets.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { siteOf } from '#workerd/world.ts';
import type { NonceUse } from '../../../../durable-objects/site/telemetry/replay.ts';
import { findDialingDevice } from '../../../../registry/devices.ts';
import { deviceAfterMove, finishMoves } from '../../../../worker/lifecycle/device-move.ts';

const COUNT = 45_000;
const PER_ROW = 1_000;

/** A move whose destination D1 has, of a gateway with three parts of nonces. */
async function begunMove() {
  const scene = await newMove();
  const { fromId, toId, id } = scene;
  for (let first = 0; first < COUNT; first += PER_ROW) {
    const uses = Array.from({ length: PER_ROW }, (_none, index): NonceUse => {
      return {
        ...{ deviceId: id, nonce: `n-${first + index}`, digest: '0'.repeat(16) },
        ...{ ts: START_MS + first + index, receivedMs: START_MS },
      };
    });
    const untilMs = START_MS + first + PER_ROW + 300_000;
    await runInDurableObject(siteOf(fromId), (_site, { storage }) => {
      const sql = 'INSERT INTO moved_nonce (until_ms, data) VALUES (?, ?)';
      storage.sql.exec(sql, untilMs, JSON.stringify(uses));
    });
  }
  await evictSite(fromId);
  await runSql('UPDATE devices SET moving_to = ? WHERE id = ?', toId, id);
  return scene;
}

async function storedNonces(siteId: string): Promise<string[]> {
  const rows = await rowsOf<{ data: string }>(siteId, 'SELECT data FROM moved_nonce');
  return rows.flatMap(({ data }) => (JSON.parse(data) as NonceUse[]).map(({ nonce }) => nonce));
}

/** The parts after the first one, as the Worker carries them; ends after that many, as if it was killed there. */
async function carryParts(
  { fromId, toId, id }: { fromId: string; toId: string; id: string },
  most: number,
): Promise<number> {
  let carried = 0;
  const first = await siteOf(fromId).releaseDevice(id, toId);
  for (let next = first?.next; next && carried < most; carried += 1) {
    const part = await siteOf(fromId).releaseDevice(id, toId, next);
    if (part) await siteOf(toId).takeDevice(toId, id, part);
    next = part?.next;
  }
  return carried;
}

const FINISHERS = {
  'the scheduled task': () => finishMoves(env, START_MS),
  'the next request for the device': async (id: string) => {
    const device = await findDialingDevice(env.DB, id);
    if (device) await deviceAfterMove(env, device, START_MS);
  },
};

describe('a move that is interrupted between the parts of its nonces', () => {
  it.for([
    [0, 'the scheduled task'],
    [1, 'the scheduled task'],
    [2, 'the scheduled task'],
    [1, 'the next request for the device'],
  ] as const)(
    'carries each nonce once when it ended after %d further parts and %s finishes it [C-3.8]',
    async ([parts, finisher], { clock: _clock }) => {
      const scene = await begunMove();
      const { fromId, toId, id, gateway } = scene;
      expect(await carryParts(scene, parts)).toBe(parts);
      for (const siteId of [fromId, toId]) await evictSite(siteId);
      await FINISHERS[finisher](id);
      expect(await valueFrom('SELECT plant_id FROM devices WHERE id = ?', id)).toBe(toId);
      expect(await valueFrom('SELECT moving_to FROM devices WHERE id = ?', id)).toBeNull();
      expect((await leftOf(fromId, id)).device).toBe(0);
      const stored = await storedNonces(toId);
      expect(new Set(stored).size).toBe(COUNT);
      expect(stored).toHaveLength(COUNT);
      const link = await connectTo(toId, gateway.id);
      for (const nonce of ['n-0', `n-${COUNT - 1}`])
        expect(await dropOf(toId, link, gateway, nonce, '{"a":2}')).toBe('NONCE');
      expect(await dropOf(toId, link, gateway, 'fresh')).toBeUndefined();
    },
  );
});
