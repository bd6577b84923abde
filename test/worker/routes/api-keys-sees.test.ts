/** What a key sees of the commands of other partners: a field of the key that an admin sets [C-15.1]. */
import { KeyClient } from '#workerd/client.ts';
import { keyAdminTest as it, KEY_REQUEST, KEYS } from '#workerd/key-admin.ts';
import { messageOf } from '#workerd/links.ts';
import { describe, expect, expectError, expectInvalid } from '#workerd/worker-test.ts';
import { createKey, createPlant } from '#workerd/world.ts';
import type { ApiKeyRecord } from '../../../protocol/api-key-record.ts';

describe('sees', () => {
  it('is PARTNER unless the creation says otherwise, in the answer, the record and the list [C-15.1]', async ({
    keys,
  }) => {
    const made = await keys.make();
    expect(made.apiKey).toMatchObject({ sees: 'PARTNER' });
    const monitor = await keys.make({ sees: 'ORGANIZATION' });
    expect(monitor.apiKey).toMatchObject({ sees: 'ORGANIZATION' });
    expect(await keys.read(monitor.apiKey.id)).toMatchObject({ sees: 'ORGANIZATION' });
    const { data } = await keys.list();
    expect(data.map((one) => (one as ApiKeyRecord & { sees?: string }).sees)).toEqual([
      'ORGANIZATION',
      'PARTNER',
    ]);
  });

  it('is in the audit event of the creation and in that of each change [C-15.1]', async ({
    keys,
    ownTeam,
  }) => {
    const { apiKey } = await keys.make({ sees: 'ORGANIZATION' });
    const response = await keys.ask(`/${apiKey.id}`, { method: 'PATCH', body: { sees: 'PARTNER' } });
    expect([response.status, await response.json()]).toEqual([
      200,
      expect.objectContaining({ id: apiKey.id, sees: 'PARTNER' }),
    ]);
    const trail = await ownTeam.trailOf(apiKey.id);
    expect(trail).toEqual([
      [
        'api_key.created',
        ownTeam.orgAdmin.id,
        'API_KEY',
        expect.objectContaining({ sees: 'ORGANIZATION', keyPrefix: apiKey.keyPrefix }),
      ],
      [
        'api_key.updated',
        ownTeam.orgAdmin.id,
        'API_KEY',
        expect.objectContaining({ sees: 'PARTNER', keyPrefix: apiKey.keyPrefix }),
      ],
    ]);
  });

  it('refuses any other value, other fields and an empty body, and changes nothing [C-15.1]', async ({
    keys,
  }) => {
    for (const sees of ['ALL', 'partner', '', 1, null, ['PARTNER'], { sees: 'PARTNER' }])
      await expectInvalid(await keys.post({ sees }), 'sees', sees);
    const { apiKey } = await keys.make();
    const patch = (body: unknown) => keys.ask(`/${apiKey.id}`, { method: 'PATCH', body });
    for (const sees of ['ALL', 'organization', '', 1, null, ['ORGANIZATION']])
      await expectInvalid(await patch({ sees }), 'sees', sees);
    for (const body of [
      {},
      [],
      { sees: 'ORGANIZATION', partnerId: 'other' },
      { sees: 'ORGANIZATION', scopes: ['vcp:read'] },
      { isActive: false },
    ])
      await expectError(await patch(body), 400, 'VALIDATION_ERROR');
    expect(await keys.read(apiKey.id)).toEqual(apiKey);
  });

  it('is changed by nobody but those who may create keys; of another organization it is unknown [C-15.1]', async ({
    keys,
    ownTeam,
    other,
  }) => {
    const { apiKey, key } = await keys.make();
    const call = { method: 'PATCH', body: { sees: 'ORGANIZATION' } } as const;
    for (const member of [ownTeam.viewer, ownTeam.operator])
      await expectError(await keys.ask(`/${apiKey.id}`, call, member), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    const path = `${KEYS}/${apiKey.id}`;
    await expectError(await other.orgAdmin.call(path, { ...call, org: other.id }), 404, 'API_KEY_NOT_FOUND');
    const self = new KeyClient({ id: apiKey.id, key, signingKey: '' });
    await expectError(await self.call(path, call), 401, 'UNAUTHORIZED');
    const unknown = await keys.ask(`/${crypto.randomUUID()}`, call);
    await expectError(unknown, 404, 'API_KEY_NOT_FOUND');
    await expectError(await keys.ask('/none', call), 400, 'INVALID_UUID');
    expect(await keys.read(apiKey.id)).toMatchObject({ sees: 'PARTNER' });
  });

  it('is in force at once, for a key that has no vhost, too [C-15.1]', async ({ keys, ownTeam }) => {
    const { organization } = ownTeam;
    const plant = await createPlant(organization);
    const sender = await createKey(organization, { partnerId: 'the other partner' });
    const body = messageOf(organization, sender, plant.id, 'config', { constraints: { maxImportKw: 90 } });
    await sender.read(`/vcp/sites/${plant.id}/commands`, { method: 'POST', body });
    const { apiKey, key } = await keys.make({ ...KEY_REQUEST, scopes: ['vcp:read'] });
    const reader = new KeyClient({ id: apiKey.id, key, signingKey: '' });
    const totalOf = async () =>
      (await reader.read<{ total: number }>(`/vcp/sites/${plant.id}/commands`)).total;
    const totals = [await totalOf()];
    for (const sees of ['ORGANIZATION', 'PARTNER']) {
      const response = await keys.ask(`/${apiKey.id}`, { method: 'PATCH', body: { sees } });
      expect(response.status).toBe(200);
      totals.push(await totalOf());
    }
    expect(totals).toEqual([0, 1, 0]);
  });
});
