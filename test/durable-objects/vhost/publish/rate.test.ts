/**
 * The publish rate of a key: publishes over it wait at the bridge, nothing is dropped, and emergencies pass
 * [C-6.5].
 */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { range } from '#workerd/outbox-events.ts';
import { commandLog, type Partner, type PublishQuestion } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import type { Wait } from '../../../../protocol/link/frame.ts';

/** [C-6.5] */
const PER_SECOND = 50;
const BURST = 200;
/** More than the bridge ever sends in one message. */
const IN_ONE_MESSAGE = 250;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] });
});

/** A plant, and a key with a client. The registry is already read. */
async function openPublisher(settings = { publishRatePerSecond: PER_SECOND }) {
  const scene = await setScene({ settings, plant: true, partner: 'connected' });
  const connect = async () => {
    const partner = await scene.connect();
    await partner.ask(partner.command(crypto.randomUUID(), 'emergency', { type: 'STOP' }));
    return partner;
  };
  return { ...scene, connect, partner: await connect() };
}

/** The cheapest publishes for a site: it rejects their payload, and still records them. */
function cheap(partner: Partner, siteId: string, count: number): PublishQuestion[] {
  return Array.from({ length: count }, () => partner.command(siteId, 'site-setpoint', {}));
}

/** The waits so far, in order. */
function waitsOf(partner: Partner): Wait[] {
  return partner.link.received.filter((frame) => frame.kind === 'wait');
}

/** Sequences that are confirmed so far, in order. */
function storedSeqs(partner: Partner): number[] {
  return partner.link.received.flatMap((frame) => (frame.kind === 'stored' ? frame.seqs : []));
}

/**
 * Sends one message with publishes under sequences `from`, `from + 1`, … Returns once each was answered: stored,
 * unstored, or to wait.
 */
async function publishAll(partner: Partner, publishes: readonly PublishQuestion[], from = 1): Promise<void> {
  const { link } = partner;
  link.send(...publishes.map((publish, index) => ({ ...publish, seq: from + index })));
  await link.next((frame) => {
    if (frame !== link.received.at(-1)) return false;
    const answered = new Set(link.received.flatMap((one) => ('seqs' in one ? one.seqs : [])));
    return range(from, publishes.length).every((seq) => answered.has(seq));
  });
}

/**
 * Checks that the number of accepted publishes after a time is the rate or slightly more, because the object
 * decides when a publish arrives.
 */
function expectPace(wait: { ms: number; count: number } | undefined, perSecond: number): void {
  const pace = ((wait?.count ?? 0) * 1_000) / (wait?.ms ?? 1);
  expect(pace).toBeGreaterThanOrEqual(perSecond);
  expect(pace).toBeLessThanOrEqual(1.25 * perSecond);
}

/**
 * Acts like a bridge with held publishes: sends `count` of them, oldest first, every `ms`. Returns how many
 * rounds it took.
 */
async function sendAgain(
  partner: Partner,
  publishes: readonly PublishQuestion[],
  first: number,
): Promise<number> {
  for (let rounds = 0; ; rounds++) {
    const stored = new Set(storedSeqs(partner));
    const held = range(first, publishes.length).filter((seq) => !stored.has(seq));
    const wait = waitsOf(partner).at(-1);
    if (held.length === 0 || !wait) return rounds;
    vi.setSystemTime(Date.now() + wait.ms);
    const again = held.slice(0, wait.count);
    const before = waitsOf(partner).length;
    partner.link.send(...again.map((seq) => ({ ...(publishes[seq - first] as PublishQuestion), seq })));
    await vi.waitFor(() => {
      const waits = waitsOf(partner).slice(before);
      const answered = new Set([...storedSeqs(partner), ...waits.flatMap(({ seqs }) => seqs)]);
      expect(again.filter((seq) => !answered.has(seq))).toEqual([]);
    });
  }
}

