/** Dry runs over REST: who may ask, with what, and that the answer is that of the publish [C-13.1]. */
import { bodyOf as jsonOf } from '#workerd/client.ts';
import { messageOf, publishFrame } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { createKey, createOrganization, createPlant, vhostOf } from '#workerd/world.ts';
import type { DryRunAnswer } from '../../../protocol/dry-run.ts';
import type { CommandAnswer } from '../../../protocol/rest-publish.ts';
import type { CommandFamily } from '../../../protocol/routing-keys.ts';

function setpoint(targetValueKw: unknown, changes: object = {}): object {
  const validFrom = new Date(Date.now() + 3_600_000).toISOString();
  const rest = { direction: 'IMPORT', includeConsumption: true, priority: 'NORMAL', validFrom };
  return { type: 'POWER', targetValueKw, ...rest, ...changes };
}

const charge = {
  commands: [{ deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } }],
};

const it = test
  .extend('path', ({ plant }) => `/vcp/sites/${plant.id}/commands/dry-run`)
  .extend('slow', async () => {
    const { organization, plant, key } = await setScene({
      settings: { publishRatePerSecond: 1 },
      plant: true,
      key: true,
    });
    const bodyFor = () => messageOf(organization, key, plant.id, 'mode', { mode: 'STANDARD' });
    return { key, path: `/vcp/sites/${plant.id}/commands`, bodyFor };
  })
  .extend('bodyFor', ({ organization, key, plant }) => {
    return (family: CommandFamily, payload: object, options: { sign?: boolean } = {}) =>
      messageOf(organization, key, plant.id, family, payload, options);
  });

describe('POST /vcp/sites/{siteId}/commands/dry-run', () => {
  it('answers what the same bytes are answered afterwards, and leaves the messageId free [C-13.1]', async ({
    key,
    path,
    plant,
    bodyFor,
  }) => {
    const bodies = [
      bodyFor('site-setpoint', setpoint(20)),
      bodyFor('site-setpoint', setpoint(101)),
      bodyFor('site-setpoint', setpoint('many')),
      bodyFor('device', charge),
      bodyFor('device', charge, { sign: false }),
      bodyFor('mode', { mode: 'STANDARD' }),
      bodyFor('config', { constraints: { maxImportKw: 50 } }),
      bodyFor('emergency', { type: 'HOLD' }),
    ];
    for (const body of bodies) {
      const asked = await jsonOf<DryRunAnswer>(await key.post(path, body), 200);
      const again = await jsonOf<DryRunAnswer>(await key.post(path, body), 200);
      expect(again.acknowledgement).toEqual(asked.acknowledgement);
      expect(asked).not.toHaveProperty('repeated');
      const sent = await jsonOf<CommandAnswer>(await key.post(`/vcp/sites/${plant.id}/commands`, body), 200);
      expect(sent).not.toHaveProperty('repeated');
      expect(sent.acknowledgement).toEqual(asked.acknowledgement);
      const later = await jsonOf<DryRunAnswer>(await key.post(path, body), 200);
      expect(later.repeated ?? false).toBe(asked.decidedBy !== 'signature');
    }
  });

  it('judges a list in its order, and with ignoreSignature as if no signature were needed', async ({
    key,
    path,
    bodyFor,
  }) => {
    const unsigned = bodyFor('device', charge, { sign: false });
    const commands = [
      unsigned,
      { ...unsigned, ignoreSignature: true },
      bodyFor('emergency', { type: 'STOP' }),
      bodyFor('device', charge),
    ];
    const { results } = await jsonOf<{ results: DryRunAnswer[] }>(await key.post(path, { commands }), 200);
    expect(results.map(({ acknowledgement, decidedBy }) => [acknowledgement.status, decidedBy])).toEqual([
      ['REJECTED', 'signature'],
      ['QUEUED', 'dispatch'],
      ['QUEUED', 'dispatch'],
      ['REJECTED', 'constraint'],
    ]);
    const { items } = await key.read<{ items: unknown[] }>(path.replace('/dry-run', ''));
    expect(items).toEqual([]);
  });

  it('needs the scope that publishes the command, and no other', async ({ organization, path, bodyFor }) => {
    const body = bodyFor('site-setpoint', setpoint(20));
    const writer = await createKey(organization, { scopes: ['vcp:write:setpoint'] });
    // The message is signed with another key, and a setpoint needs no signature: it is refused for the wrong one.
    const answer = await jsonOf<DryRunAnswer>(await writer.post(path, body), 200);
    expect(answer.decidedBy).toBe('signature');
    const reader = await createKey(organization, { scopes: ['vcp:read', 'vcp:write:mode'] });
    const error = await expectError(await reader.post(path, body), 403, 'FORBIDDEN');
    expect(error.message).toContain('vcp:write:setpoint');
    const ended = await createKey(organization);
    await vhostOf(ended.id).revoke();
    await expectError(await ended.post(path, body), 401, 'UNAUTHORIZED');
  });

  it('has the publish rate of the key, and leaves the publishes theirs', async ({
    slow: { key, path, bodyFor },
  }) => {
    const commands = Array.from({ length: 20 }, () => bodyFor());
    const answers = await Promise.all(
      Array.from({ length: 11 }, () => key.post(`${path}/dry-run`, { commands })),
    );
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.map(({ headers }) => headers.get('retry-after'))).toEqual(['1']);
    for (const answer of refused)
      expect((await expectError(answer, 429, 'TOO_MANY_REQUESTS')).message).toContain('rate of commands');
    const sent = await key.post(path, bodyFor());
    expect((await jsonOf<CommandAnswer>(sent, 200)).acknowledgement.status).toBe('QUEUED');
  });

  it('names the place of a malformed message, and refuses other sites and wrong bodies', async ({
    organization,
    key,
    path,
    bodyFor,
  }) => {
    const body = bodyFor('mode', { mode: 'STANDARD' });
    const bad = { ...body, message: '{}' };
    const error = await expectError(await key.post(path, { commands: [body, bad] }), 400, 'VALIDATION_ERROR');
    expect(JSON.stringify(error)).toContain('commands[1].message: ');
    const many = Array.from({ length: 21 }, () => body);
    const { routingKey } = body;
    for (const wrong of [
      {},
      { routingKey },
      { ...body, commands: [body] },
      { commands: [] },
      { commands: many },
      { ...body, ignoreSignature: 1 },
      { ...body, more: 1 },
    ])
      await expectError(await key.post(path, wrong), 400, 'VALIDATION_ERROR');
    const other = await createPlant(organization);
    const elsewhere = publishFrame(organization, key, other.id, 'mode', { mode: 'STANDARD' });
    await expectError(await key.post(path, { routingKey, message: elsewhere.body }), 409, 'CONFLICT');
    const foreign = await createPlant(await createOrganization());
    for (const siteId of [foreign.id, crypto.randomUUID()])
      await expectError(await key.post(`/vcp/sites/${siteId}/commands/dry-run`, body), 404, 'SITE_NOT_FOUND');
  });
});

