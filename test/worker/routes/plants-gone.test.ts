/** A plant that is deleted during a request: no 500, and no audit row of a change that did not happen. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import type { Call } from '#workerd/client.ts';
import { auditOf, markDelivered } from '#workerd/commits.ts';
import { auditRows } from '#workerd/door.ts';
import { watchRegistry } from '#workerd/registry-reads.ts';
import type { Team } from '#workerd/team.ts';
import { expect, it } from '#workerd/worker-test.ts';
import { deletePlant } from '../../../registry/plants.ts';

const CONFIG = { constraints: null, fallback: null, operatingMode: 'STANDARD' };

/** Requests about a plant and its sub-device, and the audit event of their success. */
const REQUESTS: [method: Call['method'], path: string, body: object | undefined, event: string][] = [
  ['PATCH', '', { name: 'New' }, 'plant.updated'],
  ['DELETE', '', undefined, 'plant.deleted'],
  ['PUT', '/config', CONFIG, 'plant.config_updated'],
  ['POST', '/sub-devices', { externalId: 'NEW', assetType: 'FVE', name: 'New' }, 'sub_device.created'],
  ['PATCH', '/sub-devices/{subDeviceId}', { name: 'New' }, 'sub_device.updated'],
  ['DELETE', '/sub-devices/{subDeviceId}', undefined, 'sub_device.deleted'],
];

/** More steps than any request has. */
const MAX_STEPS = 40;

async function countOf({ id }: Team, event: string): Promise<number> {
  return (await auditRows(id)).filter((row) => row.event === event).length;
}

/** Deletes the plant before the n-th read or batch of D1 that the request makes, if there are that many. */
function deleteBefore(n: number, team: Team, plantId: string, event: string) {
  const seen = { reads: 0, isDeleted: false, rowsBefore: 0 };
  let isOwn = false;
  watchRegistry(async () => {
    if (isOwn) return;
    seen.reads += 1;
    if (seen.reads !== n) return;
    isOwn = true;
    seen.rowsBefore = await countOf(team, event);
    const audit = auditOf(team.organization, 'organization.updated', 'PLANT')(plantId);
    const gone = await deletePlant(env.DB, { organizationId: team.id, id: plantId }, audit, Date.now());
    if (typeof gone !== 'string') await markDelivered(gone);
    seen.isDeleted = true;
    isOwn = false;
  });
  return seen;
}

it.for(REQUESTS)(
  '%s /plants/{id}%s, while the plant is deleted, gets 200, 201 or 404, and is audited only if it was done [C-3.2]',
  async ([method = 'GET', path, body, event], { team }) => {
    for (let n = 1; n <= MAX_STEPS; n++) {
      const { id } = await team.newPlant();
      const { id: subDeviceId } = await team.newSubDevice(id);
      const before = await countOf(team, event);
      const seen = deleteBefore(n, team, id, event);
      const full = `/plants/${id}${path.replace('{subDeviceId}', subDeviceId)}`;
      const response = await team.admin.call(full, { method, body });
      vi.restoreAllMocks();
      if (!seen.isDeleted) return;
      expect([n, response.status]).toEqual([n, expect.toBeOneOf([200, 201, 404])]);
      const wasDone = seen.rowsBefore > before;
      const rows = (await countOf(team, event)) - before;
      expect([n, response.status, rows]).toEqual([n, response.status, wasDone ? 1 : 0]);
    }
    throw new Error('the request does not come to its end');
  },
);
