/** Partner queues: declared, bound, read, and deleted [C-6.6]. */
import { evictDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { hand, markedNumbers, numberOf } from '#workerd/outbox-events.ts';
import { consumption, type Partner, refused, vhostRows } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { type Key, vhostOf } from '#workerd/world.ts';
import type { VhostLinkUp } from '../../../../protocol/link/vhost.ts';

type Question = Parameters<Partner['ask']>[0];
type Settings = Parameters<Partner['declare']>[1];
type Typed = Extract<VhostLinkUp, { kind: 'declare' }>['arguments'];

const OK = { kind: 'ok' };
const MAX_LENGTH = (value: number): Typed => [{ name: 'x-max-length', type: 'signedint', value }];

function refusal(code: number, part: string) {
  return refused(code, expect.stringContaining(part));
}

function bindTo(pattern: string) {
  return { kind: 'bind', queue: 'mine', pattern } as const;
}

function deletion(queue: string) {
  return { kind: 'delete', queue, ifUnused: false, ifEmpty: false } as const;
}

/** A partner with a queue `mine` that is bound to these patterns; `$` stands for its slug. */
async function openPartnerQueues(patterns: readonly string[] = ['$.event.#'], options: Settings = {}) {
  const { scene, partner, organization } = await setScene({ partner: 'connected' });
  expect(await partner.declare('mine', options)).toMatchObject({ ...OK, messageCount: 0, consumerCount: 0 });
  for (const pattern of patterns) {
    expect(await partner.ask(bindTo(pattern.replace('$', organization.slug)))).toMatchObject(OK);
  }
  return scene;
}

/** Gets all waiting messages of a queue, with noAck. */
async function drain(partner: Partner, queue = 'mine'): Promise<number[]> {
  const taken: number[] = [];
  for (;;) {
    const answer = await partner.ask({ kind: 'get', queue, channel: 1, noAck: true });
    if (answer.kind !== 'got' || !answer.delivery) return taken;
    taken.push(numberOf(answer.delivery));
  }
}

async function partnerQueues(key: Key): Promise<string[]> {
  const rows = await vhostRows<{ name: string }>(key, 'SELECT name FROM partner_queue ORDER BY name');
  return rows.map(({ name }) => name);
}

describe('declaring a partner queue', () => {
  it('creates a queue; a second declaration with equal arguments succeeds, and the queue survives a sleep', async () => {
    const { partner, key } = await openPartnerQueues([], { durable: true, arguments: MAX_LENGTH(5) });
    const equal = [{ name: 'x-max-length', type: 'byte', value: 5 }];
    expect(await partner.declare('mine', { arguments: equal })).toMatchObject(OK);
    await evictDurableObject(vhostOf(key.id));
    expect(await partner.countOf('mine')).toBe(0);
    expect(await partnerQueues(key)).toEqual(['mine']);
  });

  it('gets a generated name if it has none', async () => {
    const { partner, key } = await setScene({ partner: 'connected' });
    const answer = await partner.declare('', { exclusive: true });
    expect(answer).toMatchObject({ ...OK, queue: expect.stringMatching(/^amq\.gen-[A-Za-z0-9_-]{22}$/) });
    expect(await partnerQueues(key)).toEqual([answer.kind === 'ok' ? answer.queue : '']);
  });

  it.each([
    ['amq.mine', "queue name 'amq.mine' contains reserved prefix 'amq.*'"],
    ['vcp.mine', "access to queue 'vcp.mine'"],
  ])('under a reserved name (%s) is refused with 403', async (name, text) => {
    const { partner } = await setScene({ partner: 'connected' });
    expect(await partner.declare(name)).toMatchObject(refusal(403, `ACCESS_REFUSED - ${text}`));
  });

  it.each<[title: string, name: string, type: string, value: string | number, why: string]>([
    ['x-message-ttl', 'x-message-ttl', 'signedint', -1, '{value_negative,-1}'],
    ['x-max-length', 'x-max-length', 'longstr', '5', '"expected integer, got longstr"'],
    ['an argument that is not offered', 'x-dead-letter-exchange', 'longstr', '', 'not supported'],
    ['another type', 'x-queue-type', 'longstr', 'quorum', 'not supported'],
  ])('is refused with 406 for an invalid argument (%s)', async (_title, name, type, value, why) => {
    const { partner, key } = await setScene({ partner: 'connected' });
    const where = `'${name}' for queue 'q' in vhost 'partner-${key.id}'`;
    const said = `PRECONDITION_FAILED - invalid arg ${where}: ${why}`;
    expect(await partner.declare('q', { arguments: [{ name, type, value }] })).toMatchObject(
      refusal(406, said),
    );
    expect(await partnerQueues(key)).toEqual([]);
  });

  it('is limited to 32 queues; the next is refused until one is deleted', async () => {
    const { partner } = await setScene({ partner: 'connected' });
    for (let count = 1; count <= 32; count++) expect(await partner.declare(`q${count}`)).toMatchObject(OK);
    expect(await partner.declare('one more')).toMatchObject(refusal(406, '(32) is reached'));
    expect(await partner.declare('q7')).toMatchObject(OK);
    expect(await partner.ask(deletion('q7'))).toMatchObject(OK);
    expect(await partner.declare('one more')).toMatchObject(OK);
  });

  it.each<[string, Parameters<Partner['declare']>[1], number, string]>([
    ['durable', { durable: false }, 406, "inequivalent arg 'durable' for queue 'mine'"],
    ['auto_delete', { autoDelete: true }, 406, "inequivalent arg 'auto_delete' for queue 'mine'"],
    ['exclusive', { exclusive: true }, 405, "locked queue 'mine'"],
    ['another argument', { arguments: MAX_LENGTH(6) }, 406, "received '6' but current is '5'"],
    ['no argument', { arguments: [] }, 406, "received none but current is the value '5' of type 'signedint'"],
  ])('again with a different setting (%s) is refused', async (_title, options, code, text) => {
    const { partner } = await openPartnerQueues([], { arguments: MAX_LENGTH(5) });
    expect(await partner.declare('mine', { arguments: MAX_LENGTH(5), ...options })).toMatchObject(
      refusal(code, text),
    );
  });
});

describe('a binding', () => {
  it.each([
    [['$.event.#'], [1, 2, 3, 4]],
    [['$.event.*'], [2, 3, 4]],
    [['$.event.*.*'], [1]],
    [['$.event.command.ack'], [1]],
    [
      ['$.event.alarm', '$.event.execution'],
      [2, 3],
    ],
    [
      ['$.event.alarm', '$.event.#.alarm', '$.event.#'],
      [1, 2, 3, 4],
    ],
    [['$.event.nothing'], []],
    [[], []],
  ])('to %j delivers every matching event once', async (patterns, expected) => {
    const { partner, key, siteId } = await openPartnerQueues(patterns);
    for (const [index, kind] of (['ack', 'alarm', 'execution'] as const).entries())
      await hand(key, siteId, index + 1, 1, { kind });
    await hand(key, siteId, 4, 1, { kind: 'telemetry' });
    expect(await drain(partner)).toEqual(expected);
    // The event queues get the events too.
    expect(await partner.readyCount('event.status')).toBe(1);
  });

  it.each(['other.event.#', 'vcp', '', '#', '*.event.alarm'])(
    'to %j, which does not begin with the slug of its key, is refused with 403',
    async (pattern) => {
      const { partner } = await openPartnerQueues([]);
      expect(await partner.ask(bindTo(pattern))).toMatchObject(
        refusal(403, `ACCESS_REFUSED - access to topic '${pattern}' in exchange 'vcp'`),
      );
    },
  );

  it('survives a sleep until it is removed; removing an unknown binding is not an error', async () => {
    const { partner, key, siteId, organization } = await openPartnerQueues();
    const pattern = `${organization.slug}.event.#`;
    await evictDurableObject(vhostOf(key.id));
    await hand(key, siteId, 1, 1);
    for (let times = 0; times < 2; times++)
      expect(await partner.ask({ kind: 'unbind', queue: 'mine', pattern })).toMatchObject(OK);
    await hand(key, siteId, 2, 1);
    expect(await drain(partner)).toEqual([1]);
  });

  it('is refused if its queue has 64 others; repeating one that exists succeeds', async () => {
    const { partner, organization } = await openPartnerQueues([]);
    const bind = (count: number) => partner.ask(bindTo(`${organization.slug}.event.w${count}`));
    for (let count = 0; count < 64; count++) expect(await bind(count)).toMatchObject(OK);
    expect(await bind(3)).toMatchObject(OK);
    expect(await bind(64)).toMatchObject(refusal(406, '64 bindings'));
  });

  it('is refused with 404 for an unknown queue, with 403 for an event queue', async () => {
    const { partner, organization } = await setScene({ partner: 'connected' });
    const nope = { ...bindTo(`${organization.slug}.event.#`), queue: 'nope' };
    expect(await partner.ask(nope)).toMatchObject(refusal(404, "no queue 'nope'"));
    const ours = partner.queueName('event.alarm');
    expect(await partner.ask({ kind: 'bind', queue: ours, pattern: '#' })).toMatchObject(refusal(403, ours));
  });
});

describe('messages of a partner queue', () => {
  it('are delivered in order, settled, requeued and redelivered as in event queues', async () => {
    const { partner, key, siteId } = await openPartnerQueues();
    await hand(key, siteId, 1, 3);
    await partner.consumeFrom('mine', { prefetch: 2 });
    const [first, second] = await partner.delivered(2);
    partner.settle('requeue', [second]);
    partner.settle('ack', [first]);
    await partner.delivered(4);
    expect(markedNumbers(partner)).toEqual(['1', '2', '2*', '3']);
  });

  it('are stored, if they wait, when the call that brought them returns: a crash loses none, a repeat adds none', async () => {
    const { key, siteId, restart } = await openPartnerQueues(['$.event.command.ack']);
    await hand(key, siteId, 1, 3);
    const again = await restart({ boot: 'boot-2' });
    expect(await again.countOf('mine')).toBe(3);
    await hand(key, siteId, 1, 3);
    expect(await drain(again)).toEqual([1, 2, 3]);
  });

  it('are neither lost nor duplicated by a crash after which their site sends them again', async () => {
    const { partner, key, siteId, connect } = await openPartnerQueues(['$.event.command.ack']);
    await partner.consumeFrom('mine');
    await hand(key, siteId, 1, 3);
    await partner.delivered(3);
    await evictDurableObject(vhostOf(key.id), { webSockets: 'close' });
    // The site sends the events again, because it did not get the answer.
    await hand(key, siteId, 1, 3);
    expect(await drain(await connect({ boot: 'boot-2' }))).toEqual([1, 2, 3]);
  });

  it('beyond x-max-length are dropped, the oldest first', async () => {
    const { partner, key, siteId } = await openPartnerQueues(['$.event.#'], { arguments: MAX_LENGTH(3) });
    await hand(key, siteId, 1, 10);
    await evictDurableObject(vhostOf(key.id));
    expect(await partner.countOf('mine')).toBe(3);
    expect(await drain(partner)).toEqual([8, 9, 10]);
  });

  it('go to the dead-letter queue with their origin if a client discards them, and a purge empties that queue', async () => {
    const { partner, key, siteId, organization } = await openPartnerQueues(['$.event.alarm']);
    await hand(key, siteId, 1, 1, { kind: 'alarm' });
    const got = await partner.ask({ kind: 'get', queue: 'mine', channel: 1, noAck: false });
    if (got.kind === 'got' && got.delivery) partner.settle('discard', [got.delivery]);
    const { delivery } = await partner.get('dead-letter', { noAck: false });
    expect(delivery?.properties.death).toEqual({
      reason: 'rejected',
      queue: 'mine',
      exchange: 'vcp',
      routingKeys: [`${organization.slug}.event.alarm`],
      atMs: expect.any(Number),
      count: 1,
    });
    partner.settle('requeue', [delivery]);
    const name = partner.queueName('dead-letter');
    expect(await partner.ask({ kind: 'purge', queue: name })).toMatchObject({ ...OK, messageCount: 1 });
    expect(await partner.readyCount('dead-letter')).toBe(0);
  });

  it('go to the consumer of the highest priority whose prefetch is not full, in turns among equal priorities', async () => {
    const { partner, key, siteId } = await openPartnerQueues();
    await partner.consumeFrom('mine', { tag: 'low', priority: -1 });
    await partner.consumeFrom('mine', { tag: 'a', priority: 5, prefetch: 2 });
    await partner.consumeFrom('mine', { tag: 'b', priority: 5, prefetch: 1 });
    await hand(key, siteId, 1, 5);
    await partner.delivered(5);
    const numbersOf = (tag: string) => partner.deliveries(tag).map(numberOf);
    expect([numbersOf('a'), numbersOf('b'), numbersOf('low')]).toEqual([[1, 3], [2], [4, 5]]);
  });
});

describe('an exclusive queue', () => {
  const mine = [{ name: 'x-mine', type: 'bool', value: 1 }];
  const FLAGS = { passive: false, durable: true, exclusive: false, autoDelete: false, arguments: mine };
  const questions: [string, Question][] = [
    ['a declaration', { kind: 'declare', queue: 'mine', ...FLAGS }],
    ['a consumer', consumption('mine')],
    ['a get', { kind: 'get', channel: 1, queue: 'mine', noAck: true }],
    ['a purge', { kind: 'purge', queue: 'mine' }],
    ['a bind', bindTo('$.event.#')],
    ['a delete', deletion('mine')],
  ];

  it.each(questions)('refuses %s of another connection with 405', async (_title, question) => {
    const { connect, organization } = await openPartnerQueues([], { exclusive: true });
    const other = await connect();
    const own =
      'pattern' in question
        ? { ...question, pattern: question.pattern.replace('$', organization.slug) }
        : question;
    expect(await other.ask(own)).toMatchObject(
      refusal(405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine'"),
    );
  });

  it('is deleted with all its rows when its connection closes or its bridge dials under another boot', async () => {
    const { partner, key, siteId, connect } = await openPartnerQueues(['$.event.#'], { exclusive: true });
    await hand(key, siteId, 1, 3);
    const second = await connect({ bridge: 'bridge-2' });
    await second.declare('other', { exclusive: true });
    partner.link.socket.close();
    await partner.link.untilClosed();
    expect(await second.countOf('mine')).toBeUndefined();
    // Another boot of its bridge: the connection has ended without a close.
    const third = await connect({ bridge: 'bridge-2', boot: 'boot-2' });
    expect(await third.countOf('other')).toBeUndefined();
    expect(await partnerQueues(key)).toEqual([]);
    expect(await vhostRows(key, "SELECT 1 AS one FROM chunk WHERE queue LIKE 'partner/%'")).toEqual([]);
    expect(await vhostRows(key, 'SELECT 1 AS one FROM binding')).toEqual([]);
  });
});

describe('an auto-delete queue', () => {
  it('exists until its last consumer is cancelled', async () => {
    const { partner } = await openPartnerQueues([], { autoDelete: true });
    expect(await partner.countOf('mine')).toBe(0);
    await partner.consumeFrom('mine', { tag: 'a' });
    await partner.consumeFrom('mine', { tag: 'b' });
    await partner.ask({ kind: 'cancel', channel: 1, tag: 'a' });
    expect(await partner.countOf('mine')).toBe(0);
    await partner.ask({ kind: 'cancel', channel: 1, tag: 'b' });
    expect(await partner.countOf('mine')).toBeUndefined();
  });

  it.each<[string, (partner: Partner) => void]>([
    ['channel', (partner) => partner.link.send({ kind: 'close-channel', channel: 1 })],
    ['connection', (partner) => partner.link.socket.close()],
  ])('is deleted with the %s of its last consumer', async (_title, end) => {
    const { partner, connect, key } = await openPartnerQueues([], { autoDelete: true });
    await partner.consumeFrom('mine');
    end(partner);
    const other = await connect();
    await expect.poll(() => other.countOf('mine')).toBeUndefined();
    expect(await partnerQueues(key)).toEqual([]);
  });
});

describe('deleting and purging', () => {
  it('queue.delete removes a partner queue with its messages, and notifies its consumers', async () => {
    const { partner, connect, key, siteId } = await openPartnerQueues();
    const other = await connect();
    await partner.consumeFrom('mine', { tag: 'mine', prefetch: 1 });
    await hand(key, siteId, 1, 5);
    await other.consumeFrom('mine', { tag: 'theirs', prefetch: 1 });
    const [held] = await other.delivered(1);
    expect(await partner.ask(deletion('mine'))).toMatchObject({ ...OK, messageCount: 3 });
    const cancelled = ({ link }: Partner) => link.next(({ kind }) => kind === 'cancelled');
    expect(await cancelled(other)).toEqual({ kind: 'cancelled', channel: 1, tag: 'theirs' });
    expect(await cancelled(partner)).toEqual({ kind: 'cancelled', channel: 1, tag: 'mine' });
    other.settle('ack', [held]);
    await other.quiet();
    expect(await partner.countOf('mine')).toBeUndefined();
    expect(await vhostRows(key, "SELECT 1 AS one FROM chunk WHERE queue LIKE 'partner/%'")).toEqual([]);
    // A new queue of the same name is a different queue.
    await partner.declare('mine');
    expect(await partner.countOf('mine')).toBe(0);
  });

  it('queue.delete refuses a queue in use (if-unused) or with messages (if-empty); an unknown one is no error', async () => {
    const { partner, key, siteId } = await openPartnerQueues();
    await hand(key, siteId, 1, 2);
    const wish = { kind: 'delete', queue: 'mine', ifUnused: true, ifEmpty: true } as const;
    await partner.consumeFrom('mine', { prefetch: 1 });
    expect(await partner.ask(wish)).toMatchObject(refusal(406, 'in use'));
    await partner.ask({ kind: 'cancel', channel: 1, tag: 'mine' });
    expect(await partner.ask(wish)).toMatchObject(refusal(406, 'not empty'));
    const purge = { kind: 'purge', queue: 'mine' } as const;
    expect(await partner.ask(purge)).toMatchObject({ ...OK, messageCount: 1 });
    expect(await partner.ask(wish)).toMatchObject({ ...OK, messageCount: 0 });
    expect(await partner.ask(wish)).toMatchObject({ ...OK, messageCount: 0 });
    expect(await partner.ask(purge)).toMatchObject(refusal(404, "no queue 'mine'"));
  });

  it('queue.delete, queue.purge and queue.unbind are refused with 403 for event queues', async () => {
    const { partner } = await setScene({ partner: 'connected' });
    const queue = partner.queueName('event.alarm');
    const forbidden = refusal(403, `access to queue '${queue}'`);
    expect(await partner.ask(deletion(queue))).toMatchObject(forbidden);
    expect(await partner.ask({ kind: 'purge', queue })).toMatchObject(forbidden);
    expect(await partner.ask({ kind: 'unbind', queue, pattern: '#' })).toMatchObject(forbidden);
  });
});

it('the revocation of a key removes all of its partner queues', async () => {
  const { key, siteId } = await openPartnerQueues();
  await hand(key, siteId, 1, 5);
  await vhostOf(key.id).revoke();
  for (const table of ['partner_queue', 'binding', 'chunk', 'consumer'])
    expect(await vhostRows(key, `SELECT 1 AS one FROM ${table}`)).toEqual([]);
});
