/**
 * D1 restored to an earlier time while the objects keep their state, as time travel does on the platform: here the files
 * of an earlier time replace those of D1. What docs/operations.md says about each kind of change holds, and no confirmed
 * command is lost.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readLog } from '#support/command-history.ts';
import { Device } from '#support/device.ts';
import { chargeOrder, ReturningPartner } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import type { SeededDevice, SeededKey, SeededPlant } from '../../tools/seed.ts';

const COMMANDS = 100;
const RAISE = 'UPDATE organizations SET registry_version = registry_version + 1000000';

describe('D1 restored to an earlier time', () => {
  const stack = suiteStack();
  const earlier = mkdtempSync(join(tmpdir(), 'sitewire-d1-'));
  const confirmed: string[] = [];
  let plant: SeededPlant;
  let elsewhere: SeededPlant;
  let revoked: SeededKey;
  let suspended: SeededDevice;
  let moved: SeededDevice;
  let newKey: SeededKey;
  let newPlant: SeededPlant;
  let partner: ReturningPartner;
  let device: Device;

  const dial = async ({ id }: SeededDevice) => {
    const client = await stack.mqtt(id, await stack.deviceToken(id), id);
    await client.endAsync(true);
  };
  const publishSome = async (count: number) => {
    const orders = Array.from({ length: count }, () => chargeOrder(plant.id));
    const outcomes = await Promise.all(
      orders.map((order) => eventually(async () => (await partner.publish(order)) || undefined)),
    );
    expect(outcomes).not.toContain(false);
    confirmed.push(...orders.map(({ messageId }) => messageId));
  };

  beforeAll(async () => {
    [plant, elsewhere] = [await stack.addPlant(), await stack.addPlant()];
    revoked = await stack.addKey();
    [suspended, moved] = [await stack.addDevice(plant.id), await stack.addDevice(plant.id)];
    device = await Device.start(stack, plant.gateway);
    partner = new ReturningPartner(stack.partnerOptions());
    await eventually(() => (device.listening && partner.connected) || undefined);
    await publishSome(COMMANDS);
    await stack.restartEdge({}, () => cpSync(stack.databaseFolder, earlier, { recursive: true }));

    // What happens after the time to which D1 is restored.
    await publishSome(COMMANDS);
    await stack.admin.call('DELETE', `/partner/api-keys/${revoked.id}`);
    await stack.admin.call('POST', `/devices/${suspended.id}/suspend`, {});
    await stack.admin.call('PATCH', `/devices/${moved.id}`, { plantId: elsewhere.id });
    newKey = await stack.addKey();
    newPlant = await stack.addPlant();
    await dial(newPlant.gateway);

    await stack.restartEdge({}, () => {
      rmSync(stack.databaseFolder, { recursive: true });
      cpSync(earlier, stack.databaseFolder, { recursive: true });
    });
  }, 60_000);
  afterAll(async () => {
    await Promise.all([partner.stop(), device.stop()]);
    rmSync(earlier, { recursive: true });
  });

  it('loses no confirmed command, and partner and device work on', async () => {
    await eventually(() => (device.listening && partner.connected) || undefined);
    await publishSome(COMMANDS);
    const log = await readLog(stack, plant.id);
    expect(log.map(({ messageId }) => messageId).sort()).toEqual([...confirmed].sort());
  });

  it('a key that was revoked since is refused over AMQP, and its own object then revokes it for REST, too', async () => {
    await expect(stack.partner(revoked)).rejects.toThrow('403');
    await eventually(async () => (await stack.rest('/vcp/sites', revoked.key)).status === 401 || undefined);
  });

  it('a key that was created since is refused everywhere', async () => {
    await expect(stack.partner(newKey)).rejects.toThrow('403');
    expect((await stack.rest('/vcp/sites', newKey.key)).status).toBe(401);
  });

  it('the devices of a plant that was created since are refused', async () => {
    await expect(dial(newPlant.gateway)).rejects.toThrow('Not authorized');
  });

  it('a device that was suspended since is still refused by its object', async () => {
    await expect(dial(suspended)).rejects.toThrow('Not authorized');
    expect(await stack.admin.call('GET', `/devices/${suspended.id}`)).toMatchObject({ status: 'ACTIVE' });
  });

  it('a device that was moved since is refused at its old plant until it is moved again', async () => {
    await expect(dial(moved)).rejects.toThrow();
    await stack.admin.call('PATCH', `/devices/${moved.id}`, { plantId: elsewhere.id });
    await eventually(async () => (await dial(moved).catch(() => 'refused')) !== 'refused' || undefined);
  });

  it('changes apply at once when the version of each organization was raised', async () => {
    const database = await stack.edge.miniflare.getD1Database('DB');
    await database.prepare(RAISE).run();
    const { id } = stack.credentials.organization;
    const settings = { requireSignedCommands: true };
    await stack.admin.call('PATCH', `/organizations/${id}`, { settings });
    // With a key of its own, because each event goes to one of a key's consumers.
    const fresh = await stack.partner(await stack.addKey());
    try {
      await fresh.watch('event.command.ack');
      const { correlationId } = await fresh.publish(
        'site-setpoint',
        plant.id,
        {
          ...{
            type: 'POWER',
            targetValueKw: 5,
            direction: 'IMPORT',
            includeConsumption: true,
            priority: 'NORMAL',
          },
        },
        { signed: false },
      );
      await fresh.waitFor(
        (event) => event.correlationId === correlationId && event.payload.message === 'signature missing',
      );
    } finally {
      await fresh.close();
    }
  });
});
