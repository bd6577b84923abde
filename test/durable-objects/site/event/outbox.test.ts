/**
 * The outbox of a site: an event stays a row until its destination has it, through failures, slowness and
 * wakes (rule 5).
 */
import { runInDurableObject } from 'cloudflare:test';
import { beforeEach, vi } from 'vitest';
import { connectPartner } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { alarmAt, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { connectListening, nthCommand, sendAck } from '#workerd/site-devices.ts';
import { listen } from '#workerd/site-listener.ts';
import { columnOf, evictSite, numberOf } from '#workerd/site-rows.ts';
import { batch, batteryCommand, Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { siteOf } from '#workerd/world.ts';
import type { OutboxEvent, Receipt } from '../../../../durable-objects/rpc.ts';
import { Vhost } from '../../../../durable-objects/vhost.ts';

beforeEach(() => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});

/** A site with one sent device command, whose execution events go to the key's Vhost, where queues exist. */
async function newReportingSite() {
  const { organization, plant, key, partner } = await setScene({ plant: true, key: true });
  await connectPartner(key);
  const link = await connectListening(plant);
  await partner.submit(submission('device', batch(batteryCommand(5))));
  const { cmdId } = await nthCommand(link, 1);
  const ack = (status: 'RECEIVED' | 'COMPLETED') => sendAck(link, plant.gateway, cmdId, status);
  return { organization, plant, key, partner, ack };
}

type Receive = (events: OutboxEvent[]) => Promise<Receipt>;

/**
 * The Vhost answers the events of this site as the test says. Returns the times and events of these calls. Sites of other
 * tests share the runtime: the Vhost answers them as usual.
 */
function receiveInstead(plantId: string, answer?: Receive) {
  const calls: { atMs: number; events: OutboxEvent[] }[] = [];
  const receive = Vhost.prototype.receive;
  const spy = vi.spyOn(Vhost.prototype, 'receive').mockImplementation(async function (
    this: Vhost,
    siteId,
    events,
  ) {
    if (siteId !== plantId) return await receive.call(this, siteId, events);
    calls.push({ atMs: Date.now(), events });
    return await (answer ? answer(events) : receive.call(this, siteId, events));
  });
  return { calls, end: () => spy.mockRestore() };
}

/** The Vhost answers that it has stored nothing. */
function refuseEvents(plantId: string) {
  return receiveInstead(plantId, async () => ({ received: 0, gone: false }));
}

async function passMinutes(siteId: string, minutes: number): Promise<void> {
  for (let minute = 0; minute < minutes; minute++) await passTime(siteId, MINUTE);
}

async function waiting(siteId: string, keyId: string): Promise<number> {
  return await numberOf(siteId, `SELECT count(*) FROM outbox WHERE lane = '${keyId}'`);
}

describe('an event that its Vhost has only in memory', () => {
  it('stays in the outbox, is sent again after a pause, and is deleted when the Vhost reports it received (rule 5)', async () => {
    const { plant, key, ack } = await newReportingSite();
    await passMinutes(plant.id, 1);
    expect(await waiting(plant.id, key.id)).toBe(0);
    let isDelivered = false;
    const { calls } = receiveInstead(plant.id, async (events) => {
      const seen = events.at(-1)?.sequence ?? 0;
      return isDelivered ? { received: seen, gone: false } : { received: 0, seen, gone: false };
    });
    await ack('RECEIVED');
    await ack('COMPLETED');
    const sent = () => calls.flatMap(({ events }) => events.map(({ sequence }) => sequence));
    await vi.waitFor(() => expect(sent()).toHaveLength(2));
    await passTime(plant.id, 4 * SECOND);
    expect(sent()).toHaveLength(2);
    expect(await waiting(plant.id, key.id)).toBe(2);
    await passTime(plant.id, 2 * SECOND);
    await vi.waitFor(() => expect(sent()).toHaveLength(4));
    expect(new Set(sent()).size).toBe(2);
    isDelivered = true;
    await passMinutes(plant.id, 1);
    expect(await waiting(plant.id, key.id)).toBe(0);
  });

  it('is sent again immediately when the Vhost reports after a crash that it does not know the event (rule 5)', async () => {
    const { plant, key, ack } = await newReportingSite();
    await passMinutes(plant.id, 1);
    const { calls } = receiveInstead(plant.id, async (events) => {
      return { received: 0, seen: events.at(-1)?.sequence ?? 0, gone: false };
    });
    await ack('RECEIVED');
    await vi.waitFor(() => expect(calls).toHaveLength(1));
    const died = {
      keyId: key.id,
      keyPrefix: 'acme',
      partnerId: 'partner',
      siteId: plant.id,
      received: 0,
      seen: 0,
    };
    const call = { notAfterMs: Number.MAX_SAFE_INTEGER, isRepeated: false, submissions: [] };
    const { events } = await siteOf(plant.id).submit({ ...died, ...call });
    expect(events.map(({ kind }) => kind)).toEqual(['execution']);
  });
});

describe('an event that its Vhost does not accept', () => {
  it('a rejected event is retried with growing pauses of at most a minute, and arrives once, in order [rule 10]', async () => {
    const { organization, plant, key, ack } = await newReportingSite();
    const { calls, end } = refuseEvents(plant.id);
    await ack('RECEIVED');
    await ack('COMPLETED');
    await passMinutes(plant.id, 6);
    const at = calls.map(({ atMs }) => atMs);
    const pauses = at.slice(1).map((time, index) => time - (at[index] ?? 0));
    expect(pauses.length).toBeGreaterThan(5);
    expect(pauses.length).toBeLessThan(20);
    // Measured from call to call: a call itself may take eight seconds.
    expect(Math.max(...pauses)).toBeLessThanOrEqual(MINUTE + 8 * SECOND);
    expect(pauses.at(-1)).toBeGreaterThan(pauses[2] ?? 0);
    expect(await waiting(plant.id, key.id)).toBeGreaterThanOrEqual(2);

    end();
    await passMinutes(plant.id, 3);
    expect(await waiting(plant.id, key.id)).toBe(0);
    const listener = await listen(organization, key);
    await listener.event('execution', 'COMPLETED');
    expect(listener.statuses('execution')).toEqual(['EXECUTING', 'COMPLETED']);
    expect(listener.statuses('ack')).toEqual(['ACCEPTED']);
  });

  it('more events than fit in memory all arrive once and in order, as do later ones [rule 10]', async () => {
    const { organization, plant, key } = await newReportingSite();
    const { end } = refuseEvents(plant.id);
    const sent: string[] = [];
    const reject = async (count: number) => {
      const submissions = Array.from({ length: count }, () =>
        // Only one error each: all answers together fit into the credit of the client.
        submission('emergency', { type: 'NONSENSE' }),
      );
      sent.push(...submissions.map(({ messageId }) => messageId));
      const sender = {
        siteId: plant.id,
        keyId: key.id,
        keyPrefix: 'sw_',
        partnerId: 'partner',
        received: 0,
        seen: 0,
      };
      const call = { ...sender, notAfterMs: Number.MAX_SAFE_INTEGER, isRepeated: false, submissions };
      await siteOf(plant.id).submit(call);
    };
    for (let call = 0; call < 13; call++) await reject(100);
    expect(await waiting(plant.id, key.id)).toBeGreaterThanOrEqual(1_300);
    end();
    await passMinutes(plant.id, 3);
    await reject(1);
    await passMinutes(plant.id, 1);
    expect(await waiting(plant.id, key.id)).toBe(0);
    const listener = await listen(organization, key);
    await listener.link.next(() =>
      listener.events('ack').some((event) => event.correlationId === sent.at(-1)),
    );
    const rejections = listener.events('ack').filter((event) => event.payload.status === 'REJECTED');
    expect(rejections.map((event) => event.correlationId)).toEqual(sent);
  });

  it('events that a Vhost rejects do not delay the registry lane [rule 10]', async () => {
    const { plant, ack } = await newReportingSite();
    refuseEvents(plant.id);
    await ack('COMPLETED');
    await passMinutes(plant.id, 5);
    expect(await waiting(plant.id, 'registry')).toBe(0);
    const lanes = await columnOf(plant.id, 'SELECT DISTINCT lane FROM outbox');
    expect(lanes).toHaveLength(1);
  });

  it('events for a key that does not exist are deleted [rule 5]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(submission('device', batch(batteryCommand(5))));
    await passMinutes(plant.id, 2);
    expect(await waiting(plant.id, partner.keyId)).toBe(0);
  });
});

