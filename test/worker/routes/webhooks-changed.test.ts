/** The fields of a webhook over REST: what is refused, and what a PATCH changes [C-12.4]. */
import { vi } from 'vitest';
import { valuesFrom } from '#workerd/d1.ts';
import { webhookTest as it, type WebhookAdmin } from '#workerd/webhooks.ts';
import { describe, expect, expectError, INSTANT } from '#workerd/worker-test.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { WebhookRecord } from '../../../protocol/webhook.ts';

const SITE = '5a1d3c52-3f5b-4b8e-9a55-2a9c4b1d7e10';
const LONG_URL = `https://hooks.example.com/${'x'.repeat(LIMIT.webhookUrlCharacters)}`;
const MANY_SITES = Array.from({ length: LIMIT.webhookSites + 1 }, () => crypto.randomUUID());

/** Values of each field that a POST and a PATCH refuse. */
const WRONG: Record<string, unknown[]> = {
  url: [
    ...[null, 1, true, {}, [], ['https://hooks.example.com/'], '', 'hooks.example.com', LONG_URL],
    ...['http://hooks.example.com/', 'https://10.0.0.1/', 'https://[::1]/', 'https://hooks/'],
    ...['https://localhost/', 'http://localhost:4000/', 'https://hooks.internal/', 'https://hooks.local./'],
    ...['https://u:p@hooks.example.com/', 'https://hooks.example.com/#x', 'https://hooks.example.com:80/'],
    ...['javascript:alert(1)', 'data:text/plain,x', 'file:///etc/passwd'],
  ],
  types: [
    ...[null, 1, 'ack', {}, { 0: 'ack' }, [], [null], [1], [['ack']], [''], ['ACK'], ['ack '], ['*']],
    ...[['webhook.verify'], ['webhook.test'], ['__proto__'], ['ack', 'nothing'], ['ack', 'ack']],
    ['ack', 'execution', 'alarm', 'telemetry', 'ack'],
  ],
  siteIds: [
    ...[1, SITE, {}, [], [null], [1], [''], ['x'], [[SITE]], [SITE, SITE], [SITE, SITE.toUpperCase()]],
    MANY_SITES,
  ],
  description: [
    ...[null, 1, {}, [], 'x'.repeat(LIMIT.webhookDescriptionCharacters + 1)],
    ...['a\nb', 'a\u0000b', 'a\u001b[31m', 'a\u202eb', '\ud800'],
  ],
};
/** What an organization cannot set. */
const UNKNOWN: Record<string, unknown>[] = [
  { id: SITE },
  { organizationId: SITE },
  { status: 'ENABLED' },
  { statusReason: null },
  { secret: `whsec_${'A'.repeat(43)}=` },
  { secretSealed: 'x' },
  { createdAt: '2026-01-15T10:00:00Z' },
  { delivery: {} },
  { constructor: {} },
  { Types: ['ack'] },
];

/** Asserts a 400 whose first detail is about this field. */
async function expectRefused(response: Response, field: string, value: unknown): Promise<void> {
  const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
  const what = { value, details: (details as string[])[0] };
  expect(what).toEqual({ value, details: expect.stringMatching(new RegExp(`(^|\\b)${field}\\b`)) });
}

/** The row of a webhook. */
function rowOf(id: string): Promise<unknown[]> {
  return valuesFrom('SELECT * FROM webhooks WHERE id = ?', id);
}

async function changed(hooks: WebhookAdmin, id: string, body: object): Promise<WebhookRecord> {
  const response = await hooks.patch(id, body);
  expect(response.status).toBe(200);
  return (await response.json()) as WebhookRecord;
}

