/**
 * A device's rate limit for messages and bytes: over it the bridge must wait, and nothing is stored or
 * dropped.
 */

import { connectDevice, type DeviceTestLink } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { MINUTE, SECOND, setClock } from '#workerd/site-clock.ts';
import { connectTo, type DeviceCredential, droppedOf, publish, rawTelemetry } from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { journalLines } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, siteOf } from '#workerd/world.ts';
import type { DeviceLinkDown, DeviceLinkUp } from '../../../../protocol/link/device.ts';

const RATE = 20;
const BURST = 200;
const BURST_BYTES = 1024 * 1024;
const MINUTE_BYTES = 1024 * 1024;

type Wait = Extract<DeviceLinkDown, { kind: 'wait' }>;

/** A plant whose organization has the default rate, unless changed. */
async function newRatedSite(settings: Record<string, unknown> = {}) {
  return await setScene({ settings: { deviceRatePerSecond: RATE, ...settings }, gateway: 'connected' });
}

/**
 * Sends payloads with their index as sequence number. Returns the answers by index, once each is answered.
 */
async function offer(
  link: DeviceTestLink,
  payloads: readonly string[],
  firstSeq = 0,
): Promise<DeviceLinkDown[]> {
  const answered = link.received.length;
  const frames = payloads.map(
    (payload, index) => ({ kind: 'publish', seq: firstSeq + index, topic: 'telemetry', payload }) as const,
  );
  for (let at = 0; at < frames.length; at += 250) link.send(...frames.slice(at, at + 250));
  const answerOf = (seq: number) => (frame: DeviceLinkDown) =>
    'seqs' in frame ? frame.seqs.includes(seq) : frame.kind === 'refused' && frame.seq === seq;
  return await Promise.all(
    frames.map(({ seq }) =>
      link.next((frame) => link.received.indexOf(frame) >= answered && answerOf(seq)(frame)),
    ),
  );
}

function numbered(gateway: DeviceCredential, count: number): string[] {
  return Array.from({ length: count }, (_none, index) =>
    rawTelemetry(gateway, { data: `{"gridPowerKw":${index}}` }),
  );
}

/**
 * Acts as a bridge: holds waiting payloads and resends them as instructed until all are stored. Returns the
 * time it took.
 */
async function obey(link: DeviceTestLink, payloads: readonly string[]): Promise<number> {
  const beganMs = Date.now();
  let held = payloads.map((payload, seq) => ({ seq, payload }));
  let order: Wait | undefined;
  while (held.length > 0) {
    const now = order ? held.slice(0, order.count) : held;
    order = undefined;
    const stored = new Set<number>();
    for (let at = 0; at < now.length; at += 250) {
      const frames = now
        .slice(at, at + 250)
        .map(({ seq, payload }): DeviceLinkUp => ({ kind: 'publish', seq, topic: 'telemetry', payload }));
      const before = link.received.length;
      link.send(...frames);
      const seen = (seq: number) => (frame: DeviceLinkDown) => 'seqs' in frame && frame.seqs.includes(seq);
      for (const { seq } of now.slice(at, at + 250)) {
        const answer = await link.next((frame) => link.received.indexOf(frame) >= before && seen(seq)(frame));
        if (answer.kind === 'stored') stored.add(seq);
        else if (answer.kind === 'wait') order = answer;
      }
    }
    held = held.filter(({ seq }) => !stored.has(seq));
    order ??= { kind: 'wait', seqs: [], ms: 1, count: held.length };
    if (held.length > 0) setClock(Date.now() + order.ms);
  }
  return Date.now() - beganMs;
}

