/** A plant that is deleted while a request about it is handled, at whatever step: no 500, and no audit row of what never was. */
import { env } from 'cloudflare:workers';
import { afterEach, beforeAll, expect, it, vi } from 'vitest';
import { deletePlant } from '../../../worker/registry/plants.ts';
import { auditOf, tellNobody } from '../../support/workerd/commits.ts';
import { organizationOf, postPlant, postSubDevice } from '../../support/workerd/fleet.ts';
import { type Call, createTeam, type Team } from '../../support/workerd/people.ts';
import { watchRegistry } from '../../support/workerd/registry-reads.ts';

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

afterEach(() => {
  vi.restoreAllMocks();
});

const CONFIG = { constraints: null, fallback: null, operatingMode: 'STANDARD' };

/** A request about a plant and its sub-device, and the audit row of what it does. */
const REQUESTS: [string, Call, (plantId: string, subDeviceId: string) => string, string][] = [
  ['PATCH a plant', { method: 'PATCH', body: { name: 'New' } }, (id) => `/plants/${id}`, 'plant.updated'],
  ['DELETE a plant', { method: 'DELETE' }, (id) => `/plants/${id}`, 'plant.deleted'],
  [
    'PUT a configuration',
    { method: 'PUT', body: CONFIG },
    (id) => `/plants/${id}/config`,
    'plant.config_updated',
  ],
  [
    'POST a sub-device',
    { method: 'POST', body: { externalId: 'NEW', assetType: 'FVE', name: 'New' } },
    (id) => `/plants/${id}/sub-devices`,
    'sub_device.created',
  ],
  [
    'PATCH a sub-device',
    { method: 'PATCH', body: { name: 'New' } },
    (id, subDeviceId) => `/plants/${id}/sub-devices/${subDeviceId}`,
    'sub_device.updated',
  ],
  [
    'DELETE a sub-device',
    { method: 'DELETE' },
    (id, subDeviceId) => `/plants/${id}/sub-devices/${subDeviceId}`,
    'sub_device.deleted',
  ],
];

/** More steps than any request has. */
const MAX_STEPS = 40;

async function countOf(event: string): Promise<number> {
  const sql = 'SELECT count(*) AS count FROM audit_events WHERE organization_id = ? AND event = ?';
  return (await env.DB.prepare(sql).bind(team.id, event).raw<[number]>())[0]?.[0] ?? 0;
}

/** Deletes the plant before the n-th read or batch of D1 that the request makes; false when there were not so many. */
function deleteBefore(n: number, plantId: string, event: string) {
  const seen = { reads: 0, isDeleted: false, rowsBefore: 0 };
  let isOwn = false;
  watchRegistry(async () => {
    if (isOwn) return;
    seen.reads += 1;
    if (seen.reads !== n) return;
    isOwn = true;
    seen.rowsBefore = await countOf(event);
    const audit = auditOf(organizationOf(team), 'test.plant_gone', 'PLANT')(plantId);
    const gone = await deletePlant(env.DB, { organizationId: team.id, id: plantId }, audit, Date.now());
    if (typeof gone !== 'string') await tellNobody(gone);
    seen.isDeleted = true;
    isOwn = false;
  });
  return seen;
}

it.each(REQUESTS)(
  '%s whose plant goes meanwhile is answered 200, 201 or 404 [C-3.2]',
  async (_what, options, pathOf, event) => {
    for (let n = 1; n <= MAX_STEPS; n++) {
      const { id } = await postPlant(team.operator);
      const { id: subDeviceId } = await postSubDevice(team.operator, id);
      const before = await countOf(event);
      const seen = deleteBefore(n, id, event);
      const response = await team.admin.call(pathOf(id, subDeviceId), options);
      vi.restoreAllMocks();
      if (!seen.isDeleted) return;
      expect([n, response.status]).toEqual([n, expect.toBeOneOf([200, 201, 404])]);
      const wasDone = seen.rowsBefore > before;
      expect([n, response.status, (await countOf(event)) - before]).toEqual([
        n,
        response.status,
        wasDone ? 1 : 0,
      ]);
    }
    throw new Error('the request does not come to its end');
  },
);
