/** What an ORG_ADMIN does about the delivery of a webhook: test, attempts, recover, rotate-secret, enable [C-12.4]. */
import { vi } from 'vitest';
import { bodyOf } from '#workerd/client.ts';
import { rowsFrom } from '#workerd/d1.ts';
import { statusesOf } from '#workerd/rest.ts';
import { stopClock } from '#workerd/site-clock.ts';
import { isSignedWith, webhookTest as it, type WebhookAdmin, type WebhookItem } from '#workerd/webhooks.ts';
import { describe, expect, expectError, expectInvalid, INSTANT } from '#workerd/worker-test.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { WebhookAttempt } from '../../../protocol/webhook.ts';

const DAY_MS = 86_400_000;

/** The body of a 200 to `POST /{id}/{action}`. */
async function done<Answer>(hooks: WebhookAdmin, id: string, action: string, body?: object): Promise<Answer> {
  return await bodyOf<Answer>(await hooks.act(id, action, body), 200);
}

describe('POST /partner/webhooks/{id}/test', () => {
  it('posts a message that is no event, and answers with the attempt [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    const attempt = await done<WebhookAttempt>(hooks, id, 'test');
    expect(attempt).toEqual({
      ...{ at: INSTANT, type: 'webhook.test', messageId: expect.stringMatching(/^msg_/), sequence: null },
      ...{ isDelivered: true, status: 200, durationMs: expect.any(Number), answer: 'thanks', error: null },
    });
    const got = receiver.received.at(-1);
    expect(got).toMatchObject({ type: 'webhook.test', id: attempt.messageId });
    const { timestamp } = JSON.parse(got?.text ?? '') as { timestamp: string };
    expect(JSON.parse(got?.text ?? '')).toEqual({ type: 'webhook.test', timestamp, data: { webhookId: id } });
  });

  it.for([
    [500, 'status 500: only 2xx says that the message has arrived'],
    [301, 'status 301: redirects are not followed'],
    [410, 'status 410: only 2xx says that the message has arrived'],
    [429, 'status 429: only 2xx says that the message has arrived'],
  ] as const)(
    'changes nothing else if the receiver answers %s [C-12.4]',
    async ([status, error], { hooks, receiver }) => {
      const id = await hooks.makeEnabled();
      const { delivery } = await hooks.read(id);
      receiver.answer = () => new Response('no', { status, headers: { 'retry-after': '3600' } });
      const attempt = await done<WebhookAttempt>(hooks, id, 'test');
      expect(attempt).toMatchObject({ isDelivered: false, status, answer: 'no', error });
      expect(await hooks.read(id)).toMatchObject({ status: 'ENABLED', delivery });
      const details = { isDelivered: false, status };
      const tested = (await hooks.team.trailOf(id)).find(([event]) => event === 'webhook.tested');
      expect(tested?.at(-1)).toEqual(details);
      receiver.answer = () => new Response('thanks');
      const sent = await hooks.send();
      expect(await receiver.ids(1)).toEqual([sent]);
    },
  );

  it('shows why no answer came [C-12.4]', async ({ hooks, receiver }) => {
    const id = await hooks.makeEnabled();
    receiver.answer = () => Promise.reject(new Error('connection refused'));
    const attempt = await done<WebhookAttempt>(hooks, id, 'test');
    expect(attempt).toMatchObject({ isDelivered: false, status: null, answer: null });
    expect(attempt.error).toContain('connection refused');
  });

  it('answers a second test 409 while the first one is under way [C-12.4]', async ({ hooks, receiver }) => {
    const id = await hooks.makeEnabled();
    const { promise: answered, resolve: answer } = Promise.withResolvers<Response>();
    receiver.answer = () => answered;
    const first = hooks.act(id, 'test');
    await vi.waitFor(() => expect(receiver.typesOf()).toEqual(['webhook.verify', 'webhook.test']));
    const { message } = await expectError(await hooks.act(id, 'test'), 409, 'CONFLICT');
    expect(message).toContain('under way');
    answer(new Response('thanks'));
    expect((await first).status).toBe(200);
    expect(receiver.typesOf()).toEqual(['webhook.verify', 'webhook.test']);
    expect((await hooks.act(id, 'test')).status).toBe(200);
  });

  it('answers 429 to the 31st post that an organization asks for in a minute, whatever webhook it is for [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const ids = [await hooks.makeEnabled(), await hooks.makeEnabled()];
    const now = stopClock();
    let times = 0;
    const test = () => hooks.act(ids[times++ % 2] ?? '', 'test');
    // The two webhooks that were created count, too.
    const statuses = await statusesOf(LIMIT.webhookTestsPerMinute - 2, test);
    expect(statuses).toEqual(Array(28).fill(200));
    const refused = await test();
    expect(refused.headers.get('retry-after')).toBe('60');
    await expectError(refused, 429, 'TOO_MANY_REQUESTS');
    expect(receiver.typesOf().filter((type) => type === 'webhook.test')).toHaveLength(28);
    vi.setSystemTime(now + 60_000);
    expect((await test()).status).toBe(200);
  });
});

