/** A device's budget of messages and bytes: over it the bridge is told to wait, nothing is stored and nothing dropped. */
import { describe, expect, it } from 'vitest';
import { connectDevice, type DeviceTestLink } from '#workerd/links.ts';
import { holdClock, MINUTE, SECOND, setClock } from '#workerd/site-clock.ts';
import { connectTo, type DeviceCredential, droppedOf, publish, rawTelemetry } from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { journalLines } from '#workerd/site-rows.ts';
import { createDevice, createOrganization, createPlant, siteOf } from '#workerd/world.ts';
import type { DeviceLinkDown, DeviceLinkUp } from '../../../../protocol/link/device.ts';

holdClock();

const RATE = 20;
const BURST = 200;
const BURST_BYTES = 1024 * 1024;
const MINUTE_BYTES = 1024 * 1024;

type Wait = Extract<DeviceLinkDown, { kind: 'wait' }>;

/** A plant whose organization keeps to the rate that is the default, unless told otherwise. */
async function newRatedSite(settings: Record<string, unknown> = {}, link = 2) {
  const organization = await createOrganization({ deviceRatePerSecond: RATE, ...settings });
  const plant = await createPlant(organization);
  return { organization, plant, gateway: plant.gateway, link: await connectDevice(plant, { link }) };
}

/** Sends payloads, each under its index, and waits until each is answered; the answers, by index. */
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

/** A bridge: keeps what is to wait and sends it again as it is told, until all is stored. Returns how long that took. */
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

describe('a device over its rate of messages', () => {
  it('has its burst of 200 stored and is told to wait with the rest, in order: the oldest first [C-3.8]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    const answers = await offer(link, numbered(gateway, BURST + 50));
    const kinds = answers.map((answer) => answer.kind);
    expect(kinds.slice(0, BURST)).toEqual(Array(BURST).fill('stored'));
    expect(kinds.slice(BURST)).toEqual(Array(50).fill('wait'));
    const wait = answers.at(-1) as Wait;
    expect(wait.ms).toBeGreaterThan(0);
    expect(wait.count).toBeGreaterThan(0);
    // What it is told to send again is what its rate will then hold.
    expect((wait.count / wait.ms) * SECOND).toBeLessThanOrEqual(RATE);
    expect(await journalLines(plant.id)).toBe(BURST);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
    expect(link.closed).toBeUndefined();
  });

  it('gets all of it stored in the end, each once, at its rate, when its bridge obeys [C-3.8]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    const tookMs = await obey(link, numbered(gateway, 700));
    expect(tookMs).toBeGreaterThanOrEqual(((700 - BURST - 1) / RATE) * SECOND);
    expect(tookMs).toBeLessThanOrEqual(2 * ((700 - BURST) / RATE) * SECOND);
    expect(await journalLines(plant.id)).toBe(700);
    expect(await gridPowerKw(plant)).toBe(699);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
  });

  it('is judged before anything is stored: no row, and its nonce is free for the same message later [C-3.8]', async () => {
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

  it('is so by whatever it sends: what is malformed or wrongly signed counts too [C-3.8]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    const garbage = Array.from({ length: BURST + 20 }, (_none, index) =>
      index % 2 ? 'garbage' : rawTelemetry(gateway, { data: '{"a":1}', sig: '0'.repeat(64) }),
    );
    const answers = await offer(link, garbage);
    expect(answers.filter((answer) => answer.kind === 'wait')).toHaveLength(20);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ MALFORMED: BURST / 2, SIGNATURE: BURST / 2 });
  });

  it('does not hold up another device of its plant [C-3.8]', async () => {
    const { organization, plant, gateway, link } = await newRatedSite();
    const sensor = await createDevice(organization, plant.id, 'SENSOR');
    const other = await connectTo(plant.id, sensor.id);
    await offer(link, numbered(gateway, BURST + 1));
    expect(await publish(other, rawTelemetry(sensor, { data: '{"powerKw":1}' }))).toBe(true);
  });

  it('has a full burst again after ten seconds of silence, and never more [C-3.8]', async () => {
    const { gateway, link } = await newRatedSite();
    await offer(link, numbered(gateway, BURST));
    setClock(Date.now() + MINUTE);
    const answers = await offer(link, numbered(gateway, BURST + 1), 1_000);
    expect(answers.filter((answer) => answer.kind === 'stored')).toHaveLength(BURST);
  });

  it('has no new burst from another session [C-3.8]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    await offer(link, numbered(gateway, BURST));
    const again = await connectDevice(plant, { bridge: 'bridge-2' });
    expect((await offer(again, numbered(gateway, 5))).map((answer) => answer.kind)).toEqual(
      Array(5).fill('wait'),
    );
  });

  it('keeps to the setting of its organization [C-1.1]', async () => {
    const { gateway, link } = await newRatedSite({ deviceRatePerSecond: 1_000 });
    const answers = await offer(link, numbered(gateway, 200));
    setClock(Date.now() + SECOND);
    answers.push(...(await offer(link, numbered(gateway, 1_000), 1_000)));
    expect(answers.filter((answer) => answer.kind === 'stored').length).toBeGreaterThanOrEqual(1_000);
  });
});