describe('an event in the answer of a submit', () => {
  it('an event from a submit answer is deleted once the Vhost reports it stored, and is not sent again [rule 5]', async () => {
    const { plant, key, partner } = await newReportingSite();
    const { calls } = receiveInstead(plant.id);
    const [first] = partner.events;
    expect(await waiting(plant.id, key.id)).toBe(1);
    await partner.submit(submission('device', batch(batteryCommand(6))));
    const left = await columnOf(plant.id, `SELECT sequence FROM outbox WHERE lane = '${key.id}'`);
    expect(left).toEqual([partner.events.at(-1)?.sequence]);
    await passMinutes(plant.id, 1);
    const sent = calls.flatMap(({ events }) => events.map(({ sequence }) => sequence));
    expect(sent).not.toContain(first?.sequence);
    expect(await waiting(plant.id, key.id)).toBe(0);
  });

  it('an event is repeated with the same sequence in the next submit answer until the Vhost reports it stored [rule 5]', async () => {
    const { plant, key } = await newReportingSite();
    const amnesiac = new Submitter(plant.id, key.id);
    const answers = [await siteOf(plant.id).submit(amnesiac.batchOf([]))];
    answers.push(await siteOf(plant.id).submit(amnesiac.batchOf([])));
    expect(answers[0]?.events).toHaveLength(1);
    expect(answers[1]?.events).toEqual(answers[0]?.events);
  });

  it('an event is sent to the Vhost separately if the submit answer was lost [rule 5]', async () => {
    const { organization, plant, key } = await newReportingSite();
    await passTime(plant.id, 10 * SECOND);
    const listener = await listen(organization, key);
    expect((await listener.event('ack', 'ACCEPTED')).siteId).toBe(plant.id);
  });
});