describe('a key that publishes faster than its rate', () => {
  it('has its first 200 publishes accepted; the bridge must hold the others and resend them at the rate [C-6.5]', async () => {
    const { plant, partner } = await openPublisher();
    await publishAll(partner, cheap(partner, plant.id, IN_ONE_MESSAGE));
    expect(storedSeqs(partner).filter((seq) => seq <= IN_ONE_MESSAGE)).toEqual(range(1, BURST));
    const waits = waitsOf(partner);
    expect(waits.flatMap(({ seqs }) => seqs)).toEqual(range(BURST + 1, IN_ONE_MESSAGE - BURST));
    for (const { ms, count } of waits) {
      expect([ms, count].every((number) => Number.isInteger(number) && number > 0)).toBe(true);
      expectPace({ ms, count }, PER_SECOND);
    }
    expect((await commandLog(plant.id)).total).toBe(BURST);
  });

  it('has each publish recorded once, in order, when its bridge resends them at the rate [C-6.5]', async () => {
    const { plant, partner } = await openPublisher();
    const publishes = cheap(partner, plant.id, IN_ONE_MESSAGE);
    const startedAtMs = Date.now();
    await publishAll(partner, publishes);
    expect(await sendAgain(partner, publishes, 1)).toBeGreaterThan(0);
    const secondsTaken = (Date.now() - startedAtMs) / 1_000;
    expect(secondsTaken).toBeGreaterThanOrEqual((IN_ONE_MESSAGE - BURST) / PER_SECOND - 0.1);
    expect(secondsTaken).toBeLessThanOrEqual((IN_ONE_MESSAGE - BURST) / PER_SECOND + 1);
    const { total, items } = await commandLog(plant.id);
    expect(total).toBe(IN_ONE_MESSAGE);
    const newest = publishes.slice(-items.length).map(({ body }) => JSON.parse(body).messageId);
    expect(items.map(({ messageId }) => messageId).toReversed()).toEqual(newest);
  });

  it('has an emergency accepted while its other publishes are held [C-6.5]', async () => {
    const { plant, partner } = await openPublisher();
    await publishAll(partner, cheap(partner, plant.id, IN_ONE_MESSAGE));
    for (let count = 0; count < 5; count++) {
      const emergency = partner.command(plant.id, 'emergency', { type: 'STOP' });
      expect(await partner.ask(emergency)).toMatchObject({ kind: 'stored' });
    }
    expect((await commandLog(plant.id)).items.slice(0, 5)).toMatchObject(
      Array(5).fill({ commandType: 'EMERGENCY' }),
    );
  });

  it('has its full burst after a hundred emergencies, which do not count [C-6.5]', async () => {
    const { plant, partner } = await openPublisher();
    const emergencies = Array.from({ length: 100 }, () =>
      partner.command(plant.id, 'emergency', { type: 'STOP' }),
    );
    await publishAll(partner, emergencies);
    await publishAll(partner, cheap(partner, plant.id, BURST), 101);
    expect(waitsOf(partner)).toEqual([]);
  });

  it('has one rate for all its connections together, and does not limit another key [C-6.5]', async () => {
    const { organization, plant, partner, connect } = await openPublisher();
    const second = await connect();
    const third = await setScene({ organization, partner: 'connected' });
    const other = await third.connect();
    const all = [partner, second, other];
    await Promise.all(all.map((one) => publishAll(one, cheap(one, plant.id, 150))));
    const taken = [partner, second].flatMap(storedSeqs).filter((seq) => seq <= 150);
    expect(taken).toHaveLength(BURST);
    expect(waitsOf(other)).toEqual([]);
  });

  it('has its malformed publishes limited, too: only its burst reaches the dead-letter queue [C-6.5]', async () => {
    const { partner } = await openPublisher();
    const malformed = { ...partner.command('x', 'mode', {}), body: 'not JSON' };
    await publishAll(partner, Array(IN_ONE_MESSAGE).fill(malformed));
    expect(await partner.readyCount('dead-letter')).toBe(BURST);
  });

  it("is limited by its organization's setting [C-1.1]", async () => {
    const { plant, partner } = await openPublisher({ publishRatePerSecond: 10 });
    await publishAll(partner, cheap(partner, plant.id, IN_ONE_MESSAGE));
    const [wait] = waitsOf(partner);
    expectPace(wait, 10);
  });

  it('has its full burst again after 50 seconds of silence, and not more [C-6.5]', async () => {
    const { plant, partner } = await openPublisher();
    const publishes = cheap(partner, plant.id, IN_ONE_MESSAGE);
    await publishAll(partner, publishes);
    await sendAgain(partner, publishes, 1);
    vi.setSystemTime(Date.now() + 50_000);
    await publishAll(partner, cheap(partner, plant.id, IN_ONE_MESSAGE), 5_001);
    expect(storedSeqs(partner).filter((seq) => seq > 5_000)).toHaveLength(BURST);
  });
});
