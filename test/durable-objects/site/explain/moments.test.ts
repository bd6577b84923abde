/**
 * Five minutes of a site by a script, with the edge killed in between: what `explain` says about random moments equals what
 * follows from the script and from the events that the partner received [C-13.3].
 */
import fc from 'fast-check';
import { expect, vi } from 'vitest';
import { setScene } from '#workerd/scene.ts';
import { passTime, SECOND, START_MS } from '#workerd/site-clock.ts';
import { connectListening } from '#workerd/site-devices.ts';
import { deliverEvents, obey, PLANNED, planned, sentCommands } from '#workerd/site-plan.ts';
import { crashSite, openSessions } from '#workerd/site-rows.ts';
import { submission } from '#workerd/site-submissions.ts';
import { it } from '#workerd/site-test.ts';
import { siteOf } from '#workerd/world.ts';
import type { Submission } from '../../../../durable-objects/rpc.ts';
import { explanation } from '../../../../protocol/explain.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

const LEVELS = ['EMERGENCY', 'STOP', 'HIGH', 'SLOT', 'NORMAL', 'MODE'];
/** Something that has a place in the plan from one moment to another. */
interface Place {
  level: string;
  kw: number | null;
  fromMs: number;
  toMs: number;
}

const never = Number.POSITIVE_INFINITY;

it('60 random moments of five minutes [C-13.3]', async ({ clock: _clock }) => {
  const { scene, plant, partner } = await setScene(PLANNED);
  let { link } = scene;
  const at = (seconds: number) => START_MS + seconds * SECOND;
  let seen = 0;
  const pass = async (toSeconds: number) => {
    await passTime(plant.id, at(toSeconds) - Date.now());
  };
  /** The gateway acknowledges all that it got since the last time. */
  const acknowledge = async () => {
    const all = await sentCommands(link, plant);
    for (let n = seen + 1; n <= all.length; n++) await obey({ link, plant }, n, 'RECEIVED', 'COMPLETED');
    seen = all.length;
  };
  const send = async (command: Submission) => {
    await partner.submit(command);
    await acknowledge();
    return command;
  };
  const places: Place[] = [];
  const setpoint = async (kw: number, level: 'NORMAL' | 'HIGH' | 'EMERGENCY', forSeconds?: number) => {
    await send(planned(kw, level, forSeconds === undefined ? {} : { forMs: forSeconds * SECOND }));
    const fromMs = Date.now();
    for (const place of places) if (place.level === level && place.toMs > fromMs) place.toMs = fromMs;
    places.push({ level, kw, fromMs, toMs: forSeconds === undefined ? never : fromMs + forSeconds * SECOND });
  };
  const modes: [fromMs: number, mode: string][] = [[START_MS, 'STANDARD']];
  const limits: [fromMs: number, maxImportKw: number][] = [[START_MS, 100]];
  const sessions: [fromMs: number, session: string][] = [[START_MS, 'CONNECTED']];

  await setpoint(5, 'NORMAL');
  await pass(20);
  const slots = [30, null, 31].map((value, slotIndex) => ({
    slotIndex,
    mode: slotIndex === 1 ? 'PEAK_SHAVING' : 'STANDARD',
    ...(value === null ? {} : { setpoint: { value } }),
  }));
  await send(submission('schedule', { startTime: formatInstant(at(30)), slotDurationMinutes: 1, slots }));
  places.push(
    { level: 'SLOT', kw: 30, fromMs: at(30), toMs: at(90) },
    { level: 'SLOT', kw: null, fromMs: at(90), toMs: at(150) },
    { level: 'SLOT', kw: 31, fromMs: at(150), toMs: at(210) },
  );
  await pass(31);
  await acknowledge();
  await pass(45);
  await setpoint(20, 'HIGH', 15);
  await pass(61);
  await acknowledge();
  await crashSite(plant.id);
  link = await connectListening(plant);
  seen = 0;
  await acknowledge();
  await pass(70);
  await send(submission('config', { constraints: { maxImportKw: 60 } }));
  limits.push([Date.now(), 60]);
  await pass(95);
  await acknowledge();
  await setpoint(10, 'EMERGENCY', 20);
  await pass(100);
  link.socket.close(1000, 'bye');
  await vi.waitFor(async () => expect(await openSessions(plant.id)).toBe(0));
  sessions.push([Date.now(), 'AWAY']);
  await pass(108);
  link = await connectListening(plant);
  sessions.push([Date.now(), 'CONNECTED']);
  seen = 0;
  await acknowledge();
  await pass(125);
  await acknowledge();
  await pass(160);
  await acknowledge();
  await setpoint(22, 'HIGH');
  await pass(180);
  await send(submission('emergency', { type: 'STOP' }));
  const stopMs = Date.now();
  for (const place of places) if (place.level !== 'SLOT' && place.toMs > stopMs) place.toMs = stopMs;
  await pass(195);
  await send(submission('mode', { mode: 'PEAK_SHAVING' }));
  modes.push([Date.now(), 'PEAK_SHAVING']);
  places.push({ level: 'STOP', kw: null, fromMs: stopMs, toMs: Date.now() });
  await acknowledge();
  await pass(211);
  await acknowledge();
  await pass(240);
  await setpoint(7, 'NORMAL', 30);
  await pass(300);
  await deliverEvents(scene);
  // The partner's events agree with the reckoning: the emergency and both open setpoints ended as it says.
  const ended = scene.listener
    .events('execution')
    .flatMap(({ payload }) => (payload.status === 'FAILED' ? [String(payload.reason).split(' ')[0]] : []));
  expect(ended.sort()).toEqual(['SUPERSEDED', 'SUPERSEDED']);

  const valueAt = <Value>(list: [number, Value][], ms: number) =>
    list.findLast(([fromMs]) => fromMs <= ms)?.[1];
  const moments = fc.sample(fc.integer({ min: at(0), max: at(300) }), { numRuns: 60, seed: 7 });
  for (const ms of moments) {
    const open = places.filter(({ fromMs, toMs }) => fromMs <= ms && ms < toMs);
    const expected = [...open, { level: 'MODE', kw: null, fromMs: 0, toMs: never }].sort(
      (one, other) => LEVELS.indexOf(one.level) - LEVELS.indexOf(other.level),
    );
    const text = await siteOf(plant.id).ask({
      kind: 'explain',
      siteId: plant.id,
      asker: 'member',
      query: { atMs: ms },
    });
    const answer = explanation.parse(JSON.parse(text ?? ''));
    const said = [answer.target, ...answer.waiting].map((place) => [place?.level, place?.kw]);
    expect({
      second: (ms - START_MS) / SECOND,
      said,
      mode: answer.mode,
      session: answer.session,
      maxImportKw: answer.limits?.maxImportKw,
      emergency: answer.emergency,
    }).toEqual({
      second: (ms - START_MS) / SECOND,
      said: expected.map(({ level, kw }) => [level, kw]),
      mode: valueAt(modes, ms),
      session: valueAt(sessions, ms),
      maxImportKw: valueAt(limits, ms),
      emergency: expected.some(({ level }) => level === 'STOP') ? 'STOP' : null,
    });
    const latest = await siteOf(plant.id).ask({
      kind: 'telemetry',
      siteId: plant.id,
      atMs: ms,
    });
    expect(JSON.parse(latest ?? '')).toMatchObject({
      payload: { currentOperatingMode: valueAt(modes, ms) },
    });
    const [top] = expected;
    if (top && top.level !== 'MODE') expect(answer.sent).not.toBeNull();
  }
});
