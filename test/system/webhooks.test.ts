/** Webhooks of a whole stack: what a receiver gets, while all goes well and when the edge or the receiver ends. */
import { beforeAll, describe, expect, it } from 'vitest';
import { chargeOrder, ReturningPartner } from '#support/returning-partner.ts';
import { eventually, type TestStack } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { VhostCaller } from '#support/vhost-caller.ts';
import { type ReceivedMessage, WebhookReceiver, WebhookRoutes } from '#support/webhook-receiver.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { EVENT_KINDS } from '../../protocol/routing-keys.ts';
import { Operator } from '../../tools/admin-client.ts';

const IN_FLIGHT = 10;
const KILL_AFTER = 100;
/** Each has at least two events: acknowledged, and ended. */
const ORDERS = 520;
const ENDED = /"status":"(COMPLETED|FAILED|DEVIATED)"/;

/** All events of the key, as polling gets them. */
async function polled(stack: TestStack, key: string): Promise<string[]> {
  const events: string[] = [];
  for (let after = 0; ; ) {
    const path = `/vcp/events?limit=500&after=${after}`;
    const { status, body } = await stack.rest(path, key);
    expect(status).toBe(200);
    const page = body as { events: { event: string }[]; next: number };
    events.push(...page.events.map(({ event }) => event));
    if (page.next === after) return events;
    after = page.next;
  }
}

function idOf(event: string): string {
  return (JSON.parse(event) as { messageId: string }).messageId;
}

/** The messages without repeats, in the order of their first arrival. */
function once(messages: readonly ReceivedMessage[]): ReceivedMessage[] {
  return [...new Map(messages.toReversed().map((message) => [message.data, message])).values()].toReversed();
}

/**
 * Expects each event once or more, with its id. Fails if the receiver got an event before another one of the journal
 * that is eight or more places earlier.
 */
function expectInOrder(messages: readonly ReceivedMessage[], events: readonly string[]): void {
  const arrived = once(messages);
  const places = new Map(events.map((event, place) => [event, place]));
  const placeOf = ({ data }: ReceivedMessage) => places.get(data) ?? -1;
  const ordered = arrived.toSorted((one, other) => placeOf(one) - placeOf(other));
  expect(ordered.map(({ data }) => data)).toEqual(events);
  expect(ordered.map(({ id }) => id)).toEqual(events.map(idOf));
  const before = new Set<string>();
  for (const message of arrived) {
    const earlier = events.slice(0, Math.max(0, placeOf(message) - LIMIT.webhookWindow + 1));
    expect(earlier.filter((event) => !before.has(event))).toEqual([]);
    before.add(message.data);
  }
}