describe('a device over its message rate', () => {
  it('the first 200 messages of a burst are stored, the bridge must hold all others, and the oldest of them are stored next [C-3.8]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    const messages = numbered(gateway, BURST + 50);
    const answers = await offer(link, messages);
    const kinds = answers.map((answer) => answer.kind);
    expect(kinds.slice(0, BURST)).toEqual(Array(BURST).fill('stored'));
    expect(kinds.slice(BURST)).toEqual(Array(50).fill('wait'));
    const wait = answers.at(-1) as Wait;
    expect(wait.ms).toBeGreaterThan(0);
    expect(wait.count).toBeGreaterThan(0);
    // The number of messages to resend is at most what the rate allows after the wait.
    expect((wait.count / wait.ms) * SECOND).toBeLessThanOrEqual(RATE);
    expect(await journalLines(plant.id)).toBe(BURST);
    expect(await gridPowerKw(plant)).toBe(BURST - 1);
    // The bridge resends all held messages: only the oldest are stored.
    setClock(Date.now() + wait.ms);
    const again = (await offer(link, messages.slice(BURST), BURST)).map((answer) => answer.kind);
    expect(again.slice(0, wait.count)).toEqual(Array(wait.count).fill('stored'));
    expect(again.slice(wait.count)).toEqual(Array(50 - wait.count).fill('wait'));
    expect(await gridPowerKw(plant)).toBe(BURST + wait.count - 1);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
    expect(link.closed).toBeUndefined();
  });

  it('all messages over the rate are stored once each, at the rate, if the bridge waits as instructed [C-3.8]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    const tookMs = await obey(link, numbered(gateway, 700));
    expect(tookMs).toBeGreaterThanOrEqual(((700 - BURST - 1) / RATE) * SECOND);
    expect(tookMs).toBeLessThanOrEqual(2 * ((700 - BURST) / RATE) * SECOND);
    expect(await journalLines(plant.id)).toBe(700);
    expect(await gridPowerKw(plant)).toBe(699);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
  });

  it('a message over the rate writes nothing, so that its nonce stays unused [C-3.8]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    await offer(link, numbered(gateway, BURST));
    const late = rawTelemetry(gateway, { data: '{"fvePowerKw":5}' });
    const { rowsWritten } = await siteOf(plant.id).diagnostics(gateway.id);
    const [answer] = await offer(link, [late], 1_000);
    expect(answer?.kind).toBe('wait');
    expect((await siteOf(plant.id).diagnostics(gateway.id)).rowsWritten).toBe(rowsWritten);
    setClock(Date.now() + (answer as Wait).ms);
    expect((await offer(link, [late], 1_000))[0]?.kind).toBe('stored');
    expect(await journalLines(plant.id)).toBe(BURST + 1);
  });

  it('malformed and wrongly signed messages count toward the rate too [C-3.8]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    const garbage = Array.from({ length: BURST + 20 }, (_none, index) =>
      index % 2 ? 'garbage' : rawTelemetry(gateway, { data: '{"a":1}', sig: '0'.repeat(64) }),
    );
    const answers = await offer(link, garbage);
    expect(answers.filter((answer) => answer.kind === 'wait')).toHaveLength(20);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ MALFORMED: BURST / 2, SIGNATURE: BURST / 2 });
  });

  it('a device over its rate does not delay another device of its plant [C-3.8]', async () => {
    const { organization, plant, gateway, link } = await newRatedSite();
    const sensor = await createDevice(organization, plant.id, 'SENSOR');
    const other = await connectTo(plant.id, sensor.id);
    await offer(link, numbered(gateway, BURST + 1));
    expect(await publish(other, rawTelemetry(sensor, { data: '{"powerKw":1}' }))).toBe(true);
  });

  it('a device has one full burst again after a minute of silence, and not more [C-3.8]', async () => {
    const { gateway, link } = await newRatedSite();
    await offer(link, numbered(gateway, BURST));
    setClock(Date.now() + MINUTE);
    const answers = await offer(link, numbered(gateway, BURST + 1), 1_000);
    expect(answers.filter((answer) => answer.kind === 'stored')).toHaveLength(BURST);
  });

  it('a new session does not give a device a new burst [C-3.8]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    await offer(link, numbered(gateway, BURST));
    const again = await connectDevice(plant, { bridge: 'bridge-2' });
    expect((await offer(again, numbered(gateway, 5))).map((answer) => answer.kind)).toEqual(
      Array(5).fill('wait'),
    );
  });

  it('the rate of a device is the setting of its organization [C-1.1]', async () => {
    const { gateway, link } = await newRatedSite({ deviceRatePerSecond: 1_000 });
    const answers = await offer(link, numbered(gateway, 200));
    setClock(Date.now() + SECOND);
    answers.push(...(await offer(link, numbered(gateway, 1_000), 1_000)));
    expect(answers.filter((answer) => answer.kind === 'stored').length).toBeGreaterThanOrEqual(1_000);
  });
});

