/**
 * A full disk is a temporary failure: 503 to REST, no confirm and no PUBACK, and everything works again when
 * there is room (rule 7).
 */
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { openDevice } from '#support/closable.ts';
import { emptyDisk, fillDisk, surviveFullDisks } from '#support/full-disk.ts';
import { ReturningPartner, setpointOrder } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import type { PlantRecord } from '../../protocol/plant-record.ts';

const ABORTING = join(import.meta.dirname, '..', 'support', 'workerd', 'aborting-worker.ts');

async function expectUnavailable(response: Response): Promise<void> {
  const error = { statusCode: 503, error: 'Service Unavailable', code: 'SERVICE_UNAVAILABLE' };
  const body = { ...error, message: expect.stringMatching(/\S/) };
  expect([response.status, await response.json()]).toEqual([503, body]);
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(response.headers.get('x-request-id')).toMatch(/\S/);
}

describe('an object that restarts during a request', () => {
  const stack = suiteStack({ entry: ABORTING });

  it('causes a 503 with a Retry-After for that request; every other request is served (spec: 503)', async () => {
    const { plantId, apiKey } = stack.credentials;
    const url = `${stack.edge.url}/api/v1/vcp/sites/${plantId}/config`;
    for (let repeat = 0; repeat < 3; repeat++) {
      await expectUnavailable(await fetch(url, { headers: { 'x-api-key': apiKey.key } }));
      expect((await stack.rest(`/vcp/sites/${plantId}/commands`)).status).toBe(200);
    }
  });
});

describe('a full disk', () => {
  // Before the stack starts, until it has stopped.
  beforeAll(() => {
    const runtime = surviveFullDisks();
    return () => runtime.restore();
  });
  const stack = suiteStack();
  afterEach(() => emptyDisk(stack.edge.pid()));

  const get = async (path: string) =>
    await fetch(`${stack.edge.url}/api/v1${path}`, {
      headers: { 'x-api-key': stack.credentials.apiKey.key },
    });

  /** A plant whose object does not exist yet, so a request for it must write. */
  const newborn = async (): Promise<string> => {
    const { id } = await stack.admin.call<PlantRecord>('POST', '/plants', { name: 'Newborn' });
    return id;
  };

  it('causes a 503 with a Retry-After for requests that need a write; later they succeed (spec: 503)', async () => {
    const siteId = await newborn();
    const pid = stack.edge.pid();
    fillDisk(pid);
    await expectUnavailable(await get(`/vcp/sites/${siteId}/config`));
    emptyDisk(pid);
    await eventually(async () => (await get(`/vcp/sites/${siteId}/config`)).status === 200 || undefined);
    expect(stack.edge.pid()).toBe(pid);
  });

  it('causes no other status of a read than 200 or 503 (rule 7)', async () => {
    const { plantId } = stack.credentials;
    fillDisk(stack.edge.pid());
    for (const path of ['', `/${plantId}/config`, `/${plantId}/commands`, `/${plantId}/telemetry/latest`]) {
      const response = await get(`/vcp/sites${path}`);
      await response.arrayBuffer();
      expect([200, 503]).toContain(response.status);
    }
  });

  it('prevents the confirm of a publish, which is recorded once when its partner sends it again [C-6.4]', async () => {
    const plant = await stack.addPlant();
    const partner = new ReturningPartner(stack.partnerOptions(await stack.addKey()), []);
    await eventually(() => partner.connected || undefined);
    expect(await partner.publish(setpointOrder(plant.id))).toBe(true);
    const pid = stack.edge.pid();
    fillDisk(pid);
    const order = setpointOrder(plant.id);
    expect(await partner.publish(order)).toBe(false);
    emptyDisk(pid);
    await eventually(async () => (await partner.publish(order)) || undefined);
    const { body } = await stack.rest(`/vcp/sites/${plant.id}/commands`);
    const logged = (body as { items: { messageId: string }[] }).items.map(({ messageId }) => messageId);
    expect(logged.filter((id) => id === order.messageId)).toHaveLength(1);
    await partner.stop();
    expect(stack.edge.pid()).toBe(pid);
  });

  it('prevents the PUBACK of each reading and ends the device’s session; later it continues [C-3.6]', async () => {
    const plant = await stack.addPlant();
    const device = await openDevice(stack, plant.gateway, 'busy');
    await eventually(() => device.taken > 3 || undefined);
    const pid = stack.edge.pid();
    fillDisk(pid);
    const atTheFill = device.taken;
    expect(await eventually(() => device.end, 15_000)).toBe('closed');
    // One or two readings had been stored before.
    expect(device.taken).toBeLessThanOrEqual(atTheFill + 2);
    emptyDisk(pid);
    const again = await eventually(
      async () => await openDevice(stack, plant.gateway, 'busy').catch(() => undefined),
    );
    await eventually(() => again.taken > 3 || undefined);
    again.stop();
    expect(stack.edge.pid()).toBe(pid);
  });
});