describe('GET /partner/webhooks/{id}/attempts', () => {
  it('lists the attempts newest first, with the first KiB of each answer [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    receiver.answer = () => new Response('x'.repeat(5_000));
    const sent = await hooks.send();
    await receiver.ids(1);
    await vi.waitFor(async () => expect(await hooks.attempts(id)).toHaveLength(2));
    await done(hooks, id, 'test');
    const attempts = await hooks.attempts(id);
    expect(attempts.map(({ type }) => type)).toEqual(['webhook.test', 'ack', 'webhook.verify']);
    expect(attempts.map(({ answer }) => answer?.length)).toEqual([1_024, 1_024, 43]);
    expect(attempts[1]).toMatchObject({ messageId: sent, sequence: expect.any(Number), isDelivered: true });
  });

  it('keeps the last 200 [C-12.4]', async ({ hooks, receiver }) => {
    const id = await hooks.makeEnabled();
    const sent: string[] = [];
    for (let count = 0; count < 205; count++) sent.push(await hooks.send());
    await receiver.ids(205);
    await vi.waitFor(async () => {
      const attempts = await hooks.attempts(id);
      expect(attempts).toHaveLength(200);
      const ids = attempts.map((attempt) => attempt.messageId);
      expect(new Set(ids).size).toBe(200);
      expect(sent).toEqual(expect.arrayContaining(ids));
      expect(ids).toContain(sent.at(-1));
    });
  });
});