/** Offers one message as its bridge is told to, for five minutes at most: behind that it is too old to be taken. */
async function offerUntilStored(link: DeviceTestLink, payload: string, seq: number) {
  const giveUpAtMs = Date.now() + 5 * MINUTE;
  for (let offers = 1; ; offers++) {
    const [answer] = await offer(link, [payload], seq);
    if (!answer) throw new Error('no answer');
    if (answer.kind !== 'wait' || Date.now() >= giveUpAtMs) return { answer, offers };
    setClock(Date.now() + answer.ms);
  }
}

describe('a device over its rate of bytes', () => {
  const MESSAGE = 100_000;
  const large = (gateway: DeviceCredential, count: number) =>
    Array.from({ length: count }, (_none, index) =>
      rawTelemetry(gateway, { data: `{"gridPowerKw":${index}}`, nonce: `n-${index}` }).replace(
        /}$/,
        `${' '.repeat(MESSAGE)}}`,
      ),
    );

  it('is told to wait after a megabyte, though it sends little by number [rule 9]', async () => {
    const { gateway, link } = await newRatedSite();
    const answers: DeviceLinkDown[] = [];
    for (const [index, payload] of large(gateway, 15).entries())
      answers.push(...(await offer(link, [payload], index)));
    const stored = answers.filter((answer) => answer.kind === 'stored');
    expect(stored.length).toBe(Math.floor(BURST_BYTES / MESSAGE));
    expect(answers.filter((answer) => answer.kind === 'wait')).toHaveLength(15 - stored.length);
  });

  it('is overtaken by nothing of its own: what comes behind one that waits waits too [rule 9]', async () => {
    const { plant, gateway, link } = await newRatedSite();
    const behind = rawTelemetry(gateway, { data: '{"fvePowerKw":1}' });
    const big = large(gateway, 12);
    for (const [index, payload] of big.slice(0, 10).entries()) await offer(link, [payload], index);
    const [first, second] = await offer(link, [big[10] ?? '', behind], 10);
    expect([first?.kind, second?.kind]).toEqual(['wait', 'wait']);
    expect(await journalLines(plant.id)).toBe(10);
  });

  it('is stored a megabyte a minute from then on, and all of it in the end [rule 9]', async () => {
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

  it('can always send the largest message that a listener lets through: none is stuck for ever [rule 9]', async () => {
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

  it('is not asked for the same bytes over and over while it waits [rule 9]', async () => {
    const { gateway, link } = await newRatedSite();
    let offers = 0;
    for (const [index, payload] of large(gateway, 20).entries()) {
      offers += (await offerUntilStored(link, payload, index)).offers;
    }
    expect(offers).toBeLessThanOrEqual(3 * 20);
  });
});