describe('a dry run of a member', () => {
  const people = test.extend('scene', async ({ ownTeam }) => {
    const plant = await createPlant(ownTeam.organization);
    return { plant, key: await createKey(ownTeam.organization) };
  });

  people(
    'needs the role OPERATOR, and no signature; it takes the form of POST /plants/{id}/commands, too',
    async ({ ownTeam, other, scene: { plant, key } }) => {
      const body = { family: 'device', payload: charge };
      const path = `/plants/${plant.id}/commands/dry-run`;
      const { organization, id: org } = ownTeam;
      const answer = await jsonOf<DryRunAnswer>(await ownTeam.operator.post(path, body, { org }), 200);
      expect(answer).toMatchObject({ acknowledgement: { status: 'QUEUED' }, decidedBy: 'dispatch' });
      await expectError(await ownTeam.viewer.post(path, body, { org }), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      await expectError(await other.operator.post(path, body, { org: other.id }), 404, 'PLANT_NOT_FOUND');
      const unsigned = messageOf(organization, key, plant.id, 'device', charge, { sign: false });
      const vcp = `/vcp/sites/${plant.id}/commands/dry-run`;
      const asPartner = await jsonOf<DryRunAnswer>(await ownTeam.operator.post(vcp, unsigned, { org }), 200);
      expect(asPartner.acknowledgement).toEqual(answer.acknowledgement);
      await expectError(
        await ownTeam.viewer.post(vcp, unsigned, { org }),
        403,
        'INSUFFICIENT_ORG_PERMISSIONS',
      );
      await expectError(await other.operator.post(vcp, unsigned, { org: other.id }), 404, 'SITE_NOT_FOUND');
      const wrong = { ...unsigned, routingKey: 'other.command.device' };
      await expectError(await ownTeam.operator.post(vcp, wrong, { org }), 403, 'FORBIDDEN');
    },
  );

  people(
    'says with an idempotencyKey whether the command was sent before',
    async ({ ownTeam, scene: { plant } }) => {
      const { id: org, operator } = ownTeam;
      const body = { family: 'mode', payload: { mode: 'STANDARD' }, idempotencyKey: 'one' };
      const ask = async () =>
        await jsonOf<DryRunAnswer>(
          await operator.post(`/plants/${plant.id}/commands/dry-run`, body, { org }),
          200,
        );
      expect(await ask()).not.toHaveProperty('repeated');
      const sent = await jsonOf<CommandAnswer>(
        await operator.post(`/plants/${plant.id}/commands`, body, { org }),
        200,
      );
      expect(await ask()).toMatchObject({ repeated: true, acknowledgement: sent.acknowledgement });
    },
  );
});