/** Offers one message as instructed, for at most five minutes: after that it is too old to be accepted. */
async function offerUntilStored(link: DeviceTestLink, payload: string, seq: number) {
  const giveUpAtMs = Date.now() + 5 * MINUTE;
  for (let offers = 1; ; offers++) {
    const [answer] = await offer(link, [payload], seq);
    if (!answer) throw new Error('no answer');
    if (answer.kind !== 'wait' || Date.now() >= giveUpAtMs) return { answer, offers };
    setClock(Date.now() + answer.ms);
  }
}

describe('a device over its byte rate', () => {
  const MESSAGE = 100_000;
  const large = (gateway: DeviceCredential, count: number) =>
    Array.from({ length: count }, (_none, index) =>
      rawTelemetry(gateway, { data: `{"gridPowerKw":${index}}`, nonce: `n-${index}` }).replace(
        /}$/,
        `${' '.repeat(MESSAGE)}}`,
      ),
    );

  it('large messages must wait after a megabyte, although they are few [rule 9]', async () => {
    const { gateway, link } = await newRatedSite();
    const answers: DeviceLinkDown[] = [];
    for (const [index, payload] of large(gateway, 15).entries())
      answers.push(...(await offer(link, [payload], index)));
    const stored = answers.filter((answer) => answer.kind === 'stored');
    expect(stored.length).toBe(Math.floor(BURST_BYTES / MESSAGE));
    expect(answers.filter((answer) => answer.kind === 'wait')).toHaveLength(15 - stored.length);
  });

  it('a message that follows a held message of the same device is held too, so that none overtakes [rule 9]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    const behind = rawTelemetry(gateway, { data: '{"fvePowerKw":1}' });
    const big = large(gateway, 12);
    for (const [index, payload] of big.slice(0, 10).entries()) await offer(link, [payload], index);
    const [first, second] = await offer(link, [big[10] ?? '', behind], 10);
    expect([first?.kind, second?.kind]).toEqual(['wait', 'wait']);
    expect(await journalLines(plant.id)).toBe(10);
  });

  it('after the first megabyte, large messages are stored at a megabyte a minute, and all in the end [rule 9]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    const beganMs = Date.now();
    for (const [index, payload] of large(gateway, 25).entries()) {
      const { answer } = await offerUntilStored(link, payload, index);
      expect([index, answer.kind]).toEqual([index, 'stored']);
    }
    const minutes = (Date.now() - beganMs) / MINUTE;
    expect(minutes).toBeGreaterThanOrEqual((25 * MESSAGE - BURST_BYTES) / MINUTE_BYTES - 0.1);
    expect(minutes).toBeLessThanOrEqual(2 * ((25 * MESSAGE - BURST_BYTES) / MINUTE_BYTES) + 0.1);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
  });

  it('the largest message that a listener accepts is stored eventually: none waits for ever [rule 9]', async () => {
    const { plant, gateway, link } = await newRatedSite({ deviceRatePerSecond: 1 });
    for (let round = 0; round < 12; round++) {
      const reading = rawTelemetry(gateway, { data: `{"gridPowerKw":${round}}` });
      const { answer } = await offerUntilStored(
        link,
        reading.replace(/}$/, `${' '.repeat(127 * 1024)}}`),
        round,
      );
      expect([round, answer.kind]).toEqual([round, 'stored']);
    }
    expect(await gridPowerKw(plant)).toBe(11);
  });

  it('a bridge that waits as instructed offers a message at most three times on average [rule 9]', async () => {
    const { gateway, link } = await newRatedSite();
    let offers = 0;
    for (const [index, payload] of large(gateway, 20).entries()) {
      offers += (await offerUntilStored(link, payload, index)).offers;
    }
    expect(offers).toBeLessThanOrEqual(3 * 20);
  });
});
