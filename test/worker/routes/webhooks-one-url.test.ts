/** One URL is the target of one webhook of a key, and of at most four of an organization [C-15.3]. */
import { rowsFrom } from '#workerd/d1.ts';
import { webhookTest as it, type WebhookAdmin } from '#workerd/webhooks.ts';
import { describe, expect, expectError } from '#workerd/worker-test.ts';
import type { ErrorBody } from '../../../protocol/errors.ts';

const MOST = 4;

function rowsOf({ team }: WebhookAdmin): Promise<unknown[]> {
  return rowsFrom('SELECT * FROM webhooks WHERE organization_id = ? ORDER BY id', team.id);
}

/** Asserts a 409 that is about the URL. */
async function expectTaken(response: Response): Promise<ErrorBody> {
  const body = await expectError(response, 409, 'CONFLICT');
  expect(body.message).toMatch(/URL/i);
  return body;
}

/** The status codes of requests at the same time, sorted. */
async function together(requests: Iterable<Promise<Response>>): Promise<number[]> {
  return (await Promise.all(requests)).map(({ status }) => status).toSorted();
}

/** Webhooks of one URL, each of another key, as many as an organization may have. */
async function fill(hooks: WebhookAdmin, url: string): Promise<string[]> {
  const ids: string[] = [];
  for (let count = 0; count < MOST; count++)
    ids.push(await hooks.makeEnabled({ url, keyId: (await hooks.team.newKey()).id }));
  return ids;
}

describe('the URL of a webhook of a key', () => {
  it('answers 409 to a second webhook, however the URL is written, and stores nothing [C-15.3]', async ({
    hooks,
    receiver,
  }) => {
    const { host } = receiver;
    await hooks.makeEnabled({ url: `https://${host}/hook?a=b` });
    const before = await rowsOf(hooks);
    const same = [
      `https://${host}/hook?a=b`,
      `https://${host.toUpperCase()}/hook?a=b`,
      `HTTPS://${host}:443/hook?a=b`,
      `https://${host}./hook?a=b`,
      `https://${host}/x/../hook?a=b`,
    ];
    for (const url of same)
      for (const fields of [{ url }, { url, types: ['alarm'], description: 'another' }])
        await expectTaken(await hooks.post(fields));
    expect(await rowsOf(hooks)).toEqual(before);
    expect(receiver.received).toHaveLength(1);
  });

  it('accepts another path, query or port beside it [C-15.3]', async ({ hooks, receiver }) => {
    const { host } = receiver;
    for (const url of ['/', '/hook', '/hook/', '/HOOK', '/hook?a', ':8443/hook'])
      await hooks.make({ url: `https://${host}${url}` });
    expect(await hooks.count()).toBe(6);
  });

  it('is taken once by requests at the same time [C-15.3]', async ({ hooks, receiver }) => {
    const posts = Array.from({ length: 5 }, () => hooks.post({ url: receiver.url }));
    expect(await together(posts)).toEqual([201, 409, 409, 409, 409]);
    expect(await hooks.count()).toBe(1);
  });

  it('answers 409 to a PATCH that moves another webhook there, and changes nothing [C-15.3]', async ({
    hooks,
    receiver,
  }) => {
    await hooks.makeEnabled({ url: receiver.url });
    const id = await hooks.makeEnabled({ url: `${receiver.url}/other` });
    const before = await rowsOf(hooks);
    await expectTaken(await hooks.patch(id, { url: receiver.url, description: 'moved' }));
    expect(await rowsOf(hooks)).toEqual(before);
    expect((await hooks.patch(id, { url: `${receiver.url}/other`, description: 'same' })).status).toBe(200);
  });

  it('is taken once by PATCHes at the same time [C-15.3]', async ({ hooks, receiver }) => {
    const ids = [1, 2, 3].map((n) => hooks.makeEnabled({ url: `${receiver.url}/${n}` }));
    const moves = (await Promise.all(ids)).map((id) => hooks.patch(id, { url: receiver.url }));
    expect(await together(moves)).toEqual([200, 409, 409]);
  });

  it('is free again when its webhook is deleted or has moved [C-15.3]', async ({ hooks, receiver }) => {
    const { url } = receiver;
    const first = await hooks.makeEnabled({ url });
    await expectTaken(await hooks.post({ url }));
    expect((await hooks.patch(first, { url: `${url}/other` })).status).toBe(200);
    const second = await hooks.makeEnabled({ url });
    await expectTaken(await hooks.post({ url }));
    expect((await hooks.ask(`/${second}`, { method: 'DELETE' })).status).toBe(200);
    await hooks.makeEnabled({ url });
  });

  it('is free while its webhook is DISABLED, which then answers enable with 409 [C-15.3]', async ({
    hooks,
    receiver,
  }) => {
    const { url } = receiver;
    const first = await hooks.makeEnabled({ url });
    receiver.answer = () => new Response('gone', { status: 410 });
    await hooks.send();
    await hooks.until(first, 'DISABLED');
    receiver.answer = () => new Response('thanks');
    const second = await hooks.makeEnabled({ url });
    await expectTaken(await hooks.act(first, 'enable'));
    expect((await hooks.read(first)).status).toBe('DISABLED');
    expect((await hooks.ask(`/${second}`, { method: 'DELETE' })).status).toBe(200);
    expect((await hooks.act(first, 'enable')).status).toBe(200);
    await hooks.until(first, 'ENABLED');
  });

  it('answers 200 to enable of the webhook that has it, also when it is enabled [C-15.3]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled({ url: receiver.url });
    expect((await hooks.act(id, 'enable')).status).toBe(200);
    await hooks.until(id, 'ENABLED');
    await expectTaken(await hooks.post({ url: receiver.url }));
  });
});

describe('the URL of webhooks of several keys', () => {
  it('accepts four of an organization and answers 409 to the fifth, naming the limit [C-15.3]', async ({
    hooks,
    receiver,
    other,
  }) => {
    const { url } = receiver;
    await fill(hooks, url);
    const { message } = await expectTaken(await hooks.post({ url }));
    expect(message).toContain(String(MOST));
    const free = await hooks.makeEnabled({ url: `${url}/free` });
    await expectTaken(await hooks.patch(free, { url }));
    expect(await hooks.count()).toBe(MOST + 1);
    const theirs = await other.newKey();
    const body = { url, keyId: theirs.id, types: ['ack'] };
    const made = await other.orgAdmin.call('/partner/webhooks', { org: other.id, method: 'POST', body });
    expect(made.status).toBe(201);
  });

  it('accepts four of requests at the same time [C-15.3]', async ({ hooks, receiver }) => {
    const keys = await Promise.all(Array.from({ length: 7 }, () => hooks.team.newKey()));
    const posts = keys.map(({ id: keyId }) => hooks.post({ url: receiver.url, keyId }));
    expect(await together(posts)).toEqual([...Array(MOST).fill(201), ...Array(3).fill(409)]);
  });

  it('counts no webhook of a key that was revoked [C-15.3]', async ({ hooks, receiver }) => {
    const { url } = receiver;
    await fill(hooks, url);
    await expectTaken(await hooks.post({ url }));
    const [{ keyId = '' } = {}] = await hooks.list();
    await hooks.team.orgAdmin.remove(`/partner/api-keys/${keyId}`, { org: hooks.team.id });
    await hooks.make({ url });
  });
});