describe('a POST and a PATCH of a webhook', () => {
  it.for(Object.entries(WRONG))(
    'refuse each wrong value of %s with 400, and store nothing [C-12.4]',
    async ([field, values], { hooks, receiver }) => {
      const id = await hooks.makeEnabled();
      const [before, posts] = [await rowOf(id), receiver.received.length];
      for (const value of values) {
        await expectRefused(await hooks.post({ [field]: value }), field, value);
        await expectRefused(await hooks.patch(id, { [field]: value }), field, value);
      }
      expect([await hooks.count(), await rowOf(id)]).toEqual([1, before]);
      expect(receiver.received).toHaveLength(posts);
    },
  );

  it('refuse fields that they do not have with 400, and store nothing [C-12.4]', async ({ hooks }) => {
    const id = await hooks.makeEnabled();
    const before = await rowOf(id);
    for (const fields of UNKNOWN) {
      const [name = ''] = Object.keys(fields);
      await expectRefused(await hooks.post(fields), name, fields);
      await expectRefused(await hooks.patch(id, fields), name, fields);
    }
    await expectRefused(await hooks.patch(id, { keyId: hooks.key.id }), 'keyId', 'another key');
    expect([await hooks.count(), await rowOf(id)]).toEqual([1, before]);
  });

  it('refuse a body that is no object, and a POST one without url, keyId or types [C-12.4]', async ({
    hooks,
  }) => {
    const id = await hooks.makeEnabled();
    for (const body of [undefined, null, 1, 'x', [], [{ description: 'x' }]]) {
      for (const [path, method] of [
        ['', 'POST'],
        [`/${id}`, 'PATCH'],
      ] as const)
        expect((await hooks.ask(path, { method, body })).status).toBe(400);
    }
    for (const field of ['url', 'keyId', 'types'])
      await expectRefused(await hooks.post({ [field]: undefined }), field, 'omitted');
    for (const keyId of [null, 1, '', 'x', [], `${SITE}0`])
      await expectRefused(await hooks.post({ keyId }), 'keyId', keyId);
    expect(await hooks.count()).toBe(1);
  });

  it('accept the longest values [C-12.4]', async ({ hooks, receiver }) => {
    const url = receiver.url.padEnd(LIMIT.webhookUrlCharacters, 'x');
    const description = 'ž'.repeat(LIMIT.webhookDescriptionCharacters);
    const types = ['telemetry', 'alarm', 'ack', 'execution'];
    const { webhook } = await hooks.make({ url, description, types });
    expect(webhook).toMatchObject({ url, description, types });
    expect(await changed(hooks, webhook.id, { url, description, types })).toMatchObject({ url, description });
  });
});

