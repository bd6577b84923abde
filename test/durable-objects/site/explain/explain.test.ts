/** What `explain` says about a site at any moment [C-13.3]. */

import { vi } from 'vitest';
import { setScene } from '#workerd/scene.ts';
import { HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { connectListening, sendTelemetry } from '#workerd/site-devices.ts';
import { AWAY, obey, planned, rowOf } from '#workerd/site-plan.ts';
import { openSessions } from '#workerd/site-rows.ts';
import { Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { LIMITED, type Plant, siteOf } from '#workerd/world.ts';
import type { Asker } from '../../../../durable-objects/ask-rpc.ts';
import { type Explanation, explanation, type PlanChange, planChanges } from '../../../../protocol/explain.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

async function ask({ id }: Plant, query: object, asker: Asker = 'member'): Promise<unknown> {
  return JSON.parse((await siteOf(id).ask({ kind: 'explain', siteId: id, asker, query } as never)) ?? 'null');
}

async function explain(
  plant: Plant,
  atMs: number | null = null,
  asker: Asker = 'member',
): Promise<Explanation> {
  return explanation.parse(await ask(plant, { atMs }, asker));
}

async function changes(plant: Plant, fromMs = START_MS, toMs = Date.now() + 1, asker: Asker = 'member') {
  return planChanges.parse(await ask(plant, { fromMs, toMs }, asker));
}

const short = ({ cause, reason, target, session }: PlanChange) =>
  [cause, reason, target.level, target.kw, session].join(' ');

describe('explain', () => {
  it('says what holds the plant, since when, why, and what waits below it', async ({
    plannedSite: scene,
  }) => {
    const { plant, partner, link } = scene;
    const normal = planned(5, 'NORMAL');
    await partner.submit(normal);
    await obey(scene, 1);
    await passTime(plant.id, 10 * SECOND);
    const high = planned(20, 'HIGH', { forMs: HOUR });
    await partner.submit(high);
    await passTime(plant.id, SECOND);
    await obey(scene, 2);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 19.8 });
    await passTime(plant.id, 20 * SECOND);
    const { id } = await rowOf(plant, high);
    const { id: below } = await rowOf(plant, normal);
    const until = formatInstant(START_MS + 10 * SECOND + HOUR);
    expect(await explain(plant)).toEqual({
      at: formatInstant(Date.now()),
      sentence: `Held at 20 kW import by the HIGH setpoint ${id} until ${until}; the NORMAL setpoint ${below} waits below it; the plant acknowledged the target at ${formatInstant(START_MS + 11 * SECOND)}; the plant is settling: 19.8 kW import measured.`,
      target: { level: 'HIGH', commandId: id, kw: 20, mode: null, slot: null, until },
      since: formatInstant(START_MS + 10 * SECOND),
      by: { cause: 'COMMAND', commandId: id, reason: null },
      waiting: [
        {
          level: 'NORMAL',
          commandId: below,
          kw: 5,
          mode: null,
          slot: null,
          until: null,
          why: 'waits below HIGH',
        },
        {
          level: 'MODE',
          commandId: null,
          kw: null,
          mode: 'STANDARD',
          slot: null,
          until: null,
          why: 'waits below HIGH',
        },
      ],
      limits: { ...LIMITED.constraints },
      ...{ emergency: null, mode: 'STANDARD', session: 'CONNECTED', fallback: false },
      configVersion: expect.stringMatching(/^[0-9a-f]{16}$/),
      sent: {
        at: formatInstant(START_MS + 10 * SECOND),
        acknowledgedAt: formatInstant(START_MS + 11 * SECOND),
      },
      measured: { kw: 19.8, expectedKw: 20, verdict: 'SETTLING' },
    });
    await passTime(plant.id, 2 * MINUTE);
    expect((await explain(plant)).measured).toEqual({ kw: 19.8, expectedKw: 20, verdict: 'FOLLOWS' });
    const earlier = await explain(plant, START_MS + 5 * SECOND);
    expect(earlier).toMatchObject({ target: { commandId: below, kw: 5 }, since: formatInstant(START_MS) });
  });

  it('lists each change with its cause: commands, windows, emergencies, modes, limits and sessions', async ({
    plannedSite: scene,
  }) => {
    const { plant, partner, link } = scene;
    await partner.submit(planned(5, 'NORMAL'));
    await obey(scene, 1);
    await passTime(plant.id, SECOND);
    await partner.submit(planned(20, 'HIGH', { forMs: 10 * SECOND }));
    await obey(scene, 2);
    await passTime(plant.id, 20 * SECOND);
    await obey(scene, 3);
    await passTime(plant.id, SECOND);
    await partner.submit(submission('config', { constraints: { maxImportKw: 50 } }));
    await passTime(plant.id, SECOND);
    await partner.submit(submission('emergency', { type: 'STOP' }));
    await passTime(plant.id, SECOND);
    await obey(scene, 5);
    await passTime(plant.id, SECOND);
    await partner.submit(submission('mode', { mode: 'STANDARD' }));
    await obey(scene, 6);
    await passTime(plant.id, SECOND);
    link.socket.close(1000, 'bye');
    await vi.waitFor(async () => expect(await openSessions(plant.id)).toBe(0));
    await passTime(plant.id, SECOND);
    await connectListening(plant);
    const { changes: list, next } = await changes(plant);
    expect(next).toBeNull();
    expect(list.map(short)).toEqual([
      'BEGINNING  MODE  NONE',
      'GATEWAY_CONNECTED  MODE  CONNECTED',
      'COMMAND  NORMAL 5 CONNECTED',
      'ACKNOWLEDGED  NORMAL 5 CONNECTED',
      'COMMAND  HIGH 20 CONNECTED',
      'ACKNOWLEDGED  HIGH 20 CONNECTED',
      'WINDOW_ENDED  NORMAL 5 CONNECTED',
      'ACKNOWLEDGED  NORMAL 5 CONNECTED',
      'CONFIGURATION  NORMAL 5 CONNECTED',
      'COMMAND  STOP  CONNECTED',
      'ACKNOWLEDGED  STOP  CONNECTED',
      'EMERGENCY_RELEASED  MODE  CONNECTED',
      'GATEWAY_AWAY  MODE  AWAY',
      'GATEWAY_CONNECTED  MODE  CONNECTED',
    ]);
  });

  it('answers to a key of another partner have its place in the plan, and nothing else of it', async ({
    plannedSite: scene,
  }) => {
    const { plant, partner } = scene;
    const normal = planned(5, 'NORMAL');
    await partner.submit(normal);
    await obey(scene, 1);
    const high = planned(20, 'HIGH', { forMs: HOUR });
    await partner.submit(high);
    const own = await explain(plant, null, partner.asker);
    expect(own.target?.commandId).toBe((await rowOf(plant, high)).id);
    expect(own.sentence).toContain(own.target?.commandId);
    const stranger = new Submitter(plant.id, crypto.randomUUID(), 'another').asker;
    const ids = [(await rowOf(plant, high)).id, (await rowOf(plant, normal)).id];
    for (const answer of [
      await explain(plant, null, stranger),
      await changes(plant, START_MS, Date.now() + 1, stranger),
    ]) {
      const text = JSON.stringify(answer);
      for (const hidden of [...ids, partner.keyId, high.messageId, '"kw":20', '"kw":5', '20 kW'])
        expect(text).not.toContain(hidden);
    }
    expect((await explain(plant, null, stranger)).target).toMatchObject({
      level: 'HIGH',
      commandId: null,
      kw: null,
    });
  });

  it('says that nothing was sent while the gateway is away, and that the plant does not answer', async ({
    clock: _clock,
  }) => {
    const { plant, partner } = await setScene(AWAY);
    await partner.submit(planned(5, 'HIGH'));
    const away = await explain(plant);
    expect(away).toMatchObject({ session: 'AWAY', sent: null, target: { kw: 5 } });
    expect(away.sentence).toContain('nothing was sent: the gateway is away');
    await connectListening(plant);
    const sent = await explain(plant);
    expect(sent.sent).toEqual({ at: formatInstant(Date.now()), acknowledgedAt: null });
    expect(sent.sentence).toContain('the plant has not acknowledged it');
  });

  it('an emergency that the plant answers FAILED is not acknowledged', async ({ plannedSite: scene }) => {
    const { plant, partner } = scene;
    await partner.submit(submission('emergency', { type: 'STOP' }));
    await obey(scene, 1, 'FAILED');
    const { sent, sentence, emergency } = await explain(plant);
    expect(emergency).toBe('STOP');
    expect(sent).toMatchObject({ acknowledgedAt: null });
    expect(sentence).toContain('the plant answered FAILED or did not answer');
    expect((await changes(plant)).changes.map(({ cause }) => cause)).not.toContain('ACKNOWLEDGED');
  });

  it('a newer setpoint is not acknowledged because the one before it was', async ({ plannedSite: scene }) => {
    const { plant, partner } = scene;
    await partner.submit(planned(5, 'HIGH'));
    await obey(scene, 1);
    const acknowledged = await explain(plant);
    expect(acknowledged.sent?.acknowledgedAt).not.toBeNull();
    await partner.submit(planned(6, 'HIGH'));
    expect((await explain(plant)).sent?.acknowledgedAt).toBeNull();
  });

  it('says of a moment before the journal that nothing is recorded; of the future, what is now', async ({
    plannedSite: { plant },
  }) => {
    const before = await explain(plant, START_MS - 1);
    expect(before).toMatchObject({ target: null, since: null, waiting: [], session: null });
    expect(before.sentence).toContain('Nothing is recorded');
    expect(await explain(plant, Date.now() + HOUR)).toEqual(await explain(plant));
  });

  it('lists at most 50 changes, and where the next begin', async ({ plannedSite: { plant, partner } }) => {
    for (let kw = 1; kw <= 120; kw++) {
      await partner.submit(planned(kw % 90, 'HIGH'));
      setClock(Date.now() + SECOND);
    }
    const seen: PlanChange[] = [];
    let fromMs = START_MS;
    for (let pages = 0; pages < 5; pages++) {
      const { changes: page, next } = await changes(plant, fromMs);
      expect(page.length).toBeLessThanOrEqual(50);
      seen.push(...page);
      if (next === null) break;
      fromMs = Date.parse(next);
    }
    expect(seen.filter(({ cause }) => cause === 'COMMAND')).toHaveLength(120);
    expect(new Set(seen.map(({ at, cause }) => `${at} ${cause}`)).size).toBe(seen.length);
  });
});
