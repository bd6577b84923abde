/** How often an organization may have the platform post: recover, tests, and the ceilings of posts [C-15.3]. */
import { vi } from 'vitest';
import { bodyOf } from '#workerd/client.ts';
import { operator } from '#workerd/operator.ts';
import { statusesOf } from '#workerd/rest.ts';
import { stopClock } from '#workerd/site-clock.ts';
import { webhookTest as it, type WebhookAdmin } from '#workerd/webhooks.ts';
import { describe, expect, expectError, expectInvalid } from '#workerd/worker-test.ts';
import { LIMIT } from '../../../protocol/limits.ts';

const MINUTE_MS = 60_000;
const PER_MINUTE = LIMIT.webhookTestsPerMinute;
/** The ceilings of webhooks and their defaults. */
const CEILINGS = { webhookPostsPerMinute: 3_000, webhookHostPostsPerMinute: 600, webhookTestsPerMinute: 30 };

function since(): { since: string } {
  return { since: new Date(Date.now() - MINUTE_MS).toISOString() };
}

function limitsPath({ team }: WebhookAdmin): string {
  return `/platform/organizations/${team.id}/limits`;
}

/** Asserts a 429 that says when to try again, in seconds. */
async function expectLater(response: Response): Promise<string> {
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(Number(response.headers.get('retry-after'))).toBeLessThanOrEqual(60);
  return (await expectError(response, 429, 'TOO_MANY_REQUESTS')).message;
}

describe('POST /partner/webhooks/{id}/recover', () => {
  it('answers 429 to the second one of a webhook in a minute, and delivers nothing again [C-15.3]', async ({
    hooks,
    receiver,
  }) => {
    const [id, other] = [await hooks.makeEnabled(), await hooks.makeEnabled({ types: ['alarm'] })];
    const sent = await hooks.send('ack', undefined, stopClock() - 1_000);
    await receiver.ids(1);
    // `vi.waitFor` moves the clock while it waits.
    const now = Date.now();
    expect((await hooks.act(id, 'recover', since())).status).toBe(200);
    expect(await receiver.ids(2)).toEqual([sent, sent]);
    const refused = await hooks.act(id, 'recover', since());
    expect(await expectLater(refused)).toMatch(/recover/);
    expect((await hooks.act(other, 'recover', since())).status).toBe(200);
    vi.setSystemTime(now + MINUTE_MS - 1);
    await expectLater(await hooks.act(id, 'recover', since()));
    expect(receiver.events).toHaveLength(2);
    const recovered = (await hooks.team.trailOf(id)).filter(([event]) => event === 'webhook.recovered');
    expect(recovered).toHaveLength(1);
    vi.setSystemTime(now + MINUTE_MS);
    const again = { since: new Date(now - MINUTE_MS).toISOString() };
    expect((await hooks.act(id, 'recover', again)).status).toBe(200);
    expect(await receiver.ids(3)).toEqual([sent, sent, sent]);
  });

  it('answers one of two at the same time with 429 [C-15.3]', async ({ hooks }) => {
    const id = await hooks.makeEnabled();
    const both = [hooks.act(id, 'recover', since()), hooks.act(id, 'recover', since())];
    expect((await Promise.all(both)).map(({ status }) => status).toSorted()).toEqual([200, 429]);
  });

  it('uses up no minute of the webhook when it is refused [C-15.3]', async ({ hooks }) => {
    const id = await hooks.makeEnabled();
    for (const wrong of ['', 'yesterday', '9999-12-31T23:59:59Z', null])
      await expectInvalid(await hooks.act(id, 'recover', { since: wrong }), 'since', wrong);
    const byAdmin = hooks.ask(`/${id}/recover`, { method: 'POST', body: since() }, hooks.team.admin);
    await expectError(await byAdmin, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    expect((await hooks.act(id, 'recover', since())).status).toBe(200);
  });

  it('counts towards the posts that an organization asks for in a minute, as resend does [C-15.3]', async ({
    hooks,
  }) => {
    const ids: string[] = [];
    for (let count = 0; count < 8; count++) ids.push(await hooks.makeEnabled());
    const now = stopClock();
    // The webhooks that were created count, too, but perhaps in the minute before.
    vi.setSystemTime(now + MINUTE_MS);
    const tests = PER_MINUTE - ids.length + 1;
    expect(await statusesOf(tests, () => hooks.act(ids[0] ?? '', 'test'))).toEqual(Array(tests).fill(200));
    const statuses: number[] = [];
    for (const id of ids) statuses.push((await hooks.act(id, 'recover', since())).status);
    expect(statuses).toEqual([...Array(ids.length - 1).fill(200), 429]);
  });
});

describe('the ceilings of webhooks', () => {
  it('have defaults that the operator sees [C-15.3]', async ({ hooks }) => {
    const { limits } = await operator.read<{ limits: object }>(limitsPath(hooks));
    expect(limits).toMatchObject(CEILINGS);
  });

  it.for(Object.keys(CEILINGS))(
    'change %s by PATCH, and back to the default by null [C-14.2]',
    async (name, { hooks }) => {
      const path = limitsPath(hooks);
      const set = async (value: unknown) => await operator.patch(path, { [name]: value });
      expect(await bodyOf(await set(7), 200)).toMatchObject({ limits: { [name]: 7 } });
      for (const wrong of [0, -1, 1.5, '7', 1e12, [], {}])
        await expectError(await set(wrong), 400, 'VALIDATION_ERROR');
      expect(await operator.read(path)).toMatchObject({ limits: { [name]: 7 } });
      expect(await bodyOf(await set(null), 200)).toMatchObject({ limits: CEILINGS });
    },
  );

  it('raise how many tests an organization may ask for in a minute', async ({ hooks }) => {
    const id = await hooks.makeEnabled();
    expect((await operator.patch(limitsPath(hooks), { webhookTestsPerMinute: 33 })).status).toBe(200);
    stopClock();
    vi.setSystemTime(Date.now() + MINUTE_MS);
    const statuses = await statusesOf(34, () => hooks.act(id, 'test'));
    expect(statuses).toEqual([...Array(33).fill(200), 429]);
  });
});
