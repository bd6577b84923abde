/** What an API key does now: connections, queues and the last rejections, for its organization. */

import { messageOf } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import { createKey, createOrganization } from '#workerd/world.ts';
import type { KeyStatus } from '../../../protocol/key-status.ts';

describe('the status of an API key', () => {
  it('has its connections, its queues, and the commands that were rejected, newest first', async ({
    ownTeam,
  }) => {
    const { organization, orgAdmin, id: org } = ownTeam;
    const { plant, key, partner } = await setScene({ organization, plant: true, partner: 'connected' });
    for (const mode of ['NONE', 'STANDARD', 'NOTHING'])
      await key.post(
        `/vcp/sites/${plant.id}/commands`,
        messageOf(organization, key, plant.id, 'mode', { mode }),
      );
    await partner.consume('event.status', { prefetch: 1 });
    await partner.delivered(1);
    const status = async () =>
      (await (await orgAdmin.call(`/partner/api-keys/${key.id}/status`, { org })).json()) as KeyStatus;
    // Rejections are read from the journal, which stores events within a second.
    await expect.poll(async () => (await status()).lastRejections.length, { timeout: 5_000 }).toBe(2);
    const { connections, queues, lastRejections } = await status();
    expect(connections).toEqual([{ address: expect.any(String), connectedAt: expect.any(String) }]);
    const events = queues.find(({ name }) => name === partner.queueName('event.status'));
    expect(events).toMatchObject({ unacked: 1, consumers: 1, dropped: 0, oldestAt: expect.any(String) });
    expect((events?.ready ?? 0) + 1).toBe(3);
    expect(lastRejections.map(({ message }) => message)).toEqual([
      expect.stringContaining('mode'),
      expect.stringContaining('mode'),
    ]);
    expect(lastRejections[0]).toMatchObject({ siteId: plant.id, rejectionCode: 'INVALID_PAYLOAD' });
    const [last = '', before = ''] = lastRejections.map(({ at }) => at);
    expect(last >= before).toBe(true);
  });

  it('is empty for a key that was revoked, and for one without a client', async ({ ownTeam }) => {
    const { organization, orgAdmin, id: org } = ownTeam;
    const key = await createKey(organization);
    const read = async () => (await orgAdmin.call(`/partner/api-keys/${key.id}/status`, { org })).json();
    expect(await read()).toMatchObject({ connections: [], lastRejections: [] });
    await orgAdmin.call(`/partner/api-keys/${key.id}`, { method: 'DELETE', org });
    expect(await read()).toEqual({ connections: [], queues: [], lastRejections: [] });
  });

  it('is 404 for a key of another organization, and 403 for an ADMIN', async ({ ownTeam }) => {
    const { orgAdmin, admin, organization, id: org } = ownTeam;
    const foreign = await createKey(await createOrganization());
    await expectError(
      await orgAdmin.call(`/partner/api-keys/${foreign.id}/status`, { org }),
      404,
      'API_KEY_NOT_FOUND',
    );
    const own = await createKey(organization);
    const refused = await admin.call(`/partner/api-keys/${own.id}/status`, { org });
    await expectError(refused, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
  });
});
