/**
 * The lanes of sites: a slow or absent site delays only its own publishes, and nothing is stored twice (rule
 * 4).
 */
import { runInDurableObject } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { commandLog, eventOf, type Partner, type PublishQuestion, setpoint } from '#workerd/partner.ts';
import { ACKS, setScene } from '#workerd/scene.ts';
import { SiteCalls, turn } from '#workerd/site-calls.ts';
import { createOrganization, createPlant, type Plant, siteOf } from '#workerd/world.ts';

/** A partner that reads its acknowledgements, some plants, and the calls of its Vhost to their Sites. */
async function openReader(plantCount: number) {
  const organization = await createOrganization();
  const plants: Plant[] = [];
  for (let index = 0; index < plantCount; index++) plants.push(await createPlant(organization));
  const scene = await setScene({ organization, consumes: ACKS });
  const { partner } = scene;
  // The registry is already read, so the test waits only for the sites.
  await partner.ask(partner.command(crypto.randomUUID(), 'emergency', { type: 'STOP' }));
  const [slow = '', ...others] = plants.map(({ id }) => id);
  const calls = SiteCalls.watch();
  return { ...scene, slow, others, calls };
}

function mode(partner: Partner, siteId: string): PublishQuestion {
  return partner.command(siteId, 'mode', { mode: 'STANDARD' });
}

function emergency(partner: Partner, siteId: string): PublishQuestion {
  return partner.command(siteId, 'emergency', { type: 'STOP' });
}

/** Sequences of the link that were confirmed so far, in order. */
function confirmed(partner: Partner): number[] {
  return partner.link.received.flatMap((frame) => (frame.kind === 'stored' ? frame.seqs : []));
}

describe('a site that does not answer', () => {
  it('delays only the confirms of its own publishes; those of other sites continue (rule 4)', async () => {
    const { partner, slow, others, calls } = await openReader(4);
    const release = calls.hold(slow);
    const held = partner.askAll(mode(partner, slow), mode(partner, slow));
    await calls.arrived(slow, 1);
    for (let round = 0; round < 5; round++) {
      const answers = await partner.askAll(...others.map((siteId) => mode(partner, siteId)));
      expect(answers.map(({ kind }) => kind)).toEqual(['stored', 'stored', 'stored']);
    }
    expect((await commandLog(slow)).total).toBe(0);
    release();
    expect((await held).map(({ kind }) => kind)).toEqual(['stored', 'stored']);
    expect((await commandLog(slow)).total).toBe(2);
  });

  it('does not delay the rest of a batch of frames: each publish is confirmed when its own site answers (rule 4)', async () => {
    const { partner, slow, others, calls } = await openReader(3);
    const release = calls.hold(slow);
    const frames = [slow, ...others, slow, ...others].map((siteId, index) => ({
      ...mode(partner, siteId),
      seq: index + 1,
    }));
    const before = confirmed(partner);
    partner.link.send(...frames);
    await partner.link.next((frame) => frame.kind === 'stored' && frame.seqs.includes(6));
    await partner.link.next((frame) => frame.kind === 'stored' && frame.seqs.includes(5));
    await partner.quiet();
    expect(confirmed(partner).slice(before.length).toSorted()).toEqual([2, 3, 5, 6]);
    release();
    await partner.link.next((frame) => frame.kind === 'stored' && frame.seqs.includes(4));
    expect(confirmed(partner).slice(before.length + 4)).toEqual([1, 4]);
  });

  it('does not delay an emergency, for another site or for itself (rule 4)', async () => {
    const { partner, slow, others, calls } = await openReader(2);
    const release = calls.hold(slow);
    const held = partner.ask(mode(partner, slow));
    await calls.arrived(slow, 1);
    const waiting = partner.ask(mode(partner, slow));
    const answers = await partner.askAll(emergency(partner, others[0] ?? ''), emergency(partner, slow));
    expect(answers.map(({ kind }) => kind)).toEqual(['stored', 'stored']);
    expect((await commandLog(slow)).items).toMatchObject([{ commandType: 'EMERGENCY' }]);
    release();
    expect([await held, await waiting]).toMatchObject([{ kind: 'stored' }, { kind: 'stored' }]);
  });

  it('to an emergency delays neither its next emergency nor its other publishes (rule 4)', async () => {
    const { partner, slow, calls } = await openReader(1);
    let isHeld = true;
    calls.before(slow, async (_batch, call) => {
      while (call === 1 && isHeld) await turn();
    });
    const held = partner.ask(emergency(partner, slow));
    await calls.arrived(slow, 1);
    const answers = await partner.askAll(emergency(partner, slow), mode(partner, slow));
    expect(answers.map(({ kind }) => kind)).toEqual(['stored', 'stored']);
    isHeld = false;
    expect(await held).toMatchObject({ kind: 'stored' });
  });
});