describe('POST /partner/webhooks/{id}/resend', () => {
  it('posts one event again with the same id, and changes nothing else, whatever the receiver answers [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    const sent = [await hooks.send(), await hooks.send()];
    await receiver.ids(2);
    await vi.waitFor(async () => expect(await hooks.attempts(id)).toHaveLength(3));
    const { delivery } = await hooks.read(id);
    const first = (await hooks.attempts(id)).find(({ messageId }) => messageId === sent[0]);
    const again = await done<WebhookAttempt>(hooks, id, 'resend', { sequence: first?.sequence });
    expect(again).toMatchObject({ messageId: sent[0], sequence: first?.sequence, isDelivered: true });
    expect(await receiver.ids(3)).toEqual([...sent, sent[0]]);
    receiver.answer = () => new Response('no', { status: 500 });
    const failed = await done<WebhookAttempt>(hooks, id, 'resend', { sequence: first?.sequence });
    expect(failed).toMatchObject({ isDelivered: false, status: 500 });
    expect(await hooks.read(id)).toMatchObject({ status: 'ENABLED', delivery: { ...delivery, failures: 0 } });
    expect((await hooks.attempts(id)).slice(0, 2)).toEqual([failed, again]);
    const resent = (await hooks.team.trailOf(id)).find(([event]) => event === 'webhook.resent');
    expect(resent?.at(-1)).toMatchObject({ messageId: sent[0], isDelivered: false, status: 500 });
  });

  it('answers 409 while the receiver has not agreed, and after the webhook was disabled, and posts nothing [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const enabled = await hooks.makeEnabled();
    await hooks.send();
    await receiver.ids(1);
    const sequence = await vi.waitFor(async () => {
      const found = (await hooks.attempts(enabled)).find(({ type }) => type === 'ack')?.sequence;
      if (found == null) throw new Error('not delivered yet');
      return found;
    });
    receiver.answer = () => new Response('no', { status: 500 });
    const pending = (await hooks.make()).webhook.id;
    const refused = await expectError(await hooks.act(pending, 'resend', { sequence }), 409, 'CONFLICT');
    expect(refused.message).toContain('not enabled');
    receiver.answer = () => new Response('gone', { status: 410 });
    await hooks.send();
    await hooks.until(enabled, 'DISABLED');
    await expectError(await hooks.act(enabled, 'resend', { sequence }), 409, 'CONFLICT');
    const acks = receiver.typesOf().filter((type) => type === 'ack');
    expect(acks).toHaveLength(2);
  });

  it('counts towards the posts that an organization asks for in a minute [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    await hooks.send();
    await receiver.ids(1);
    const resend = () => hooks.act(id, 'resend', { sequence: 1 });
    // The webhook that was created counts, too.
    expect(await statusesOf(LIMIT.webhookTestsPerMinute - 1, resend)).toEqual(Array(29).fill(404));
    await expectError(await resend(), 429, 'TOO_MANY_REQUESTS');
  });

  it('answers 404 for an event that the webhook does not get, and 400 for what is no sequence [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled({ types: ['alarm'] });
    const other = await hooks.makeEnabled();
    await hooks.send();
    await receiver.ids(1);
    const sequence = await vi.waitFor(async () => {
      const found = (await hooks.attempts(other)).find(({ type }) => type === 'ack')?.sequence;
      if (found == null) throw new Error('not delivered yet');
      return found;
    });
    for (const absent of [1, sequence, sequence + 1, Number.MAX_SAFE_INTEGER])
      await expectError(await hooks.act(id, 'resend', { sequence: absent }), 404, 'NOT_FOUND');
    for (const wrong of [undefined, null, 0, -1, 1.5, '1', 2 ** 60, [], {}])
      await expectInvalid(await hooks.act(id, 'resend', { sequence: wrong }), 'sequence', wrong);
    await expectError(await hooks.act(id, 'resend', { sequence, more: 1 }), 400, 'VALIDATION_ERROR');
    await expectError(await hooks.act(id, 'resend'), 400, 'VALIDATION_ERROR');
    expect(receiver.typesOf()).toEqual(['webhook.verify', 'webhook.verify', 'ack']);
  });

  it('answers 409 while a test of the webhook is under way [C-12.4]', async ({ hooks, receiver }) => {
    const id = await hooks.makeEnabled();
    await hooks.send();
    await receiver.ids(1);
    await vi.waitFor(async () => expect(await hooks.attempts(id)).toHaveLength(2));
    const [{ sequence } = {}] = await hooks.attempts(id);
    const { promise: answered, resolve: answer } = Promise.withResolvers<Response>();
    receiver.answer = () => answered;
    const test = hooks.act(id, 'test');
    await vi.waitFor(() => expect(receiver.typesOf()).toContain('webhook.test'));
    await expectError(await hooks.act(id, 'resend', { sequence }), 409, 'CONFLICT');
    answer(new Response('thanks'));
    expect((await test).status).toBe(200);
  });
});

