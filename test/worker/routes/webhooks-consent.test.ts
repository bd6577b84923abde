/** A receiver consents with the challenge of `webhook.verify`, and gets no event before that [C-15.3]. */
import { vi } from 'vitest';
import { challengeOf } from '#workerd/post-receiver.ts';
import { type Received, type Receiver, webhookTest as test, type WebhookAdmin } from '#workerd/webhooks.ts';
import { describe, expect } from '#workerd/worker-test.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { WebhookAttempt } from '../../../protocol/webhook.ts';

const CHALLENGE = /^[A-Za-z0-9_-]{43}$/;
/** A challenge that no message had. */
const STRANGE = 'A'.repeat(43);

/** A receiver whose answers decide by themselves. */
const it = test.extend('unhelped', ({ receiver }) => {
  receiver.isConsenting = false;
  return receiver;
});

/** The challenge of a message; the text `absent` if it has none, which is no answer that counts. */
function challenge({ text }: Received): string {
  return challengeOf(text) ?? 'absent';
}

/** Makes a webhook of a receiver that answers `webhook.verify` this way, and returns its id and its first attempt. */
async function firstAttempt(
  hooks: WebhookAdmin,
  receiver: Receiver,
  answer: (message: Received) => Response,
): Promise<{ id: string; attempt: WebhookAttempt }> {
  receiver.answer = answer;
  const { id } = (await hooks.make()).webhook;
  const attempt = await vi.waitFor(async () => {
    const [found] = await hooks.attempts(id);
    if (!found) throw new Error('no attempt yet');
    return found;
  });
  return { id, attempt };
}

/** What is no consent, though its status says that the message has arrived. */
const NO_CONSENT: [what: string, answer: (own: string, message: Received) => Response][] = [
  ['no body', () => new Response(null, { status: 204 })],
  ['an empty body', () => new Response('')],
  ['any text', () => new Response('thanks')],
  ['a challenge of its own', () => new Response(STRANGE)],
  ['the challenge in lower case and one character more', (own) => new Response(`${own.toLowerCase()}!`)],
  ['a part of the challenge', (own) => new Response(own.slice(0, 42))],
  ['the challenge inside a text', (own) => new Response(`<p>${own}</p>`)],
  ['the message itself, as an echo server does', (_, { text }) => new Response(text)],
  ['JSON without a challenge', () => Response.json({ ok: true })],
  ['JSON with another challenge', () => Response.json({ challenge: STRANGE })],
  ['JSON with a challenge that is null', () => Response.json({ challenge: null })],
  ['JSON with the challenge in a list', (own) => Response.json({ challenge: [own] })],
  ['JSON with the challenge one level down', (own) => Response.json({ data: { challenge: own } })],
  ['a list with the challenge', (own) => Response.json([own])],
  ['the challenge after the first KiB', (own) => new Response(' '.repeat(LIMIT.webhookAnswerBytes) + own)],
];

