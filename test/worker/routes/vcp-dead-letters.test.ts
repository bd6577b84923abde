/** The dead letters of a key over REST: listed, put back and deleted [C-12.5]. */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import type { KeyClient } from '#workerd/client.ts';
import { hand, numberOf, range } from '#workerd/outbox-events.ts';
import { charge, type Partner, publishOf } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { readCommands } from '#workerd/site-reads.ts';
import { describe, expect, expectError, expectInvalid, INSTANT, test } from '#workerd/worker-test.ts';
import { type Key, vhostOf } from '#workerd/world.ts';
import type { DeadLetter, Requeued } from '../../../protocol/dead-letter.ts';

const PATH = '/vcp/dead-letters';

interface Page {
  deadLetters: DeadLetter[];
  next: string | null;
}

const it = test.extend('scene', ({ team: { organization } }) => {
  return setScene({ organization, partner: 'connected' });
});

async function list(client: KeyClient, query = ''): Promise<DeadLetter[]> {
  return (await client.read<Page>(`${PATH}${query}`)).deadLetters;
}

/** Publishes texts that are no envelopes. */
async function publishBad(partner: Partner, ...bodies: string[]): Promise<void> {
  const routingKey = partner.routingKey('device');
  for (const body of bodies)
    expect(await partner.ask(publishOf(routingKey, body))).toMatchObject({ kind: 'stored' });
}

/** Has the client reject an event. */
async function rejectEvent(partner: Partner, key: Key): Promise<void> {
  await partner.consume('event.alarm', { tag: 'rejecting' });
  await hand(key, crypto.randomUUID(), 1, 1, { kind: 'alarm' });
  partner.settle('discard', await partner.delivered(1, 'rejecting'));
  await partner.ask({ kind: 'cancel', channel: 1, tag: 'rejecting' });
}