describe('POST /partner/webhooks/{id}/recover', () => {
  it('delivers again all events since then that are kept, in order and with the same ids [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    const begin = Date.now() - 10_000;
    const { id: siteId } = await hooks.team.newPlant();
    const sent: string[] = [];
    for (let second = 0; second < 4; second++) {
      sent.push(await hooks.send('ack', siteId, begin + 1_000 * second));
      await receiver.ids(second + 1);
    }
    const since = new Date(begin + 2_000).toISOString();
    const answer = await done<WebhookItem>(hooks, id, 'recover', { since });
    expect(answer).toMatchObject({ id, status: 'ENABLED', delivery: { failures: 0, missedBefore: null } });
    expect(await receiver.ids(6)).toEqual([...sent, ...sent.slice(2)]);
    stopClock();
    vi.setSystemTime(Date.now() + LIMIT.webhookRecoverMs);
    await done(hooks, id, 'recover', { since: '1970-01-01T00:00:00Z' });
    expect(await receiver.ids(10)).toEqual([...sent, ...sent.slice(2), ...sent]);
    await vi.waitFor(async () => {
      const { delivery } = await hooks.read(id);
      expect(delivery?.deliveredUpTo).toBe(delivery?.lastSequence);
    });
  });

  it('delivers no event again of which all are earlier, even if they came later [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    const begin = Date.now() - 10_000;
    const { id: siteId } = await hooks.team.newPlant();
    const sent = [await hooks.send('ack', siteId, begin), await hooks.send('ack', siteId, begin + 1_000)];
    await receiver.ids(2);
    await done(hooks, id, 'recover', { since: new Date(begin + 2_000).toISOString() });
    sent.push(await hooks.send('ack', siteId));
    expect(await receiver.ids(3)).toEqual(sent);
  });

  it('refuses a time in the future, no instant, and other fields with 400 [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    await hooks.send();
    await receiver.ids(1);
    const future = [60_000, 365 * DAY_MS].map((ms) => new Date(Date.now() + ms).toISOString());
    const wrong = [
      '',
      'yesterday',
      '2026-01-15',
      '2026-01-15T10:00:00',
      '2026-02-30T10:00:00Z',
      '1768471200',
    ];
    for (const since of [...future, ...wrong, '9999-12-31T23:59:59Z', '1969-12-31T00:00:00Z'])
      await expectInvalid(await hooks.act(id, 'recover', { since }), 'since', since);
    for (const since of [undefined, null, 1_768_471_200, [], {}])
      await expectInvalid(await hooks.act(id, 'recover', { since }), 'since', since);
    const more = { since: '2026-01-15T10:00:00Z', until: '2026-01-15T11:00:00Z' };
    await expectError(await hooks.act(id, 'recover', more), 400, 'VALIDATION_ERROR');
    await expectError(await hooks.act(id, 'recover'), 400, 'VALIDATION_ERROR');
    await done(hooks, id, 'test');
    expect(receiver.typesOf()).toEqual(['webhook.verify', 'ack', 'webhook.test']);
    expect((await hooks.team.trailOf(id)).map(([event]) => event)).not.toContain('webhook.recovered');
  });
});