describe('a webhook', () => {
  const stack = suiteStack({ bridgeProcess: true, bindings: { WEBHOOK_PRIVATE: 'allow' } });
  const routes = () => new WebhookRoutes(stack.admin);
  beforeAll(async () => {
    const { operatorToken, organization } = stack.credentials;
    // The receivers of all tests have one host name.
    const limits = { webhookPostsPerMinute: 100_000, webhookHostPostsPerMinute: 100_000 };
    const path = `/organizations/${organization.id}/limits`;
    await new Operator(stack.edge.url, operatorToken).call('PATCH', path, limits);
  });

  /** A key with a webhook that has answered its first message. */
  async function subscribed(receiver: WebhookReceiver) {
    const key = await stack.addKey();
    const { id, secret } = await routes().create(key.id, receiver.url, EVENT_KINDS);
    receiver.verifyWith(secret);
    await routes().untilEnabled(id);
    return { key, id };
  }

  /** Resolves when the cursor is at the journal's last event. */
  async function allDelivered(id: string): Promise<void> {
    await eventually(async () => {
      const { delivery } = await routes().item(id);
      return delivery?.deliveredUpTo === delivery?.lastSequence || undefined;
    });
  }

  /** Publishes charges of a new plant until each is confirmed. `published`: called after each confirm. */
  async function publishAll(
    key: { id: string; key: string; signingKey: string },
    count: number,
    published: (count: number) => void = () => {},
  ): Promise<void> {
    const plant = await stack.addPlant();
    const device = await stack.gateway(plant.gateway);
    const partner = new ReturningPartner(stack.partnerOptions(key));
    try {
      await eventually(() => partner.connected || undefined);
      const orders = Array.from({ length: count }, () => chargeOrder(plant.id)).values();
      let confirmed = 0;
      const publish = async () => {
        for (const order of orders) {
          // An unconfirmed command is sent again with the same messageId.
          await eventually(async () => (await partner.publish(order)) || undefined, 60_000);
          confirmed += 1;
          published(confirmed);
        }
      };
      await Promise.all(Array.from({ length: IN_FLIGHT }, publish));
      const ended = () => partner.events.filter(({ payload }) => ENDED.test(JSON.stringify(payload)));
      await eventually(
        () => new Set(ended().map(({ correlationId }) => correlationId)).size >= count || undefined,
        60_000,
      );
    } finally {
      await Promise.all([partner.stop(), device.stop()]);
    }
  }

  it('gets signed messages with the ids and the bytes of the journal, in its order [C-12.4]', async () => {
    const receiver = await WebhookReceiver.start();
    try {
      const { key } = await subscribed(receiver);
      await publishAll(key, 30);
      const events = await eventually(async () => {
        const texts = await polled(stack, key.key);
        return texts.filter((text) => ENDED.test(text)).length >= 30 ? texts : undefined;
      });
      await eventually(() => receiver.events.length >= events.length || undefined);
      expect(receiver.faults).toEqual([]);
      expect(receiver.events).toHaveLength(events.length);
      expectInOrder(receiver.events, events);
      for (const { id, type, body, data, headers } of receiver.events) {
        const { messageId, timestamp } = JSON.parse(data) as { messageId: string; timestamp: string };
        expect([id, body]).toEqual([
          messageId,
          `{"type":"${type}","timestamp":"${timestamp}","data":${data}}`,
        ]);
        expect(headers['content-type']).toBe('application/json');
        expect(EVENT_KINDS).toContain(type);
      }
    } finally {
      await receiver.stop();
    }
  }, 60_000);

  it('loses no event of a thousand when the edge is killed, and gets all again with the same ids [C-12.4]', async () => {
    const receiver = await WebhookReceiver.start();
    try {
      const { key, id } = await subscribed(receiver);
      const isTime = Promise.withResolvers<void>();
      const all = publishAll(key, ORDERS, (count) => count >= KILL_AFTER && isTime.resolve());
      await Promise.race([isTime.promise, all]);
      await eventually(() => receiver.events.length >= KILL_AFTER || undefined);
      const killedAtMs = Date.now();
      await stack.killEdge();
      const backAtMs = Date.now();
      await all;

      const stored = await eventually(async () => {
        const texts = await polled(stack, key.key);
        return texts.filter((text) => ENDED.test(text)).length >= ORDERS ? texts : undefined;
      });
      // A command that was sent again because its confirm was lost gets its acknowledgement again: with the same id, but
      // with the time of the repeat.
      const events = [...new Set(stored)];
      expect(events.length).toBeGreaterThanOrEqual(1_000);
      await eventually(() => once(receiver.events).length >= events.length || undefined, 60_000);
      await allDelivered(id);
      expect(receiver.faults).toEqual([]);
      expectInOrder(receiver.events, events);
      const first = new Map(once(receiver.events).map((message) => [message.data, message]));
      for (const message of receiver.events) {
        const before = first.get(message.data);
        if (before === message) continue;
        expect(before?.atMs).toBeLessThanOrEqual(backAtMs);
        expect(message.atMs).toBeGreaterThanOrEqual(killedAtMs);
      }

      const { timestamp } = JSON.parse(events[0] ?? '{}') as { timestamp: string };
      const from = receiver.events.length;
      await routes().recover(id, timestamp);
      const again = () => receiver.events.slice(from);
      await eventually(() => again().length >= stored.length || undefined, 60_000);
      expectInOrder(again(), events);
      expect(receiver.faults).toEqual([]);
    } finally {
      await receiver.stop();
    }
  }, 240_000);

  it('goes on by itself after a kill -9 of the edge while five posts have no answer yet [C-12.4]', async () => {
    const isHeld = Promise.withResolvers<undefined>();
    const receiver = await WebhookReceiver.start();
    try {
      const { key, id } = await subscribed(receiver);
      const vhost = await VhostCaller.of(stack, key.id);
      // After a pause only one event is under way; its delivery shows that the receiver is there.
      await vhost.events('alarm', 1, 10);
      await eventually(() => receiver.events.length === 1 || undefined);
      await allDelivered(id);
      receiver.script = () => isHeld.promise;
      await vhost.events('alarm', 20, 10);
      const started = 1 + LIMIT.webhookPosts;
      await eventually(() => receiver.events.length >= started || undefined);
      // What begins later than these would have begun by now.
      expect((await routes().item(id)).delivery?.failures).toBe(0);
      expect(receiver.events).toHaveLength(started);
      await stack.killEdge();
      isHeld.resolve(undefined);
      // Nobody calls the Vhost: the deadline of an attempt wakes it.
      await eventually(() => once(receiver.events).length >= 21 || undefined, 60_000);
      expectInOrder(receiver.events, await polled(stack, key.key));
      expect(receiver.faults).toEqual([]);
    } finally {
      isHeld.resolve(undefined);
      await receiver.stop();
    }
  }, 120_000);

  it('gets what happened while its receiver was stopped, as soon as it is enabled [C-12.4]', async () => {
    const receiver = await WebhookReceiver.start();
    try {
      const { key, id } = await subscribed(receiver);
      const vhost = await VhostCaller.of(stack, key.id);
      await vhost.events('alarm', 10, 10);
      await eventually(() => receiver.events.length >= 10 || undefined);
      await receiver.stop();
      await vhost.events('alarm', 30, 10);
      const { delivery } = await eventually(async () => {
        const item = await routes().item(id);
        return (item.delivery?.failures ?? 0) > 0 ? item : undefined;
      });
      const waiting = (delivery?.lastSequence ?? 0) - (delivery?.deliveredUpTo ?? 0);
      expect(waiting).toBe(30);
      expect(delivery?.nextAttemptAt).not.toBeNull();
      await vhost.events('alarm', 30, 10);
      expect(receiver.events).toHaveLength(10);

      await receiver.listen();
      const enabled = await routes().enable(id);
      expect(enabled.status).toBe('ENABLED');
      const events = await polled(stack, key.key);
      expect(events).toHaveLength(70);
      await eventually(() => once(receiver.events).length >= 70 || undefined);
      expectInOrder(receiver.events, events);
      expect(receiver.faults).toEqual([]);
      await allDelivered(id);
    } finally {
      await receiver.stop();
    }
  }, 60_000);

  it('whose receiver answers with control characters is delivered, and its state is stored [C-12.4]', async () => {
    // Each of these characters takes six in the JSON of the attempt.
    const answer = { status: 200, body: '\u0000'.repeat(2_000) };
    const receiver = await WebhookReceiver.start(({ type }) =>
      type === 'webhook.verify' ? undefined : answer,
    );
    try {
      const { key, id } = await subscribed(receiver);
      const vhost = await VhostCaller.of(stack, key.id);
      for (let sent = 0; sent < 600; sent += 100) await vhost.events('alarm', 100, 10);
      await eventually(() => once(receiver.events).length >= 600 || undefined, 30_000);
      await allDelivered(id);
      const attempts = await routes().attempts(id);
      expect(attempts).toHaveLength(LIMIT.webhookAttemptsKept);
      expect(attempts[0]?.answer).toBe('\u0000'.repeat(LIMIT.webhookAnswerBytes));
      // Its answer says that the state is stored, so nothing comes again.
      await routes().enable(id);
      expect(receiver.events).toHaveLength(600);
      await stack.restartEdge();
      await allDelivered(id);
      expect(receiver.events).toHaveLength(600);
    } finally {
      await receiver.stop();
    }
  }, 120_000);
});
