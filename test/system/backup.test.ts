/**
 * Backups under load: while a partner publishes a thousand commands, its plant or its key is backed up and restored. No
 * confirmed command is lost, none is executed twice, and partner and device only have to connect again.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { expectNoSecondEffect, expectNothingLost, readLog, type Scene } from '#support/command-history.ts';
import { Device } from '#support/device.ts';
import { chargeOrder, ReturningPartner } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { Operator } from '../../tools/admin-client.ts';
import { type BackupObject, backUp, rehearse, restore } from '../../tools/backup.ts';

const COMMANDS = 1_000;
const IN_FLIGHT = 100;
const CONFIRMED_BEFORE = 300;

const stack = suiteStack({ bridgeProcess: true });
const folder = mkdtempSync(join(tmpdir(), 'sitewire-backup-'));
afterAll(() => rmSync(folder, { recursive: true }));

function operator(): Operator {
  return new Operator(stack.edge.url, stack.credentials.operatorToken);
}

async function scene(): Promise<Scene & { keyId: string }> {
  const plant = await stack.addPlant();
  const key = await stack.addKey();
  const device = await Device.start(stack, plant.gateway);
  const partner = new ReturningPartner(stack.partnerOptions(key));
  await eventually(() => (device.listening && partner.connected) || undefined);
  return { stack, siteId: plant.id, key: key.key, keyId: key.id, partner, device };
}

async function end({ partner, device }: Scene): Promise<void> {
  await Promise.all([partner.stop(), device.stop()]);
}

describe('a plant or a key that is backed up and restored while a thousand commands are published', () => {
  it.each(['plant', 'key'] as const)(
    'loses no confirmed command, and executes none twice: the %s',
    async (kind) => {
      const own = await scene();
      try {
        const orders = Array.from({ length: COMMANDS }, () => chargeOrder(own.siteId));
        const confirmed = new Set<string>();
        const { promise: isTime, resolve: begin } = Promise.withResolvers<void>();
        const waiting = orders.values();
        const publishAll = async () => {
          for (const order of waiting) {
            if (await own.partner.publish(order)) confirmed.add(order.messageId);
            if (confirmed.size === CONFIRMED_BEFORE) begin();
          }
        };
        const published = Promise.all(Array.from({ length: IN_FLIGHT }, publishAll));
        await isTime;
        const object: BackupObject = { object: kind, id: kind === 'plant' ? own.siteId : own.keyId };
        const { rows, fencedMs } = await rehearse(operator(), object);
        expect(rows).toBeGreaterThan(0);
        console.log(`RTO of a ${kind} with ${rows} rows: ${fencedMs} ms`);
        await published;
        await expectNothingLost(own, orders, confirmed);
        await expectNoSecondEffect(own, orders, confirmed);
      } finally {
        await end(own);
      }
    },
    60_000,
  );
});

describe('a backup in a file', () => {
  it('is readable only for its owner, and a restore loses only what came after it', async () => {
    const own = await scene();
    try {
      const object: BackupObject = { object: 'plant', id: own.siteId };
      const path = join(folder, 'plant.backup');
      const [before, after] = [chargeOrder(own.siteId), chargeOrder(own.siteId)];
      await eventually(async () => (await own.partner.publish(before)) || undefined);
      const taken = await backUp(operator(), object, path);
      expect(statSync(path).mode & 0o777).toBe(0o600);
      await eventually(async () => (await own.partner.publish(after)) || undefined);
      const restored = await restore(operator(), object, path);
      expect(restored).toMatchObject({ rows: taken.rows, changedDevices: 0 });
      const log = await readLog(stack, own.siteId, own.key);
      expect(log.map(({ messageId }) => messageId)).toEqual([before.messageId]);
      const next = chargeOrder(own.siteId);
      await eventually(async () => (await own.partner.publish(next)) || undefined);
      await eventually(() => own.device.times(next.powerKw) === 1 || undefined);
    } finally {
      await end(own);
    }
  });

  it('leaves plant and fence as they were if it is refused, and overwrites no file', async () => {
    const own = await scene();
    try {
      const object: BackupObject = { object: 'plant', id: own.siteId };
      const path = join(folder, 'cut.backup');
      await backUp(operator(), object, path);
      await expect(backUp(operator(), object, path)).rejects.toThrow('EEXIST');
      writeFileSync(path, readFileSync(path, 'utf8').slice(0, -5));
      await expect(restore(operator(), object, path)).rejects.toThrow('it was cut off');
      await backUp(operator(), object, join(folder, 'again.backup'));
      await expect(backUp(operator(), { object: 'plant', id: own.keyId }, join(folder, 'x'))).rejects.toThrow(
        '404',
      );
      expect(existsSync(join(folder, 'x'))).toBe(false);
    } finally {
      await end(own);
    }
  });
});