describe('POST /partner/webhooks/{id}/rotate-secret', () => {
  it('answers with a new secret; both sign for 24 hours, and then only the new one [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const { webhook, secret } = await hooks.make();
    const { id } = webhook;
    const now = stopClock();
    const rotated = await done<{ secret: string; previousSecretUntil: string }>(hooks, id, 'rotate-secret');
    const previousSecretUntil = new Date(now + DAY_MS).toISOString();
    expect(rotated).toEqual({ secret: expect.stringMatching(/^whsec_/), previousSecretUntil });
    const signers = async () => {
      await hooks.send();
      const [message] = receiver.events.slice(-1);
      if (!message) throw new Error('no event');
      const signed = [secret, rotated.secret].map((one) => isSignedWith(one, message));
      return [signed, message.headers.get('webhook-signature')?.split(' ').length];
    };
    await vi.waitFor(async () => expect(await signers()).toEqual([[true, true], 2]));
    expect(await hooks.read(id)).toMatchObject({ previousSecretUntil });
    vi.setSystemTime(now + DAY_MS);
    await vi.waitFor(async () => expect(await signers()).toEqual([[false, true], 1]));
    hooks.team.orgAdmin.accessToken = (await hooks.team.orgAdmin.newSession()).accessToken;
    expect(await hooks.read(id)).toMatchObject({ previousSecretUntil: null });
    expect(await hooks.list()).toMatchObject([{ previousSecretUntil: null }]);
  });

  it('twice leaves only the last two secrets [C-12.4]', async ({ hooks, receiver }) => {
    const { webhook, secret } = await hooks.make();
    const secrets = [secret];
    for (let time = 0; time < 2; time++)
      secrets.push((await done<{ secret: string }>(hooks, webhook.id, 'rotate-secret')).secret);
    await done(hooks, webhook.id, 'test');
    const [message] = receiver.received.slice(-1);
    if (!message) throw new Error('no message');
    expect(secrets.map((one) => isSignedWith(one, message))).toEqual([false, true, true]);
  });
});

describe('POST /partner/webhooks/{id}/enable', () => {
  it('begins again after the receiver answered 410, from where it stopped, and resolves the alert [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const { team } = hooks;
    const id = await hooks.makeEnabled({ description: 'Desk' });
    receiver.answer = () => new Response('gone', { status: 410 });
    const sent = [await hooks.send()];
    await hooks.until(id, 'DISABLED');
    const disabled = { status: 'DISABLED', statusReason: 'GONE', statusAt: INSTANT };
    expect(await hooks.read(id)).toMatchObject(disabled);
    const alerts = 'SELECT type, status, resolved_by FROM alerts WHERE organization_id = ?';
    expect(await rowsFrom(alerts, team.id)).toEqual([
      { type: 'WEBHOOK', status: 'ACTIVE', resolved_by: null },
    ]);
    sent.push(await hooks.send());
    expect(receiver.events).toHaveLength(1);

    receiver.answer = () => new Response('thanks');
    const answer = await done<WebhookItem>(hooks, id, 'enable');
    expect(answer).toMatchObject({ status: 'ENABLED', statusReason: null, delivery: { failures: 0 } });
    expect((await receiver.ids(3)).slice(1)).toEqual(sent);
    expect(await hooks.list()).toMatchObject([{ status: 'ENABLED', statusReason: null }]);
    expect(await rowsFrom(alerts, team.id)).toEqual([
      { type: 'WEBHOOK', status: 'RESOLVED', resolved_by: team.orgAdmin.id },
    ]);
    const events = (await team.trailOf(id)).map(([event]) => event);
    expect(events).toEqual(expect.arrayContaining(['webhook.disabled', 'webhook.enabled']));
  });

  it('asks a receiver again whose webhook was disabled before it agreed; list and item agree [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    receiver.answer = () => new Response('gone', { status: 410 });
    const { id } = (await hooks.make()).webhook;
    await hooks.until(id, 'DISABLED');
    receiver.answer = () => new Response('thanks');
    await done(hooks, id, 'enable');
    await hooks.until(id, 'ENABLED');
    expect((await hooks.read(id)).status).toBe('ENABLED');
    expect(receiver.typesOf()).toEqual(['webhook.verify', 'webhook.verify']);
  });

  it('tries at once if the webhook fails; if the receiver answers 410, list and item say DISABLED [C-12.4]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    receiver.answer = () => new Response('no', { status: 500 });
    await hooks.send();
    await vi.waitFor(async () => expect((await hooks.read(id)).delivery).toMatchObject({ failures: 1 }));
    receiver.answer = () => new Response('gone', { status: 410 });
    await done(hooks, id, 'enable');
    await vi.waitFor(async () => expect((await hooks.read(id)).status).toBe('DISABLED'));
    await hooks.until(id, 'DISABLED');
    expect(receiver.events).toHaveLength(2);
  });
});