describe('webhook.verify', () => {
  it('carries a challenge of 43 characters, another one each time [C-15.3]', async ({ hooks, unhelped }) => {
    unhelped.answer = (message) => new Response(challenge(message));
    const first = (await hooks.make()).webhook.id;
    await vi.waitFor(() => expect(unhelped.received).toHaveLength(1));
    await hooks.make();
    await vi.waitFor(() => expect(unhelped.received).toHaveLength(2));
    const [one, other] = unhelped.received.map(({ text }) => JSON.parse(text) as { data: object });
    expect(one?.data).toEqual({ webhookId: first, challenge: expect.stringMatching(CHALLENGE) });
    expect(other?.data).toMatchObject({ challenge: expect.stringMatching(CHALLENGE) });
    expect(unhelped.received.map(challenge)[0]).not.toBe(unhelped.received.map(challenge)[1]);
  });

  it.for([
    ['the challenge as text', (own: string) => new Response(own)],
    ['the challenge as text, with the status 202', (own: string) => new Response(own, { status: 202 })],
    ['JSON with the challenge', (own: string) => Response.json({ challenge: own })],
    [
      'JSON with more fields',
      (own: string) => Response.json({ ok: 1, challenge: own, data: { challenge: 1 } }),
    ],
    ['JSON with white space', (own: string) => new Response(` {\n "challenge" : "${own}" }\n`)],
    ['JSON that says to be text', (own: string) => new Response(`{"challenge":"${own}"}`)],
  ] as const)(
    'enables the webhook when it is answered with %s [C-15.3]',
    async ([, answer], { hooks, unhelped }) => {
      unhelped.answer = (message) => answer(challenge(message));
      const id = await hooks.makeEnabled();
      expect(unhelped.received.map(challenge)).toEqual([expect.stringMatching(CHALLENGE)]);
      const sent = await hooks.send();
      expect(await unhelped.ids(1)).toEqual([sent]);
      const attempts = await hooks.attempts(id);
      expect(attempts.at(-1)).toMatchObject({ type: 'webhook.verify', isDelivered: true, error: null });
    },
  );

  it('enables no webhook when a 2xx has no consent in it, and the attempt says why [C-15.3]', async ({
    hooks,
    unhelped,
  }) => {
    for (const [what, answer] of NO_CONSENT) {
      const { id, attempt } = await firstAttempt(hooks, unhelped, (message) =>
        answer(challenge(message), message),
      );
      expect([what, attempt]).toEqual([
        what,
        expect.objectContaining({
          type: 'webhook.verify',
          isDelivered: false,
          error: expect.stringContaining('challenge'),
        }),
      ]);
      const { status, delivery } = await hooks.read(id);
      expect([what, status, delivery?.failures]).toEqual([what, 'PENDING', 1]);
      expect((await hooks.ask(`/${id}`, { method: 'DELETE' })).status).toBe(200);
    }
    await hooks.send();
    expect(unhelped.events).toEqual([]);
  });

  it.for([301, 400, 404, 500])(
    'enables no webhook when its challenge comes back with the status %i [C-15.3]',
    async (status, { hooks, unhelped }) => {
      const { id, attempt } = await firstAttempt(
        hooks,
        unhelped,
        (message) => new Response(challenge(message), { status }),
      );
      expect(attempt).toMatchObject({ isDelivered: false, status });
      expect((await hooks.read(id)).status).toBe('PENDING');
      await hooks.send();
      expect(unhelped.events).toEqual([]);
    },
  );

  it('enables no webhook by the challenge of an earlier message [C-15.3]', async ({ hooks, unhelped }) => {
    unhelped.answer = () => new Response(unhelped.received.map(challenge)[0]);
    const first = (await hooks.make()).webhook.id;
    await hooks.until(first, 'ENABLED');
    const { id, attempt } = await firstAttempt(hooks, unhelped, unhelped.answer as () => Response);
    expect(attempt).toMatchObject({ type: 'webhook.verify', isDelivered: false });
    expect((await hooks.read(id)).status).toBe('PENDING');
  });

  it('asks a moved webhook for the consent of its new receiver [C-15.3]', async ({ hooks, unhelped }) => {
    unhelped.answer = (message) => new Response(challenge(message));
    const id = await hooks.makeEnabled();
    unhelped.answer = ({ type }) => new Response(type === 'webhook.verify' ? 'no' : 'thanks');
    expect((await hooks.patch(id, { url: `${unhelped.url}/new` })).status).toBe(200);
    await vi.waitFor(() => expect(unhelped.typesOf('/hook/new')).toEqual(['webhook.verify']));
    await vi.waitFor(async () => {
      const { status, delivery } = await hooks.read(id);
      expect([status, delivery?.failures]).toEqual(['PENDING', 1]);
    });
    await hooks.send();
    expect(unhelped.events).toEqual([]);
  });

  it('leaves the answer to webhook.test and to events as it was: any 2xx [C-12.4] [C-15.3]', async ({
    hooks,
    unhelped,
  }) => {
    unhelped.answer = (message) =>
      message.type === 'webhook.verify' ? new Response(challenge(message)) : new Response('thanks');
    const id = await hooks.makeEnabled();
    expect(await (await hooks.act(id, 'test')).json()).toMatchObject({ isDelivered: true, answer: 'thanks' });
    const sent = await hooks.send();
    expect(await unhelped.ids(1)).toEqual([sent]);
    await vi.waitFor(async () => {
      const [last] = await hooks.attempts(id);
      expect(last).toMatchObject({ type: 'ack', messageId: sent, isDelivered: true });
    });
  });
});