describe('GET /vcp/dead-letters', () => {
  it('lists malformed publishes and rejected events with reason, time and text [C-12.5]', async ({
    scene,
    team,
  }) => {
    const { key, partner } = scene;
    await publishBad(partner, 'nonsense');
    await rejectEvent(partner, key);
    const [publish, event] = await list(key);
    expect(publish).toEqual({
      id: expect.stringMatching(/^\d+-\d+-\d+$/),
      reason: 'not JSON',
      deadLetteredAt: INSTANT,
      queue: `vcp.${team.slug}.command`,
      routingKey: `${team.slug}.command.device`,
      ...{ body: 'nonsense', encoding: 'utf8', isHeld: false },
    });
    expect(event).toMatchObject({
      ...{
        reason: 'rejected',
        queue: `vcp.${team.slug}.event.alarm`,
        routingKey: `${team.slug}.event.alarm`,
      },
    });
    expect(JSON.parse(event?.body ?? '').payload.n).toBe(1);
  });

  it('has pages, which go on after a sleep of the object', async ({ scene }) => {
    const { key, partner } = scene;
    await publishBad(partner, ...range(1, 5).map((number) => `bad ${number}`));
    const first = await key.read<Page>(`${PATH}?limit=2`);
    await evictDurableObject(vhostOf(key.id));
    const second = await key.read<Page>(`${PATH}?limit=2&after=${first.next}`);
    const third = await key.read<Page>(`${PATH}?limit=2&after=${second.next}`);
    const bodies = [first, second, third].flatMap(({ deadLetters }) => deadLetters.map(({ body }) => body));
    expect(bodies).toEqual(range(1, 5).map((number) => `bad ${number}`));
    expect(third.next).toBeNull();
  });

  it('is bounded in characters', async ({ scene }) => {
    const { partner, key } = scene;
    await publishBad(partner, ...range(1, 5).map((number) => `${number}${'x'.repeat(200_000)}`));
    const page = await key.read<Page>(PATH);
    expect(page.deadLetters.map(({ body }) => body[0])).toEqual(['1', '2', '3']);
    expect((await list(key, `?after=${page.next}`)).map(({ body }) => body[0])).toEqual(['4', '5']);
  });

  it('shows bytes that are no text as base64', async ({ scene }) => {
    const { partner, key } = scene;
    const body = publishOf(partner.routingKey('device'), '/w==', { encoding: 'base64' });
    await partner.ask(body);
    expect(await list(key)).toMatchObject([{ body: '/w==', encoding: 'base64', reason: 'not UTF-8' }]);
  });

  it('is for the key itself, and for an ADMIN who names it [C-12.5]', async ({ scene, team, other }) => {
    const { key, partner } = scene;
    await publishBad(partner, 'nonsense');
    const query = `?keyId=${key.id}`;
    expect((await team.admin.read<Page>(`${PATH}${query}`)).deadLetters).toHaveLength(1);
    expect(await list(key, query)).toHaveLength(1);
    await expectInvalid(await team.admin.call(PATH), 'keyId');
    await expectError(await team.operator.call(`${PATH}${query}`), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    const stranger = await other.newKey();
    for (const caller of [other.admin, stranger])
      await expectError(await caller.call(`${PATH}${query}`), 404, 'API_KEY_NOT_FOUND');
    const sibling = await team.newKey();
    await expectError(await sibling.call(`${PATH}${query}`), 404, 'API_KEY_NOT_FOUND');
    const blind = await team.newKey(['vcp:connect']);
    await expectError(await blind.call(PATH), 403, 'FORBIDDEN');
  });

  it.for([
    ['limit', ['0', '101', 'x']],
    ['keyId', ['x', '']],
    ['after', ['x', '', '1', '1-2', '-1-2-3', '1-2-x']],
  ] as const)('refuses %s with a wrong value', async ([name, values], { scene }) => {
    for (const value of values)
      await expectInvalid(await scene.key.call(`${PATH}?${name}=${value}`), name, value);
  });
});

describe('POST /vcp/dead-letters/{id}/requeue', () => {
  async function requeue(key: KeyClient, { id }: DeadLetter): Promise<Requeued> {
    return await key.read<Requeued>(`${PATH}/${id}/requeue`, { method: 'POST' });
  }

  it('puts an event back into its queue, where a client gets the same bytes [C-12.5]', async ({ scene }) => {
    const { key, partner } = scene;
    await rejectEvent(partner, key);
    const [dead] = await list(key);
    if (!dead) throw new Error('no dead letter');
    expect(await requeue(key, dead)).toEqual({ requeuedFrom: dead.id, outcome: 'QUEUED' });
    expect(await list(key)).toEqual([]);
    await partner.consume('event.alarm', { tag: 'again' });
    const [delivery] = await partner.delivered(1, 'again');
    expect(delivery?.body).toBe(dead.body);
    expect(delivery && numberOf(delivery)).toBe(1);
    expect(delivery?.properties.headers).toBeUndefined();
  });

  it('judges a publish again: one that is still malformed is dead-lettered again [C-12.5]', async ({
    scene,
  }) => {
    const { partner, key } = scene;
    await publishBad(partner, 'nonsense');
    const [dead] = await list(key);
    if (!dead) throw new Error('no dead letter');
    expect(await requeue(key, dead)).toEqual({
      ...{ requeuedFrom: dead.id, outcome: 'DEAD_LETTERED', reason: 'not JSON' },
    });
    const [again, ...none] = await list(key);
    expect(none).toEqual([]);
    expect(again).toMatchObject({ body: 'nonsense', reason: 'not JSON', queue: dead.queue });
    expect(again?.id).not.toBe(dead.id);
  });

  it('sends a publish that has become valid to its site, which records it once [C-12.5]', async ({
    scene,
    team,
  }) => {
    const { id: siteId } = await team.newPlant();
    await team.newSubDevice(siteId);
    const { key, partner } = scene;
    const { body, ...publish } = partner.command(siteId, 'device', charge());
    await partner.ask({ ...publish, body: body.replace('"1.1"', '"0.0"') });
    expect(await list(key)).toHaveLength(1);
    await runInDurableObject(vhostOf(key.id), (_, { storage }) => {
      storage.sql.exec(`UPDATE chunk SET data = replace(data, '\\"0.0\\"', '\\"1.1\\"')`);
    });
    await evictDurableObject(vhostOf(key.id));
    const [dead] = await list(key);
    if (!dead) throw new Error('no dead letter');
    expect(await requeue(key, dead)).toEqual({ requeuedFrom: dead.id, outcome: 'RECORDED' });
    expect(await list(key)).toEqual([]);
    expect((await readCommands(siteId, 1, 10)).items).toMatchObject([{ commandType: 'DEVICE_COMMAND' }]);
  });

  it('needs the scope of the command: a key that may only read puts back events, but publishes nothing', async ({
    team,
  }) => {
    const { key, partner } = await setScene({
      organization: team.organization,
      partner: 'connected',
      key: { scopes: ['vcp:connect', 'vcp:read', 'vcp:write:mode'] },
    });
    await partner.ask(publishOf(partner.routingKey('mode'), 'nonsense'));
    await runInDurableObject(vhostOf(key.id), (_, { storage }) => {
      storage.sql.exec(`UPDATE chunk SET data = replace(data, '.command.mode', '.command.device')`);
    });
    await evictDurableObject(vhostOf(key.id));
    const [dead] = await list(key);
    const answer = await key.post(`${PATH}/${dead?.id}/requeue`);
    expect((await expectError(answer, 403, 'FORBIDDEN')).message).toContain('vcp:write:device-command');
    expect(await list(key)).toHaveLength(1);
  });

  it('refuses a dead letter that a client has, that is gone, or that never was', async ({ scene }) => {
    const { partner, key } = scene;
    await publishBad(partner, 'nonsense');
    const [dead] = await list(key);
    await partner.consume('dead-letter', { tag: 'dead' });
    await partner.delivered(1, 'dead');
    expect(await list(key)).toMatchObject([{ isHeld: true }]);
    const act = async (id: string) => [
      await key.post(`${PATH}/${id}/requeue`),
      await key.call(`${PATH}/${id}`, { method: 'DELETE' }),
    ];
    for (const answer of await act(dead?.id ?? '')) await expectError(answer, 409, 'CONFLICT');
    for (const id of ['1-2-3', '999999999-0-1', 'x', '-1', '__proto__', '1-1', '9'.repeat(300), '%20'])
      for (const answer of await act(id)) await expectError(answer, 404, 'NOT_FOUND');
    partner.settle('ack', partner.deliveries('dead'));
    await partner.quiet();
    for (const answer of await act(dead?.id ?? '')) await expectError(answer, 404, 'NOT_FOUND');
  });
});

describe('DELETE /vcp/dead-letters/{id}', () => {
  it('deletes one dead letter, also after a wake, and is audited [C-12.5] [C-8.4]', async ({
    scene,
    team,
  }) => {
    const { key, partner } = scene;
    await publishBad(partner, 'a', 'b', 'c');
    const [, second] = await list(key);
    const path = `${PATH}/${second?.id}?keyId=${key.id}`;
    expect(await team.admin.read(path, { method: 'DELETE' })).toEqual({ id: second?.id });
    await evictDurableObject(vhostOf(key.id));
    expect((await list(key)).map(({ body }) => body)).toEqual(['a', 'c']);
    const { data } = await team.admin.read<{ data: { actor: { type: string }; details: object }[] }>(
      '/audit-events?event=api_key.dead_letter_deleted',
    );
    expect(data[0]).toMatchObject({ actor: { type: 'USER' }, details: { deadLetter: second?.id } });
  });
});
