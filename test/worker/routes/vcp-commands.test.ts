/** Commands over HTTPS, of partners and of people: the same judgement, log and events as over AMQP [C-13.5]. */
import { vi } from 'vitest';
import { lower, raise } from '#workerd/backups.ts';
import { bodyOf as jsonOf, type KeyClient } from '#workerd/client.ts';
import { runSql } from '#workerd/d1.ts';
import { auditRows } from '#workerd/door.ts';
import { connectPartner, publishFrame } from '#workerd/links.ts';
import { publishAll } from '#workerd/publishes.ts';
import { setScene } from '#workerd/scene.ts';
import { describe, expect, expectError, it, test } from '#workerd/worker-test.ts';
import { createKey, createOrganization, createPlant, vhostOf } from '#workerd/world.ts';
import { Site } from '../../../durable-objects/site.ts';
import type { CommandLogEntry } from '../../../protocol/command-log.ts';
import type { CommandAnswer } from '../../../protocol/rest-publish.ts';
import type { CommandFamily } from '../../../protocol/routing-keys.ts';

const HOUR = 3_600_000;

function setpoint(targetValueKw: unknown, changes: object = {}): object {
  return {
    type: 'POWER',
    targetValueKw,
    direction: 'IMPORT',
    includeConsumption: true,
    priority: 'NORMAL',
    validFrom: new Date(Date.now() + HOUR).toISOString(),
    ...changes,
  };
}

function battery(powerKw: number, changes: object = {}): object {
  return { commands: [{ deviceId: 'BESS-1', action: 'CHARGE', powerKw, ...changes }] };
}

/** Commands of all families: valid, over limits, malformed payloads, without a signature, and with a wrong one. */
const COMMANDS: [what: string, family: CommandFamily, payload: () => object, sign: boolean][] = [
  ['a setpoint', 'site-setpoint', () => setpoint(20), true],
  ['a setpoint without a signature', 'site-setpoint', () => setpoint(21), false],
  ['a setpoint over the limit', 'site-setpoint', () => setpoint(101), true],
  ['a setpoint with a text as value', 'site-setpoint', () => setpoint('many'), true],
  [
    'a setpoint that has expired',
    'site-setpoint',
    () => setpoint(5, { validUntil: '2020-01-01T00:00:00Z' }),
    true,
  ],
  ['a battery command', 'device', () => battery(5), true],
  ['a battery command without a signature', 'device', () => battery(5), false],
  ['a battery command for an unknown battery', 'device', () => battery(5, { deviceId: 'NONE' }), true],
  ['a battery command over the limit', 'device', () => battery(51), true],
  ['a mode', 'mode', () => ({ mode: 'STANDARD' }), true],
  ['a mode that does not exist', 'mode', () => ({ mode: 'NONE' }), true],
  ['an emergency', 'emergency', () => ({ type: 'HOLD' }), true],
  ['a change of the configuration', 'config', () => ({ constraints: { maxImportKw: 50 } }), true],
];

/** A log entry without what differs between two sites and two moments. */
function comparable({ id: _id, messageId, siteId: _site, decision, payload, ...entry }: CommandLogEntry) {
  const names = [
    'createdAt',
    'ackedAt',
    'dispatchedAt',
    'startedAt',
    'finishedAt',
    'validFrom',
    'validUntil',
  ];
  const rest = Object.entries(entry).map(([name, value]) => [
    name,
    names.includes(name) ? typeof value : value,
  ]);
  const { validFrom: _from, ...shown } = payload;
  return { messageId, stage: decision?.stage, payload: shown, ...Object.fromEntries(rest) };
}

async function answerTo(answer: Promise<Response>): Promise<CommandAnswer> {
  return await jsonOf<CommandAnswer>(await answer, 200);
}

function bodyOf({ routingKey, body }: ReturnType<typeof publishFrame>) {
  return { routingKey, message: body };
}

async function log(key: KeyClient, siteId: string): Promise<CommandLogEntry[]> {
  const { items } = await key.read<{ items: CommandLogEntry[] }>(
    `/vcp/sites/${siteId}/commands?pageSize=100`,
  );
  return items.toReversed();
}

async function events(key: KeyClient, siteId: string): Promise<string[]> {
  const page = await key.read<{ events: { routingKey: string; event: string }[] }>(
    `/vcp/events?siteId=${siteId}&limit=500`,
  );
  return page.events.map(({ routingKey, event }) => {
    const { correlationId, payload } = JSON.parse(event);
    const { alarmId: _id, raisedAt: _at, ...rest } = payload;
    return JSON.stringify([routingKey, correlationId, rest]);
  });
}