describe('PATCH /partner/webhooks/{id}', () => {
  it('leaves omitted fields as they are, also with an empty body [C-12.4]', async ({ hooks }) => {
    const id = await hooks.makeEnabled({ description: 'Desk' });
    const { delivery: _, ...before } = await hooks.read(id);
    const after = await changed(hooks, id, {});
    expect(after).toEqual({ ...before, updatedAt: INSTANT });
    const renamed = await changed(hooks, id, { description: 'Other desk' });
    expect(renamed).toEqual({ ...before, description: 'Other desk', updatedAt: INSTANT });
    const same = await changed(hooks, id, { url: before.url });
    expect(same).toMatchObject({ status: 'ENABLED', statusAt: before.statusAt });
  });

  it('decides by the types and the sites which events come from then on [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const [first, second] = [(await hooks.team.newPlant()).id, (await hooks.team.newPlant()).id];
    const id = await hooks.makeEnabled({ types: ['ack', 'alarm'] });
    const sent = [await hooks.send('ack', first), await hooks.send('alarm', second)];
    await receiver.ids(2);
    await changed(hooks, id, { types: ['alarm'] });
    await hooks.send('ack', first);
    sent.push(await hooks.send('alarm', first));
    await receiver.ids(3);
    await changed(hooks, id, { siteIds: [second] });
    await hooks.send('alarm', first);
    sent.push(await hooks.send('alarm', second));
    await receiver.ids(4);
    await changed(hooks, id, { siteIds: null, types: ['execution'] });
    await hooks.send('alarm', second);
    sent.push(await hooks.send('execution', first));
    expect(await receiver.ids(5)).toEqual(sent);
    expect(receiver.typesOf()[0]).toBe('webhook.verify');
  });

  it('makes the webhook PENDING if it changes the url, and events wait until the new receiver has agreed [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    const { promise: agreed, resolve: agree } = Promise.withResolvers<Response>();
    receiver.answer = ({ type }) => (type === 'webhook.verify' ? agreed : new Response('thanks'));
    const moved = await changed(hooks, id, { url: `${receiver.url}/new` });
    expect(moved).toMatchObject({ url: `${receiver.url}/new`, status: 'PENDING', statusReason: null });
    const sent = await hooks.send();
    await vi.waitFor(() => expect(receiver.typesOf('/hook/new')).toEqual(['webhook.verify']));
    expect((await hooks.read(id)).status).toBe('PENDING');
    expect(receiver.events).toEqual([]);
    agree(new Response('yes'));
    expect(await receiver.ids(1)).toEqual([sent]);
    await hooks.until(id, 'ENABLED');
    expect(receiver.typesOf('/hook/new')).toEqual(['webhook.verify', 'ack']);
    expect(receiver.typesOf('/hook')).toEqual(['webhook.verify']);
  });

  it('back to an earlier url asks its receiver again, and list and item have the same status [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    receiver.answer = ({ path }) => new Response('x', { status: path === '/hook/new' ? 500 : 200 });
    await changed(hooks, id, { url: `${receiver.url}/new` });
    await vi.waitFor(() => expect(receiver.typesOf('/hook/new')).toEqual(['webhook.verify']));
    expect(await changed(hooks, id, { url: receiver.url })).toMatchObject({ status: 'PENDING' });
    await hooks.until(id, 'ENABLED');
    expect((await hooks.read(id)).status).toBe('ENABLED');
    expect(receiver.typesOf('/hook')).toEqual(['webhook.verify', 'webhook.verify']);
  });

  it('begins again if it changes the url of a disabled webhook, and resolves its alert [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    receiver.answer = ({ path }) => new Response('x', { status: path === '/hook' ? 410 : 200 });
    const { id } = (await hooks.make()).webhook;
    await hooks.until(id, 'DISABLED');
    await changed(hooks, id, { url: `${receiver.url}/new` });
    await hooks.until(id, 'ENABLED');
    expect(await hooks.read(id)).toMatchObject({ status: 'ENABLED', statusReason: null });
    const alerts = 'SELECT status FROM alerts WHERE organization_id = ?';
    expect(await valuesFrom(alerts, hooks.team.id)).toEqual(['RESOLVED']);
  });

  it('has an audit event with its details for each other change [C-12.4]', async ({ hooks, receiver }) => {
    const { team, key } = hooks;
    const id = await hooks.makeEnabled({ types: ['ack', 'alarm'] });
    const since = new Date(Date.now() - 60_000).toISOString();
    await changed(hooks, id, { types: ['ack'], description: 'Desk' });
    await hooks.act(id, 'test');
    await hooks.act(id, 'recover', { since });
    await hooks.act(id, 'enable');
    await hooks.act(id, 'rotate-secret');
    await hooks.ask(`/${id}`, { method: 'DELETE' });
    // Without path and query, which may be secret.
    const url = new URL(receiver.url).origin;
    const said: [event: string, details: object][] = [
      ['created', { keyId: key.id, url, types: ['ack', 'alarm'] }],
      ['updated', { types: ['ack'], description: 'Desk' }],
      ['tested', { isDelivered: true, status: 200 }],
      ['recovered', { since }],
      ['enabled', {}],
      ['secret_rotated', {}],
      ['deleted', { keyId: key.id, url }],
    ];
    const expected = said.map(([event, details]) => [
      `webhook.${event}`,
      ...[team.orgAdmin.id, 'WEBHOOK', details],
    ]);
    const trail = await team.trailOf(id);
    expect(trail).toHaveLength(expected.length);
    expect(trail).toEqual(expect.arrayContaining(expected));
  });
});