describe('a wake with waiting events', () => {
  it('makes the alarm due immediately, and never sets it for a time of 0 or less [rule 10]', async () => {
    const { plant, key, ack } = await newReportingSite();
    const { end } = refuseEvents(plant.id);
    await ack('RECEIVED');
    await passMinutes(plant.id, 5);
    expect(await waiting(plant.id, key.id)).toBeGreaterThan(0);
    const asked: number[] = [];
    await runInDurableObject(siteOf(plant.id), (_site, state) => {
      const prototype = Object.getPrototypeOf(state.storage) as DurableObjectStorage;
      const setAlarm = prototype.setAlarm;
      vi.spyOn(prototype, 'setAlarm').mockImplementation(function (this: DurableObjectStorage, time) {
        asked.push(Number(time));
        return Number(time) > 0 ? setAlarm.call(this, time) : Promise.resolve();
      });
    });
    await evictSite(plant.id);
    end();
    setClock(Date.now() + SECOND);
    expect(await alarmAt(plant.id)).toBeLessThanOrEqual(Date.now());
    expect(asked.filter((time) => time <= 0)).toEqual([]);
  });
});

describe('a lane with a slow call', () => {
  it('a call without an answer is repeated by the alarm after its deadline, and the event arrives once [rule 10]', async () => {
    const { organization, plant, key, ack } = await newReportingSite();
    const listener = await listen(organization, key);
    const { calls, end } = receiveInstead(plant.id, () => new Promise<never>(() => undefined));
    await ack('RECEIVED');
    await vi.waitFor(() => expect(calls).toHaveLength(1));
    for (let second = 0; second < 30 && calls.length < 2; second++) await passTime(plant.id, SECOND);
    const [first = 0, again = 0] = calls.map(({ atMs }) => atMs);
    expect(again - first).toBeGreaterThanOrEqual(8 * SECOND);
    expect(again - first).toBeLessThanOrEqual(10 * SECOND);
    end();
    for (let second = 0; second < 30; second++) await passTime(plant.id, SECOND);
    expect((await listener.event('execution', 'EXECUTING')).siteId).toBe(plant.id);
    expect(await waiting(plant.id, key.id)).toBe(0);
  });

  it('while a call gets no answer, the alarm runs fewer than five times in a second [rule 10]', async () => {
    const { plant, ack } = await newReportingSite();
    let answer: () => void = () => undefined;
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    receiveInstead(plant.id, async (events) => {
      await answered;
      return { received: events.at(-1)?.sequence ?? 0, gone: false };
    });
    await ack('RECEIVED');
    try {
      setClock(START_MS + 7 * SECOND);
      const runs = await passTime(plant.id, SECOND);
      expect(runs).toBeLessThan(5);
    } finally {
      answer();
    }
  });
});