describe('POST /vcp/sites/{siteId}/commands', () => {
  it('judges, logs and answers every command as AMQP does, with the same events [C-13.5]', async ({
    organization,
    key,
    plant,
  }) => {
    const other = await createPlant(organization);
    const commands = COMMANDS.map(([, family, payload, sign]) => {
      const options = { messageId: crypto.randomUUID(), correlationId: crypto.randomUUID(), sign };
      const given = payload();
      return (siteId: string) => publishFrame(organization, key, siteId, family, given, options);
    });
    const link = await connectPartner(key);
    for (const [index, frameFor] of commands.entries()) {
      // One after another, because an emergency overtakes the commands before it.
      link.send({ ...frameFor(other.id), seq: index + 1 });
      await link.next((frame) => frame.kind === 'stored' && frame.seqs.includes(index + 1));
    }
    for (const frameFor of commands) {
      const path = `/vcp/sites/${plant.id}/commands`;
      const answer = await answerTo(key.post(path, bodyOf(frameFor(plant.id))));
      const [entry] = (await log(key, plant.id)).slice(-1);
      expect(entry?.id).toBe(answer.commandId);
      expect(answer.acknowledgement.rejectionCode).toBe(entry?.rejectionCode);
    }
    const [overAmqp, overHttps] = [await log(key, other.id), await log(key, plant.id)];
    expect(overHttps).toHaveLength(COMMANDS.length);
    expect(overHttps.map(comparable)).toEqual(overAmqp.map(comparable));
    const [theirs, own] = [await events(key, other.id), await events(key, plant.id)];
    expect(own).toEqual(theirs);
    const acknowledged = own.filter((text) => text.includes('.event.command.ack'));
    expect(acknowledged).toHaveLength(COMMANDS.length);
  });

  it('answers the first acknowledgement to the same bytes again, over both ways, with one effect', async ({
    key,
    plant,
    newFrame,
  }) => {
    const path = `/vcp/sites/${plant.id}/commands`;
    const frame = newFrame('site-setpoint', setpoint(20));
    const first = await answerTo(key.post(path, bodyOf(frame)));
    await publishAll(key, [frame]);
    const again = await answerTo(key.post(path, bodyOf(frame)));
    expect(again).toEqual({ ...first, repeated: true });
    expect(first).not.toHaveProperty('repeated');
    expect(await log(key, plant.id)).toHaveLength(1);
    const changed = newFrame('site-setpoint', setpoint(30), {
      messageId: JSON.parse(frame.body).messageId,
    });
    const refused = await answerTo(key.post(path, bodyOf(changed)));
    expect(refused.acknowledgement.status).toBe('REJECTED');
  });

  it('records one of many requests with the same messageId at once, over HTTPS and AMQP together', async ({
    key,
    plant,
    newFrame,
  }) => {
    const frame = newFrame('device', battery(5));
    const path = `/vcp/sites/${plant.id}/commands`;
    const [answers] = await Promise.all([
      Promise.all(Array.from({ length: 8 }, () => answerTo(key.post(path, bodyOf(frame))))),
      publishAll(key, [frame]),
    ]);
    expect(new Set(answers.map(({ commandId }) => commandId)).size).toBe(1);
    expect(answers.filter(({ repeated }) => !repeated).length).toBeLessThanOrEqual(1);
    expect(await log(key, plant.id)).toHaveLength(1);
  });

  it('answers 400 with the reason to a malformed envelope, and makes no dead letter of it [C-13.5]', async ({
    key,
    plant,
    newFrame,
  }) => {
    const path = `/vcp/sites/${plant.id}/commands`;
    const { routingKey, body } = newFrame('mode', { mode: 'AUTOMATIC' });
    for (const message of ['nonsense', '{}', '[]', body.replace('"1.1"', '"2.0"'), body.slice(0, -1)]) {
      const error = await expectError(await key.post(path, { routingKey, message }), 400, 'VALIDATION_ERROR');
      expect(JSON.stringify(error)).toContain('message: ');
    }
    for (const wrong of [{}, { routingKey }, { routingKey, message: {} }, { routingKey: 1, message: body }])
      await expectError(await key.post(path, wrong), 400, 'VALIDATION_ERROR');
    const more = await key.post(path, { routingKey, message: body, more: 1 });
    await expectError(more, 400, 'VALIDATION_ERROR');
    const { deadLetters } = await key.read<{ deadLetters: unknown[] }>('/vcp/dead-letters');
    expect([deadLetters, await log(key, plant.id)]).toEqual([[], []]);
  });

  it('refuses a malformed routing key with 400 and its name, before rights and envelope [C-15.2]', async ({
    organization,
    key,
    plant,
    newFrame,
  }) => {
    const { body } = newFrame('device', battery(5));
    const own = `${organization.slug}.command.device`;
    const malformed = [
      `${own}.a b`,
      `${own}.';touch x;'`,
      `${own}.$(id)`,
      `${own}\n`,
      `${own}.\u202ea`,
      `${own}.\ud800`,
      `${own}.č`,
      `${own}.*`,
      `${own}.`,
      `${own}.`.padEnd(128, 'x'),
      'other.command.device.a b',
      Array.from({ length: 17 }, () => 'a').join('.'),
    ];
    for (const routingKey of malformed)
      for (const message of [body, 'nonsense'])
        for (const path of ['', '/dry-run'].map((end) => `/vcp/sites/${plant.id}/commands${end}`)) {
          const error = await expectError(
            await key.post(path, { routingKey, message }),
            400,
            'VALIDATION_ERROR',
          );
          expect(error.message).toMatch(/routingKey: .*A-Z/);
        }
    const listed = {
      commands: [
        { routingKey: own, message: body },
        { routingKey: `${own}.a b`, message: body },
      ],
    };
    const error = await expectError(
      await key.post(`/vcp/sites/${plant.id}/commands/dry-run`, listed),
      400,
      'VALIDATION_ERROR',
    );
    expect(error.message).toContain('commands.1.routingKey: ');
    expect(await log(key, plant.id)).toEqual([]);
  });

  it('refuses an envelope whose source or correlationId has control characters or directions [C-15.2]', async ({
    key,
    plant,
    newFrame,
  }) => {
    const { routingKey, body } = newFrame('site-setpoint', setpoint(20));
    for (const field of ['source', 'correlationId'])
      for (const text of ['a\nb', '\u0000', '\u001b[2J', '\u202ea', '\ud800']) {
        const message = JSON.stringify({ ...JSON.parse(body), [field]: text, signature: undefined });
        const path = `/vcp/sites/${plant.id}/commands`;
        const error = await expectError(
          await key.post(path, { routingKey, message }),
          400,
          'VALIDATION_ERROR',
        );
        expect(error.message).toContain(`message: ${field}: `);
      }
    expect(await log(key, plant.id)).toEqual([]);
  });

  it('refuses a routing key of another organization, an unknown one, and one without its scope', async ({
    organization,
    key,
    plant,
    newFrame,
  }) => {
    const path = `/vcp/sites/${plant.id}/commands`;
    const frame = newFrame('site-setpoint', setpoint(20));
    for (const routingKey of ['other.command.site-setpoint', `${organization.slug}.command.none`, 'x']) {
      const error = await expectError(
        await key.post(path, { ...bodyOf(frame), routingKey }),
        403,
        'FORBIDDEN',
      );
      expect(error.message).toContain('ACCESS_REFUSED');
    }
    const reader = await createKey(organization, { scopes: ['vcp:connect', 'vcp:write:mode'] });
    await expectError(await reader.post(path, bodyOf(frame)), 403, 'FORBIDDEN');
    const noConnect = await createKey(organization, { scopes: ['vcp:read'] });
    await expectError(await noConnect.post(path, bodyOf(frame)), 403, 'FORBIDDEN');
  });

  it('refuses a message for another site, and a site that the key may not see as absent', async ({
    organization,
    key,
    plant,
  }) => {
    const other = await createPlant(organization);
    const frame = publishFrame(organization, key, other.id, 'site-setpoint', setpoint(20));
    const elsewhere = await key.post(`/vcp/sites/${plant.id}/commands`, bodyOf(frame));
    await expectError(elsewhere, 409, 'CONFLICT');
    const foreign = await createPlant(await createOrganization());
    for (const siteId of [foreign.id, crypto.randomUUID()])
      await expectError(
        await key.post(`/vcp/sites/${siteId}/commands`, bodyOf(frame)),
        404,
        'SITE_NOT_FOUND',
      );
    const one = await createKey(organization, { allowedPlantIds: [plant.id] });
    await expectError(
      await one.post(`/vcp/sites/${other.id}/commands`, bodyOf(frame)),
      404,
      'SITE_NOT_FOUND',
    );
  });

  it('answers 503 with Retry-After if the site does not record it, and the same bytes take effect once later', async ({
    key,
    plant,
    newFrame,
  }) => {
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.now() });
    const path = `/vcp/sites/${plant.id}/commands`;
    const frame = newFrame('site-setpoint', setpoint(20));
    vi.spyOn(console, 'warn').mockReturnValue(undefined);
    const broken = vi.spyOn(Site.prototype, 'submit').mockImplementation(async () => {
      vi.setSystemTime(Date.now() + 10_000);
      throw new Error('the object fails');
    });
    const refused = await key.post(path, bodyOf(frame));
    expect(refused.headers.get('retry-after')).toBe('5');
    await expectError(refused, 503, 'SERVICE_UNAVAILABLE');
    broken.mockRestore();
    vi.useRealTimers();
    const again = newFrame('site-setpoint', setpoint(20));
    expect(await answerTo(key.post(path, bodyOf(again)))).toMatchObject({
      acknowledgement: { status: 'QUEUED' },
    });
    expect(await log(key, plant.id)).toHaveLength(1);
  });

  it('answers 429 over the publish rate of the key, but never to an emergency [C-6.5]', async ({
    key,
    plant,
    newFrame,
  }) => {
    const path = `/vcp/sites/${plant.id}/commands`;
    const of = (family: CommandFamily, payload: object) => key.post(path, bodyOf(newFrame(family, payload)));
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    const statuses: number[] = [];
    for (let count = 0; count < 8; count++) {
      const many = Array.from({ length: 32 }, () => of('mode', { mode: 'NONE' }));
      statuses.push(...(await Promise.all(many)).map(({ status }) => status));
    }
    expect(statuses.filter((status) => status === 200)).toHaveLength(200);
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
    expect((await of('emergency', { type: 'HOLD' })).status).toBe(200);
  });

  it('answers 503 at once behind a fence of the key, and the command has no effect', async ({
    key,
    plant,
    newFrame,
  }) => {
    const object = { object: 'key', id: key.id } as const;
    const fence = await raise(object);
    const frame = newFrame('site-setpoint', setpoint(20));
    const refused = await key.post(`/vcp/sites/${plant.id}/commands`, bodyOf(frame));
    await expectError(refused, 503, 'SERVICE_UNAVAILABLE');
    await lower(object, fence);
    expect(await log(key, plant.id)).toEqual([]);
  });

  it('never refuses an emergency for the request rate of the key [C-6.5]', async ({
    organization,
    key,
    plant,
    newFrame,
  }) => {
    await runSql(
      `UPDATE organizations SET settings = json_set(settings, '$.restRatePerMinute', 60) WHERE id = ?`,
      organization.id,
    );
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
    while ((await key.call('/vcp/sites')).status === 200);
    const path = `/vcp/sites/${plant.id}/commands`;
    const of = (family: CommandFamily, payload: object) => key.post(path, bodyOf(newFrame(family, payload)));
    await expectError(await of('mode', { mode: 'STANDARD' }), 429, 'TOO_MANY_REQUESTS');
    expect((await of('emergency', { type: 'HOLD' })).status).toBe(200);
  });

  it('refuses a message of too many bytes, and one that is no valid Unicode', async ({
    key,
    plant,
    newFrame,
  }) => {
    const path = `/vcp/sites/${plant.id}/commands`;
    const { routingKey } = newFrame('mode', {});
    for (const message of ['€'.repeat(90_000), 'a\ud800b'])
      await expectError(await key.post(path, { routingKey, message }), 400, 'VALIDATION_ERROR');
  });

  it('refuses a revoked key, whatever D1 says [rule 6]', async ({ key, plant, newFrame }) => {
    await vhostOf(key.id).revoke();
    const frame = newFrame('site-setpoint', setpoint(20));
    const path = `/vcp/sites/${plant.id}/commands`;
    await expectError(await key.post(path, bodyOf(frame)), 401, 'UNAUTHORIZED');
  });
});