describe('the lane of a site', () => {
  it('has one call in progress; publishes that arrive meanwhile go together in the next call, in order (rule 4)', async () => {
    const { partner, slow, calls } = await openReader(1);
    const release = calls.hold(slow);
    const questions = Array.from({ length: 40 }, () => mode(partner, slow));
    const first = partner.askAll(...questions.slice(0, 10));
    await calls.arrived(slow, 1);
    const later = [questions.slice(10, 20), questions.slice(20, 39), questions.slice(39)].map((some) =>
      partner.askAll(...some),
    );
    await partner.quiet();
    expect(calls.of(slow)).toHaveLength(1);
    release();
    await Promise.all([first, ...later]);
    expect(calls.of(slow).map(({ submissions }) => submissions.length)).toEqual([10, 30]);
    expect(calls.mostUnderWay.get(slow)).toBe(1);
    const messageIds = calls.of(slow).flatMap(({ submissions }) => submissions.map((one) => one.messageId));
    expect(messageIds).toEqual(questions.map(({ body }) => JSON.parse(body).messageId));
  });

  it('is shared by the connections of a key; each connection gets its own confirms (rule 4)', async () => {
    const { partner, connect, slow, calls } = await openReader(1);
    const other = await connect();
    const release = calls.hold(slow);
    const first = partner.ask(mode(partner, slow));
    await calls.arrived(slow, 1);
    partner.link.send({ ...mode(partner, slow), seq: 7 });
    await partner.quiet();
    other.link.send({ ...mode(other, slow), seq: 8 });
    await other.quiet();
    release();
    await first;
    await partner.link.next((frame) => frame.kind === 'stored' && frame.seqs.includes(7));
    await other.link.next((frame) => frame.kind === 'stored' && frame.seqs.includes(8));
    expect(calls.of(slow).map(({ submissions }) => submissions.length)).toEqual([1, 2]);
    expect(confirmed(partner)).not.toContain(8);
    expect(confirmed(other)).toEqual([8]);
  });

  it('sends at most 256 publishes in one call (rule 9)', async () => {
    const { partner, slow, calls } = await openReader(1);
    const release = calls.hold(slow);
    const held = partner.ask(mode(partner, slow));
    await calls.arrived(slow, 1);
    const invalid = () => partner.command(slow, 'site-setpoint', {}, { signingKey: null });
    // The key's rate bucket fills from its burst of 200 to the rate of the organization.
    vi.setSystemTime(Date.now() + 1_000);
    const batches = [200, 200].map((count) => partner.askAll(...Array.from({ length: count }, invalid)));
    await partner.quiet();
    release();
    await Promise.all([held, ...batches]);
    expect(calls.of(slow).map(({ submissions }) => submissions.length)).toEqual([1, 256, 144]);
  });
});

describe('a call that fails', () => {
  it('for one publish of its batch leaves only that one unstored (rule 4)', async () => {
    const { partner, slow } = await openReader(1);
    const questions = Array.from({ length: 5 }, () => mode(partner, slow));
    const poisoned = JSON.parse(questions[2]?.body ?? '{}').messageId;
    await runInDurableObject(siteOf(slow), (_site, { storage }) => {
      storage.sql.exec(`CREATE TRIGGER poison BEFORE INSERT ON command WHEN NEW.message_id = '${poisoned}'
        BEGIN SELECT RAISE(ABORT, 'poisoned'); END`);
    });
    const answers = await partner.askAll(...questions);
    expect(answers.map(({ kind }) => kind)).toEqual(['stored', 'stored', 'unstored', 'stored', 'stored']);
    expect((await commandLog(slow)).total).toBe(4);
  });

  it('once is retried, and its publishes are stored once (rule 4)', async () => {
    const { partner, slow, calls } = await openReader(1);
    calls.before(slow, (_batch, call) => {
      if (call === 1) throw new Error('the site is away');
    });
    const answers = await partner.askAll(mode(partner, slow), mode(partner, slow));
    expect(answers.map(({ kind }) => kind)).toEqual(['stored', 'stored']);
    expect(calls.of(slow).map(({ submissions }) => submissions.length)).toEqual([2, 2]);
    expect((await commandLog(slow)).total).toBe(2);
  });

  it('after the site stored its publishes is retried: one effect, the same acknowledgement [C-7.3]', async () => {
    const { partner, slow, calls } = await openReader(1);
    calls.after(slow, (_batch, call) => {
      if (call === 1) throw new Error('the answer was lost');
    });
    const before = partner.deliveries().length;
    const question = partner.command(slow, 'site-setpoint', setpoint());
    expect(await partner.ask(question)).toMatchObject({ kind: 'stored' });
    await partner.quiet();
    const acks = partner.deliveries().slice(before).map(eventOf);
    expect(new Set(acks.map(({ messageId }) => messageId)).size).toBe(1);
    expect(acks[0]?.payload).toMatchObject({ status: 'QUEUED' });
    expect((await commandLog(slow)).total).toBe(1);
  });

  it("at each attempt until the bridge's deadline leaves its publishes unstored, and the lane continues (rule 4)", async () => {
    vi.setSystemTime(Date.now());
    const { partner, slow, calls } = await openReader(1);
    let isAway = true;
    calls.before(slow, () => {
      if (!isAway) return;
      vi.setSystemTime(Date.now() + 4_000);
      throw new Error('the site is away');
    });
    const answers = await partner.askAll(mode(partner, slow), mode(partner, slow));
    expect(answers.map(({ kind }) => kind)).toEqual(['unstored', 'unstored']);
    expect(calls.of(slow)).toHaveLength(2);
    expect((await commandLog(slow)).total).toBe(0);
    isAway = false;
    expect(await partner.ask(mode(partner, slow))).toMatchObject({ kind: 'stored' });
    expect((await commandLog(slow)).total).toBe(1);
  });

  it('for one site delays no other site (rule 4)', async () => {
    const { partner, slow, others, calls } = await openReader(2);
    let isAway = true;
    calls.before(slow, () => {
      if (isAway) throw new Error('the site is away');
    });
    const held = partner.ask(mode(partner, slow));
    await calls.arrived(slow, 1);
    const other = others[0] ?? '';
    expect(await partner.ask(mode(partner, other))).toMatchObject({ kind: 'stored' });
    isAway = false;
    expect(await held).toMatchObject({ kind: 'stored' });
  });
});
