/**
 * A publish that was answered basic.nack is never recorded later, and a retried publish counts once [C-6.4].
 */
import { runDurableObjectAlarm } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { commandLog, eventOf, type Partner } from '#workerd/partner.ts';
import { ACKS, setScene } from '#workerd/scene.ts';
import { SiteCalls } from '#workerd/site-calls.ts';
import { vhostAlarmAt } from '#workerd/site-clock.ts';
import { vhostOf } from '#workerd/world.ts';
import { LIMIT } from '../../../../protocol/limits.ts';

interface Dated {
  notAfterMs?: number;
}
interface Named {
  publishId?: string;
}

async function openReader() {
  const { scene, partner } = await setScene({ plant: true, consumes: ACKS });
  // The registry is already read, so the test waits only for the site.
  await partner.ask(partner.command(crypto.randomUUID(), 'emergency', { type: 'STOP' }));
  return { ...scene, calls: SiteCalls.watch() };
}

/** The deadline of each call so far, until which its publishes may be recorded. */
function deadlines(calls: SiteCalls, siteId: string): (number | undefined)[] {
  return calls.of(siteId).map((batch) => (batch as unknown as Dated).notAfterMs);
}

function mode(partner: Partner, siteId: string) {
  return partner.command(siteId, 'mode', { mode: 'STANDARD' });
}

describe('a call to a site', () => {
  it('states the deadline of its publishes, which is not later than the Vhost waits for them [C-6.4]', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { siteId, partner, calls } = await openReader();
    const sentAtMs = Date.now();
    await partner.askAll(mode(partner, siteId), mode(partner, siteId));
    const [notAfterMs] = deadlines(calls, siteId);
    expect(notAfterMs).toBeGreaterThan(sentAtMs);
    expect(notAfterMs).toBeLessThanOrEqual(sentAtMs + LIMIT.confirmMs);
  });

  it('still states the deadline of its oldest publish while it waits for another call [C-6.4]', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { siteId, partner, calls } = await openReader();
    const release = calls.hold(siteId);
    const first = partner.ask(mode(partner, siteId));
    await calls.arrived(siteId, 1);
    const waitingSinceMs = Date.now();
    const second = partner.ask(mode(partner, siteId));
    await partner.quiet();
    vi.setSystemTime(waitingSinceMs + 3_000);
    const third = partner.ask(mode(partner, siteId));
    await partner.quiet();
    release();
    expect(await Promise.all([first, second, third])).toMatchObject(Array(3).fill({ kind: 'stored' }));
    const [, notAfterMs] = deadlines(calls, siteId);
    expect(notAfterMs).toBeLessThanOrEqual(waitingSinceMs + LIMIT.confirmMs);
  });

  it('records nothing if it arrives after its deadline, and its publishes are answered unstored [C-6.4]', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { siteId, partner, calls } = await openReader();
    calls.before(siteId, (_batch, call) => {
      if (call === 1) vi.setSystemTime(Date.now() + LIMIT.confirmMs + 1);
    });
    const answers = await partner.askAll(mode(partner, siteId), mode(partner, siteId));
    expect(answers.map(({ kind }) => kind)).toEqual(['unstored', 'unstored']);
    expect((await commandLog(siteId)).total).toBe(0);
  });

  it('records nothing if the Vhost abandons it at its deadline and it arrives later [C-6.4]', async () => {
    const { key, siteId, partner, calls } = await openReader();
    vi.useFakeTimers({ toFake: ['Date'] });
    const release = calls.hold(siteId);
    const given = partner.ask(mode(partner, siteId));
    await calls.arrived(siteId, 1);
    expect(await vhostAlarmAt(key)).toBeLessThanOrEqual(Date.now() + LIMIT.confirmMs);
    vi.setSystemTime(Date.now() + LIMIT.confirmMs + 1);
    await runDurableObjectAlarm(vhostOf(key.id));
    expect(await given).toMatchObject({ kind: 'unstored' });
    release();
    const later = mode(partner, siteId);
    expect(await partner.ask(later)).toMatchObject({ kind: 'stored' });
    const { items } = await commandLog(siteId);
    expect(items.map(({ messageId }) => messageId)).toEqual([JSON.parse(later.body).messageId]);
  });
});

describe('a publish that is retried', () => {
  it('keeps one publishId over all attempts, which no other publish has [C-7.3]', async () => {
    const { siteId, partner, calls } = await openReader();
    calls.before(siteId, (_batch, call) => {
      if (call <= 2) throw new Error('the site is away');
    });
    await partner.askAll(...Array.from({ length: 3 }, () => mode(partner, siteId)));
    const names = calls
      .of(siteId)
      .map(({ submissions }) => submissions.map((one) => (one as Named).publishId));
    expect(names).toHaveLength(3);
    expect(new Set(names[0]).size).toBe(3);
    expect(names[0]).not.toContain(undefined);
    for (const again of names) expect(again).toEqual(names[0]);
  });

  it('gets another publishId when its partner publishes it again [C-7.3]', async () => {
    const { siteId, partner, calls } = await openReader();
    const question = mode(partner, siteId);
    await partner.ask(question);
    await partner.ask(question);
    const names = calls.of(siteId).flatMap(({ submissions }) => submissions as Named[]);
    expect(new Set(names.map(({ publishId }) => publishId)).size).toBe(2);
  });

  it('has one acknowledgement and one row in the command log if it is rejected for a forged signature [C-7.3]', async () => {
    const { siteId, partner, calls } = await openReader();
    calls.after(siteId, (_batch, call) => {
      if (call <= 2) throw new Error('the answer was lost');
    });
    const before = partner.deliveries().length;
    const forged = partner.command(siteId, 'mode', { mode: 'STANDARD' }, { signingKey: 'ab'.repeat(32) });
    expect(await partner.ask(forged)).toMatchObject({ kind: 'stored' });
    await partner.quiet();
    const acks = partner.deliveries().slice(before).map(eventOf);
    expect(acks.length).toBeGreaterThan(0);
    expect(new Set(acks.map(({ messageId }) => messageId)).size).toBe(1);
    expect(acks[0]?.payload).toMatchObject({ status: 'REJECTED' });
    expect((await commandLog(siteId)).total).toBe(1);
  });
});