/** The audit events about commands of people. */
async function sentBy(organizationId: string) {
  return (await auditRows(organizationId)).filter(({ event }) => event === 'plant.command_sent');
}

describe('POST /plants/{id}/commands', () => {
  const people = test.extend('scene', async ({ ownTeam }) => {
    const { plant, key } = await setScene({ organization: ownTeam.organization, plant: true, key: true });
    const send = (body: object, by = ownTeam.operator) =>
      by.post(`/plants/${plant.id}/commands`, body, { org: ownTeam.id });
    return { plant, key, send };
  });
  const command = (changes: object = {}) => ({
    ...{ family: 'site-setpoint', payload: setpoint(20), idempotencyKey: crypto.randomUUID(), ...changes },
  });

  people(
    'records the command of an operator; members see who sent it, partners the organization [C-13.5]',
    async ({ ownTeam, scene: { plant, key, send } }) => {
      const answer: CommandAnswer = await (await send(command())).json();
      expect(answer.acknowledgement).toEqual({ status: 'QUEUED', commandType: 'SITE_SETPOINT' });
      const [shown] = await log(key, plant.id);
      expect(shown).toMatchObject({ id: answer.commandId, source: ownTeam.slug, keyPrefix: null });
      const { items } = await ownTeam.viewer.read<{ items: CommandLogEntry[] }>(
        `/plants/${plant.id}/commands`,
        {
          org: ownTeam.id,
        },
      );
      expect(items).toMatchObject([{ id: answer.commandId, source: `user:${ownTeam.operator.id}` }]);
      await vi.waitFor(async () => {
        const rows = await sentBy(ownTeam.id);
        expect(rows).toMatchObject([{ actor: ownTeam.operator.id, target: plant.id, outcome: 'SUCCESS' }]);
        expect(JSON.stringify(rows)).toContain(answer.commandId);
      });
    },
  );

  people(
    'has one effect for one idempotencyKey, and one audit event',
    async ({ ownTeam, scene: { plant, key, send } }) => {
      const body = command();
      const answers = await Promise.all(
        Array.from({ length: 5 }, async () => (await send(body)).json<CommandAnswer>()),
      );
      expect(new Set(answers.map(({ commandId }) => commandId)).size).toBe(1);
      expect(answers.filter(({ repeated }) => !repeated)).toHaveLength(1);
      expect(await log(key, plant.id)).toHaveLength(1);
      const other: CommandAnswer = await (await send({ ...body, payload: setpoint(30) })).json();
      expect(other.acknowledgement.status).toBe('REJECTED');
      await vi.waitFor(async () => expect(await sentBy(ownTeam.id)).not.toEqual([]));
    },
  );

  people('is judged by the limits of the plant; an emergency is accepted', async ({ scene: { send } }) => {
    const over: CommandAnswer = await (await send(command({ payload: setpoint(101) }))).json();
    expect(over.acknowledgement).toMatchObject({
      status: 'REJECTED',
      rejectionCode: 'CONSTRAINT_VIOLATION',
    });
    const stop: CommandAnswer = await (
      await send(command({ family: 'emergency', payload: { type: 'HOLD' } }))
    ).json();
    expect(stop.acknowledgement.status).not.toBe('REJECTED');
  });

  people(
    'never refuses an emergency, or its dry run, for the request rate of the user',
    async ({ ownTeam: { id, operator }, scene: { plant, send } }) => {
      await runSql(
        `UPDATE organizations SET settings = json_set(settings, '$.restRatePerMinute', 10) WHERE id = ?`,
        id,
      );
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
      while ((await operator.call(`/plants/${plant.id}`)).status === 200);
      const emergency = { family: 'emergency', payload: { type: 'HOLD' } } as const;
      const ask = (body: object) => operator.post(`/plants/${plant.id}/commands/dry-run`, body);
      await expectError(await send(command()), 429, 'TOO_MANY_REQUESTS');
      const { idempotencyKey: _none, ...asked } = command();
      await expectError(await ask(asked), 429, 'TOO_MANY_REQUESTS');
      expect((await ask(emergency)).status).toBe(200);
      expect((await send(command(emergency))).status).toBe(200);
    },
  );

  people(
    'refuses a VIEWER, a key, another organization, and invalid bodies',
    async ({ ownTeam, other, scene: { plant, key, send } }) => {
      await expectError(await send(command(), ownTeam.viewer), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      await expectError(await key.post(`/plants/${plant.id}/commands`, command()), 401, 'UNAUTHORIZED');
      const foreign = await other.operator.post(`/plants/${plant.id}/commands`, command(), { org: other.id });
      await expectError(foreign, 404, 'PLANT_NOT_FOUND');
      const { idempotencyKey: _none, ...without } = command();
      for (const wrong of [
        without,
        command({ family: 'schedule' }),
        command({ payload: [] }),
        command({ idempotencyKey: '' }),
      ])
        await expectError(await send(wrong), 400, 'VALIDATION_ERROR');
      expect(await log(key, plant.id)).toEqual([]);
    },
  );
});
