/**
 * Who sees what of a command: two partners at one plant, a monitoring key, people, and every route that shows a command. The
 * raw answers are searched for the ids, words and numbers of the other partner [C-15.1].
 */
import {
  around,
  charge,
  connectGateway,
  found,
  inMs,
  newSightPlant,
  number,
  READS,
  raiseLimits,
  Sender,
  type Sent,
  type SightPlant,
  schedule,
  setpoint,
} from '#workerd/command-sight.ts';
import { StreamClient } from '#workerd/event-streams.ts';
import { Partner, publishOf } from '#workerd/partner.ts';
import type { Person } from '#workerd/people.ts';
import { callRoute, nameOf, pathWith } from '#workerd/routes.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectSameError, test } from '#workerd/worker-test.ts';
import { createPlant } from '#workerd/world.ts';
import type { CommandLogEntry } from '../../protocol/command-log.ts';
import type { DryRunAnswer } from '../../protocol/dry-run.ts';
import type { Explanation, PlanChange } from '../../protocol/explain.ts';
import type { CommandAnswer } from '../../protocol/rest-publish.ts';
import type { ScheduleSummary } from '../../protocol/schedule.ts';
import { API_KEY_SCOPES } from '../../protocol/scopes.ts';
import type { SiteConfigSnapshot } from '../../protocol/site-config.ts';
import { ROUTES } from '../../worker/app.ts';
import type { AnyRoute } from '../../worker/route.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

interface LogPage {
  items: CommandLogEntry[];
  total: number;
}

/** What the two partners have sent to the plant, by what it is. */
interface Commands {
  a: Record<'schedule' | 'high' | 'normal' | 'refused' | 'charge', Sent>;
  b: Record<
    'mode' | 'config' | 'schedule' | 'later' | 'normal' | 'high' | 'charge' | 'over' | 'unsigned',
    Sent
  >;
}

interface Scene {
  team: Team;
  site: SightPlant;
  siteId: string;
  /** Two keys of one partner, a key of a second, and one of a third, which has sent nothing. */
  a1: Sender;
  a2: Sender;
  b: Sender;
  m: Sender;
  commands: Commands;
  deadLetter: string;
  /** A moment before the first command of B, and one after the last command. */
  before: string;
  past: string;
}

const B_SCHEDULE = crypto.randomUUID();
const B_LATER = crypto.randomUUID();
/** When the standing HIGH setpoint of B ends. */
const B_UNTIL = inMs(HOUR);

async function newScene(team: Team): Promise<Scene> {
  await raiseLimits(team);
  const plant = await newSightPlant(team);
  const { id: siteId, gateway } = plant;
  const a1 = await Sender.create(team, siteId, 'A');
  const a2 = await a1.sibling(team, 'A2');
  const b = await Sender.create(team, siteId, 'B');
  const m = await Sender.create(team, siteId, 'M');
  const site = await connectGateway(plant);
  const sent = async (answer: Promise<Sent>) => {
    const command = await answer;
    await site.obey();
    return command;
  };
  await sendTelemetry(site.link, gateway, { gridPowerKw: 9.5, 'BESS-1/socPercent': 50 });
  const own = crypto.randomUUID();
  const ofA = {
    schedule: await sent(
      a1.send('schedule', schedule(own, [21.31], DAY), { numbers: [21.31], scheduleId: own }),
    ),
    high: await sent(a1.send('site-setpoint', setpoint(6.19, 'HIGH', 2 * HOUR), { numbers: [6.19] })),
  };
  const before = inMs(0);
  const mode = { mode: 'PEAK_SHAVING', reason: 'B-avoids-the-peak', validUntil: inMs(3 * HOUR) };
  const ofB = {
    mode: await sent(b.send('mode', mode, { words: ['B-avoids-the-peak'] })),
    config: await sent(b.send('config', { constraints: { maxRampKwPerMinute: 77 } })),
    schedule: await sent(
      b.send('schedule', schedule(B_SCHEDULE, [17.77, 18.83]), {
        ...{ numbers: [17.77, 18.83], scheduleId: B_SCHEDULE },
      }),
    ),
    later: await sent(
      b.send('schedule', schedule(B_LATER, [19.39], 2 * DAY), { numbers: [19.39], scheduleId: B_LATER }),
    ),
    normal: await sent(b.send('site-setpoint', setpoint(11.37, 'NORMAL', 2 * HOUR), { numbers: [11.37] })),
    high: await sent(
      b.send(
        'site-setpoint',
        { ...setpoint(13.37, 'HIGH'), validUntil: B_UNTIL },
        {
          numbers: [13.37],
        },
      ),
    ),
    charge: await sent(b.send('device', charge('BESS-1', 7.43), { numbers: [7.43] })),
    over: await sent(b.send('site-setpoint', setpoint(1234.56, 'HIGH'), { numbers: [1234.56] })),
    unsigned: await b.send(
      'mode',
      { mode: 'STANDARD', reason: 'B-forgot-to-sign' },
      { words: ['B-forgot-to-sign'] },
      { isUnsigned: true },
    ),
  };
  // 7.43 of B and 45.19 of A.
  for (const one of [a1, b]) one.marks.push(number('the sum of the battery powers of both partners', 52.62));
  const bodyOfDeadLetter = `nonsense of ${b.partnerId}`;
  const client = await Partner.connect(team.organization, b.client);
  await client.ask(publishOf(client.routingKey('device'), bodyOfDeadLetter));
  const { deadLetters } = await b.client.read<{ deadLetters: { id: string }[] }>('/vcp/dead-letters');
  const commands: Commands = {
    b: ofB,
    a: {
      ...ofA,
      // Replaces the NORMAL setpoint of B, and waits below its HIGH one.
      normal: await sent(a1.send('site-setpoint', setpoint(4.23, 'NORMAL', HOUR), { numbers: [4.23] })),
      // Together with the battery command of B it is over maxChargeKw 50 kW.
      refused: await sent(a1.send('device', charge('BESS-2', 45.19), { numbers: [45.19] })),
      charge: await sent(a1.send('device', charge('BESS-2', 3.31), { numbers: [3.31] })),
    },
  };
  const past = inMs(0);
  const deadLetter = deadLetters[0]?.id ?? '';
  // The alarms of the two commands over a limit reach every key a moment later.
  for (const one of [a1, a2, b, m])
    await expect.poll(async () => (await alarmsOf(one)).length, { timeout: 5_000 }).toBe(2);
  return { team, site, siteId, a1, a2, b, m, commands, deadLetter, before, past };
}

const it = test.extend('scene', { scope: 'file' }, ({ team }) => newScene(team));

async function logOf(sender: Sender, query = 'pageSize=500'): Promise<LogPage> {
  return await sender.client.read<LogPage>(`/vcp/sites/${sender.siteId}/commands?${query}`);
}

/** The same for a member. */
async function logFor({ team, siteId }: Scene, person: Person): Promise<LogPage> {
  return await person.read<LogPage>(`/plants/${siteId}/commands?pageSize=500`, { org: team.id });
}

/** The payloads of the alarms that a key got. */
async function alarmsOf(asker: Sender): Promise<Record<string, unknown>[]> {
  const { events } = await asker.client.read<{ events: { event: string }[] }>(
    '/vcp/events?limit=500&type=alarm',
  );
  return events.map(({ event }) => JSON.parse(event).payload);
}

function idsOf(commands: Record<string, Sent>): string[] {
  return Object.values(commands).map(({ commandId }) => commandId);
}

async function answerOf(sender: Sender, body: object): Promise<CommandAnswer> {
  const path = `/vcp/sites/${sender.siteId}/commands`;
  return await sender.client.read<CommandAnswer>(path, { method: 'POST', body });
}

async function dryRunOf(sender: Sender, ...bodies: object[]): Promise<string> {
  const [one = {}, ...others] = bodies;
  const path = `/vcp/sites/${sender.siteId}/commands/dry-run`;
  return await sender.ask(path, others.length > 0 ? { commands: bodies } : one);
}

describe('the scene', () => {
  it('has each kind of command of B in the state that the suite needs', async ({ scene }) => {
    const { commands, b, deadLetter } = scene;
    const { items, total } = await logFor(scene, scene.team.viewer);
    const statuses = Object.entries(commands.b).map(([name, { commandId }]) => {
      const row = items.find(({ id }) => id === commandId);
      return [name, row?.status];
    });
    expect(Object.fromEntries(statuses)).toEqual({
      ...{ mode: 'EXECUTING', config: 'EXECUTING', schedule: 'EXECUTING', later: 'PENDING' },
      ...{ normal: 'FAILED', high: 'EXECUTING', charge: 'EXECUTING', over: 'REJECTED', unsigned: 'REJECTED' },
    });
    expect(commands.a.refused.acknowledgement).toMatchObject({ status: 'REJECTED' });
    expect(total).toBe(b.sent.length + scene.a1.sent.length);
    expect(deadLetter).toMatch(/^\d+-\d+-\d+$/);
  });
});

describe('a partner that reads', () => {
  it.for(Object.keys(READS))('finds nothing of another partner in %s [C-15.1]', async (name, { scene }) => {
    const { a1, a2, b, siteId, past } = scene;
    const path = READS[name]?.(siteId, past) ?? '';
    for (const asker of [a1, a2, b]) {
      const response = await asker.client.call(path);
      const text = await response.text();
      expect([asker.name, response.status, text]).toEqual([asker.name, 200, expect.any(String)]);
      expect([asker.name, found(text, asker.hidden([a1, b]))]).toEqual([asker.name, []]);
    }
  });

  it('finds nothing of another partner in the timelines of its own commands [C-15.1]', async ({ scene }) => {
    const { a1, a2, b, commands, siteId } = scene;
    for (const [asker, own] of [
      [a1, commands.a],
      [a2, commands.a],
      [b, commands.b],
    ] as const)
      for (const [name, { commandId }] of Object.entries(own)) {
        const text = JSON.stringify(
          await asker.client.read(`/vcp/sites/${siteId}/commands/${commandId}/timeline`),
        );
        expect([asker.name, name, found(text, asker.hidden([a1, b]))]).toEqual([asker.name, name, []]);
      }
  });

  it('gets for the id of a command of another partner the answer for an unknown id [C-15.1]', async ({
    scene: { a1, a2, b, commands, siteId },
  }) => {
    for (const [asker, others] of [
      [a1, commands.b],
      [a2, commands.b],
      [b, commands.a],
    ] as const) {
      const ids = [crypto.randomUUID(), ...idsOf(others)];
      const answers = ids.map((id) => asker.client.call(`/vcp/sites/${siteId}/commands/${id}/timeline`));
      await expectSameError(answers, 404, 'NOT_FOUND');
    }
  });

  it('finds nothing of another partner in its event stream, which has all of its events [C-15.1]', async ({
    scene: { a1, a2, b },
  }) => {
    for (const asker of [a1, a2, b]) {
      const { events } = await asker.client.read<{ events: object[] }>('/vcp/events?limit=500');
      const stream = await StreamClient.open(asker.client, '/vcp/events/stream?after=0');
      const text = JSON.stringify(await stream.take(events.length));
      stream.leave();
      expect([asker.name, found(text, asker.hidden([a1, b]))]).toEqual([asker.name, []]);
    }
  });

  it('gets the alarm of a refused command of another partner with the limit, without the value [C-15.1]', async ({
    scene: { a1, a2, b },
  }) => {
    const own = (await alarmsOf(b)).find(({ value }) => value === 1234.56);
    expect(own).toMatchObject({ type: 'CONSTRAINT_VIOLATION', constraint: 'maxImportKw', limit: 100 });
    for (const asker of [a1, a2]) {
      const copy = (await alarmsOf(asker)).find(({ alarmId }) => alarmId === own?.alarmId);
      expect(copy).toMatchObject({
        ...{ type: 'CONSTRAINT_VIOLATION', status: 'RAISED', severity: 'WARNING' },
        ...{ constraint: 'maxImportKw', limit: 100, raisedAt: own?.raisedAt },
      });
      expect(copy).not.toHaveProperty('value');
    }
  });

  it('has its own commands alone in the log, in `total` and on every page [C-15.1]', async ({ scene }) => {
    const { a1, a2, b, commands, before } = scene;
    for (const [asker, own] of [
      [a1, commands.a],
      [a2, commands.a],
      [b, commands.b],
    ] as const) {
      const { items, total } = await logOf(asker);
      expect(items.map(({ id }) => id).sort()).toEqual(idsOf(own).sort());
      expect(total).toBe(items.length);
      const pages: string[] = [];
      for (let page = 1; page <= total + 1; page++) {
        const one = await logOf(asker, `pageSize=1&page=${page}`);
        expect(one.total).toBe(total);
        pages.push(...one.items.map(({ id }) => id));
      }
      expect(pages).toEqual(items.map(({ id }) => id));
    }
    const early = [commands.a.high.commandId, commands.a.schedule.commandId];
    const { items, total } = await logOf(a1, `pageSize=1&at=${before}`);
    expect([items.map(({ id }) => id), total]).toEqual([early.slice(0, 1), 2]);
    expect(await logOf(b, `pageSize=1&at=${before}`)).toMatchObject({ items: [], total: 0 });
  });

  it('has its own pending commands and its own active schedule in the configuration [C-15.1]', async ({
    scene: { a1, a2, b, commands, siteId },
  }) => {
    const configOf = (asker: Sender) => asker.client.read<SiteConfigSnapshot>(`/vcp/sites/${siteId}/config`);
    for (const asker of [a1, a2]) {
      const { pendingCommands, activeSchedule } = await configOf(asker);
      expect(pendingCommands.map(({ id }) => id).sort()).toEqual(
        [commands.a.schedule, commands.a.normal, commands.a.charge].map(({ commandId }) => commandId).sort(),
      );
      expect(activeSchedule?.id).toBe(commands.a.schedule.scheduleId);
    }
    expect((await configOf(b)).activeSchedule?.id).toBe(B_LATER);
  });

  it('has the mode in force with its end, and not who set it or why [C-15.1]', async ({
    scene: { a1, b, commands, siteId },
  }) => {
    const read = (asker: Sender) => asker.client.read<SiteConfigSnapshot>(`/vcp/sites/${siteId}/config`);
    const own = (await read(b)).modeOverride;
    expect(own).toMatchObject({ reason: 'B-avoids-the-peak', commandId: commands.b.mode.commandId });
    const shown = (await read(a1)).modeOverride;
    expect(shown).toMatchObject({ mode: 'PEAK_SHAVING', validUntil: own?.validUntil, reason: null });
  });

  it('has its own schedules in the list of schedules [C-15.1]', async ({ scene }) => {
    const { a1, a2, b, commands, siteId } = scene;
    const own = [commands.a.schedule.scheduleId];
    for (const [asker, ids] of [
      [a1, own],
      [a2, own],
      [b, [B_SCHEDULE, B_LATER]],
    ] as const) {
      const { schedules } = await asker.client.read<{ schedules: ScheduleSummary[] }>(
        `/vcp/sites/${siteId}/schedules?${around(3 * DAY)}`,
      );
      expect([asker.name, schedules.map(({ id }) => id)]).toEqual([asker.name, ids]);
    }
  });

  it('sees of the target of another partner its level and until when it holds [C-15.1]', async ({
    scene: { a1, a2, commands, siteId },
  }) => {
    for (const asker of [a1, a2]) {
      const now = await asker.client.read<Explanation>(`/vcp/sites/${siteId}/explain`);
      expect(now.target).toEqual({
        ...{ level: 'HIGH', commandId: null, kw: null, mode: null, slot: null, until: B_UNTIL },
      });
      expect(now.measured).toMatchObject({ expectedKw: null, verdict: null });
      expect(now.waiting).toMatchObject([
        { level: 'SLOT', commandId: null, kw: null, mode: null, slot: null, until: expect.any(String) },
        { level: 'NORMAL', commandId: commands.a.normal.commandId, kw: 4.23 },
        { level: 'MODE' },
      ]);
      const { changes } = await asker.client.read<{ changes: PlanChange[] }>(
        `/vcp/sites/${siteId}/explain?${around()}`,
      );
      expect(changes.map(({ commandId }) => commandId)).toContain(commands.a.high.commandId);
      expect(changes.at(-1)?.target).toMatchObject({ level: 'HIGH', commandId: null, until: B_UNTIL });
    }
  });

  it('sees everything that another key of its partner has sent [C-15.1]', async ({ scene }) => {
    const { a1, a2, siteId, commands, past } = scene;
    for (const name of [
      'config',
      'the command log',
      'the command log of a moment',
      'schedules of a time',
      'explain',
      'the changes of explain',
    ]) {
      const path = READS[name]?.(siteId, past) ?? '';
      // A sentence may name the key; each answer of `explain` has the time of its question.
      const [own, theirs] = [a1, a2].map(async (key) => {
        const { sentence: _text, at: _at, ...answer } = await key.client.read<Record<string, unknown>>(path);
        return answer;
      });
      expect([name, await theirs]).toEqual([name, await own]);
    }
    for (const { commandId } of Object.values(commands.a)) {
      const [own, theirs] = [a1, a2].map((key) =>
        key.client.read(`/vcp/sites/${siteId}/commands/${commandId}/timeline`),
      );
      expect(await theirs).toEqual(await own);
    }
  });
});

describe('the refusal of a battery command because of the sum with another partner', () => {
  it('has the own part as value, in the acknowledgement, the log and the dry run [C-15.1]', async ({
    scene,
  }) => {
    const { a1, b, commands } = scene;
    const { acknowledgement, commandId } = commands.a.refused;
    expect(acknowledgement).toMatchObject({
      ...{ status: 'REJECTED', rejectionCode: 'CONSTRAINT_VIOLATION' },
      message: expect.stringMatching(/45\.19 kW.*maxChargeKw 50 kW/),
    });
    expect(found(JSON.stringify(acknowledgement), a1.hidden([b]))).toEqual([]);
    const row = (await logOf(a1)).items.find(({ id }) => id === commandId);
    expect(row?.decision?.facts).toMatchObject({ constraint: 'maxChargeKw', limit: 50, value: 45.19 });
    const { body } = a1.message('device', charge('BESS-2', 45.5));
    const asked = JSON.parse(await dryRunOf(a1, body)) as DryRunAnswer;
    expect(asked.stages.find(({ stage }) => stage === 'constraint')).toMatchObject({
      ...{ outcome: 'refused', constraint: 'maxChargeKw', limit: 50, value: 45.5 },
      admissible: { max: expect.any(Number) },
    });
  });
});

describe('a dry run of a partner', () => {
  /** Commands of each kind. */
  const bodiesOf = (asker: Sender) => [
    asker.message('site-setpoint', setpoint(8, 'HIGH')).body,
    asker.message('site-setpoint', setpoint(8, 'NORMAL')).body,
    asker.message('site-setpoint', setpoint(8, 'EMERGENCY')).body,
    asker.message('site-setpoint', setpoint(999, 'HIGH')).body,
    asker.message('device', charge('BESS-2', 48)).body,
    asker.message('device', charge('BESS-1', 2)).body,
    asker.message('mode', { mode: 'STANDARD' }).body,
    asker.message('config', { constraints: { maxImportKw: 1 } }).body,
    asker.message('schedule', schedule(crypto.randomUUID(), [3])).body,
    asker.message('emergency', { type: 'STOP' }).body,
  ];

  it('finds nothing of another partner, alone and in a list [C-15.1]', async ({ scene: { a1, a2, b } }) => {
    for (const asker of [a1, a2, b]) {
      const bodies = bodiesOf(asker);
      for (const body of bodies) {
        const text = await dryRunOf(asker, body);
        expect([asker.name, body.routingKey, text]).toEqual([
          asker.name,
          body.routingKey,
          expect.stringContaining('"acknowledgement"'),
        ]);
        expect([asker.name, body.routingKey, found(text, asker.hidden([a1, b]))]).toEqual([
          asker.name,
          body.routingKey,
          [],
        ]);
      }
      expect([asker.name, found(await dryRunOf(asker, ...bodies), asker.hidden([a1, b]))]).toEqual([
        asker.name,
        [],
      ]);
    }
  });

  it('names the level of the command that it would displace, and its id only to its partner [C-15.1]', async ({
    scene: { a1, b, m, commands },
  }) => {
    const displacedFor = async (asker: Sender) => {
      const { body } = asker.message('site-setpoint', setpoint(8, 'HIGH'));
      return (JSON.parse(await dryRunOf(asker, body)) as DryRunAnswer).plan?.displaces;
    };
    for (const stranger of [a1, m])
      expect(await displacedFor(stranger)).toMatchObject([{ level: 'HIGH', commandId: null }]);
    expect(await displacedFor(b)).toMatchObject([{ level: 'HIGH', commandId: commands.b.high.commandId }]);
  });

  it('names the own setpoint that it would displace, also one of another key of the partner [C-15.1]', async ({
    scene: { a1, a2, commands },
  }) => {
    for (const asker of [a1, a2]) {
      const { body } = asker.message('site-setpoint', setpoint(8, 'NORMAL'));
      const { plan } = JSON.parse(await dryRunOf(asker, body)) as DryRunAnswer;
      expect(plan?.displaces).toMatchObject([{ level: 'NORMAL', commandId: commands.a.normal.commandId }]);
      expect(plan?.waitsBelow).toMatchObject({ level: 'HIGH', commandId: null });
    }
  });

  it('lists no command of another partner that has no place in the plan [C-15.1]', async ({ team }) => {
    // The gateway has never connected, so the battery command waits: an emergency would end it.
    const plant = await createPlant(team.organization);
    const b = await Sender.create(team, plant.id, 'B');
    const stranger = await Sender.create(team, plant.id, 'C');
    const waiting = await b.send('device', charge('BESS-1', 7.47));
    expect(waiting.acknowledgement.status).toBe('QUEUED');
    const displacedFor = async (asker: Sender) => {
      const { body } = asker.message('emergency', { type: 'STOP' });
      return (JSON.parse(await dryRunOf(asker, body)) as DryRunAnswer).plan?.displaces;
    };
    expect(await displacedFor(b)).toMatchObject([{ commandId: waiting.commandId, ends: 'EMERGENCY' }]);
    expect(await displacedFor(stranger)).toEqual([]);
  });
});

/** Every route that a key may read. */
const READ_ROUTES = ROUTES.filter(
  ({ method, who, path }) =>
    method === 'GET' &&
    !path.endsWith('/stream') &&
    (who.door === 'api-key' || who.door === 'key-or-member' || (who.door === 'member' && who.scope)),
).map((route): [string, AnyRoute] => [nameOf(route), route]);

describe('a key with every scope', () => {
  it.for(READ_ROUTES)(
    'finds nothing of another partner in %s, whose ids are those of the other partner [C-15.1]',
    async ([, route], { scene: { team, a1, b, commands, siteId, site, deadLetter } }) => {
      const key = await a1.sibling(team, `A with every scope`, { scopes: [...API_KEY_SCOPES] });
      const ids = {
        ...{
          sites: siteId,
          plants: siteId,
          devices: site.plant.gateway.id,
          telemetry: site.plant.gateway.id,
        },
        ...{ commands: commands.b.high.commandId, 'dead-letters': deadLetter, 'api-keys': b.client.id },
      };
      const response = await callRoute(route, pathWith(route, ids), { 'x-api-key': key.client.key });
      expect(response.status).toBeLessThan(500);
      expect(found(await response.text(), key.hidden([b]))).toEqual([]);
    },
  );
});

describe('the ids of another partner in what a key sends', () => {
  const its = test.extend('scene', ({ team }) => newScene(team));

  /** An answer without ids, times and counters: two answers that are equal then say the same of two ids. */
  function comparable(text: string): string {
    return text
      .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'ID')
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
      .replace(/"sequence":\d+/g, '"sequence":0');
  }

  its('do not cancel its schedule: the answer is that for an unknown one [C-15.1]', async ({ scene }) => {
    const { a1, a2, b, m, siteId, team } = scene;
    for (const asker of [a1, a2, m]) {
      const unknown = crypto.randomUUID();
      const cancel = (scheduleId: string) =>
        asker.message('schedule', { scheduleId }, { verb: 'cancel' }).body;
      const asked = [await dryRunOf(asker, cancel(unknown)), await dryRunOf(asker, cancel(B_SCHEDULE))];
      expect(comparable(asked[1] ?? '')).toBe(comparable(asked[0] ?? ''));
      const { acknowledgement } = await answerOf(asker, cancel(B_SCHEDULE));
      expect(acknowledgement).toEqual((await answerOf(asker, cancel(unknown))).acknowledgement);
      expect(acknowledgement).toMatchObject({ status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD' });
    }
    const { schedules } = await team.viewer.read<{ schedules: ScheduleSummary[] }>(
      `/plants/${siteId}/schedules?${around(3 * DAY)}`,
      { org: team.id },
    );
    expect(schedules.find(({ id }) => id === B_SCHEDULE)?.status).toBe('ACTIVE');
    const cancelled = await answerOf(
      b,
      b.message('schedule', { scheduleId: B_SCHEDULE }, { verb: 'cancel' }).body,
    );
    expect(cancelled.acknowledgement.status).not.toBe('REJECTED');
  });

  its('are free for an own schedule, as an unknown one is [C-15.1]', async ({ scene }) => {
    const { a1, b, siteId, team } = scene;
    const set = (scheduleId: string) => a1.message('schedule', schedule(scheduleId, [2], 5 * DAY)).body;
    const unknown = crypto.randomUUID();
    const asked = [await dryRunOf(a1, set(unknown)), await dryRunOf(a1, set(B_LATER))];
    expect(comparable(asked[1] ?? '')).toBe(comparable(asked[0] ?? ''));
    const { acknowledgement } = await answerOf(a1, set(B_LATER));
    expect(acknowledgement.status).not.toBe('REJECTED');
    const ofB = async () =>
      await b.client.read<{ schedules: ScheduleSummary[] }>(
        `/vcp/sites/${siteId}/schedules?${around(8 * DAY)}`,
      );
    const { schedules } = await ofB();
    expect(schedules.map(({ id }) => id)).toEqual([B_SCHEDULE, B_LATER]);
    expect(schedules[1]?.slots[0]?.setpoint?.value).toBe(19.39);
    // Each cancels its own.
    const cancel = a1.message('schedule', { scheduleId: B_LATER }, { verb: 'cancel' }).body;
    expect((await answerOf(a1, cancel)).acknowledgement.status).not.toBe('REJECTED');
    expect((await ofB()).schedules.map(({ status }) => status)).not.toContain('CANCELLED');
    expect(team.id).not.toBe('');
  });

  its('are no reused messageIds: the command is judged as a new one [C-7.3]', async ({ scene }) => {
    const { a1, b, commands } = scene;
    for (const { messageId } of [commands.b.high, commands.b.over, commands.b.charge]) {
      const { body } = a1.message('mode', { mode: 'STANDARD' }, { messageId });
      const { acknowledgement, repeated } = await answerOf(a1, body);
      expect([acknowledgement.status, acknowledgement.message, repeated]).not.toContain('messageId reused');
      expect(acknowledgement.status).not.toBe('REJECTED');
      expect(found(JSON.stringify(acknowledgement), a1.hidden([b]))).toEqual([]);
    }
  });

  its('lead to no dead letter: it is unknown to every other key [C-15.1]', async ({ scene }) => {
    const { a1, a2, m, b, deadLetter } = scene;
    for (const asker of [a1, a2, m]) {
      const [id, query] = [deadLetter, `?keyId=${b.client.id}`];
      const unknown = `?keyId=${crypto.randomUUID()}`;
      await expectSameError(
        [query, unknown].map((one) => asker.client.call(`/vcp/dead-letters${one}`)),
        404,
        'API_KEY_NOT_FOUND',
      );
      await expectSameError(
        [id, '1-2-3'].map((one) => asker.client.post(`/vcp/dead-letters/${one}/requeue`)),
        404,
        'NOT_FOUND',
      );
      await expectSameError(
        [id, '1-2-3'].map((one) => asker.client.delete(`/vcp/dead-letters/${one}`)),
        404,
        'NOT_FOUND',
      );
    }
  });
});

describe('a member of the organization', () => {
  const ROLES = ['viewer', 'operator', 'admin', 'orgAdmin'] as const;

  it.for(ROLES)('sees every command of every partner, as a %s [C-15.1]', async (role, { scene }) => {
    const { team, siteId, a1, b, commands } = scene;
    const person = team[role];
    const org = { org: team.id };
    const { items, total } = await logFor(scene, person);
    expect(items.map(({ id }) => id).sort()).toEqual([...idsOf(commands.a), ...idsOf(commands.b)].sort());
    expect(total).toBe((await logOf(a1)).total + (await logOf(b)).total);
    for (const { commandId } of [...Object.values(commands.a), ...Object.values(commands.b)]) {
      const { command } = await person.read<{ command: CommandLogEntry }>(
        `/plants/${siteId}/commands/${commandId}/timeline`,
        org,
      );
      expect(command.id).toBe(commandId);
    }
    const explained = await person.read<Explanation>(`/plants/${siteId}/explain`, org);
    expect(explained.target).toMatchObject({ commandId: commands.b.high.commandId, kw: 13.37 });
    const { schedules } = await person.read<{ schedules: object[] }>(
      `/plants/${siteId}/schedules?${around(3 * DAY)}`,
      org,
    );
    expect(schedules).toHaveLength(3);
    const exported = await person.call(`/plants/${siteId}/export?${around()}`, org);
    if (role === 'viewer' || role === 'operator') expect(exported.status).toBe(403);
    else expect(await exported.text()).toContain(commands.b.high.commandId);
    const { body } = b.message('site-setpoint', setpoint(8, 'HIGH'));
    const asked = await person.post(`/vcp/sites/${siteId}/commands/dry-run`, body, org);
    if (role === 'viewer') expect(asked.status).toBe(403);
    else expect(await asked.text()).toContain(commands.b.high.commandId);
  });
});

describe('a command of a person', () => {
  const its = test.extend('scene', async ({ team }) => {
    const plant = await newSightPlant(team);
    const { id: siteId } = plant;
    const [a, b] = [await Sender.create(team, siteId, 'A'), await Sender.create(team, siteId, 'B')];
    const site = await connectGateway(plant);
    const payload = { mode: 'MAX_EXPORT', reason: 'The grid operator asks for it', validUntil: inMs(HOUR) };
    const bodies = [
      { family: 'mode', payload },
      { family: 'site-setpoint', payload: setpoint(15.51, 'HIGH', HOUR) },
    ];
    const ids: string[] = [];
    for (const body of bodies) {
      const answer = await team.operator.post(
        `/plants/${siteId}/commands`,
        { ...body, idempotencyKey: crypto.randomUUID() },
        { org: team.id },
      );
      ids.push(((await answer.json()) as CommandAnswer).commandId);
      await site.obey();
    }
    return { team, siteId, a, b, ids };
  });

  its(
    'is shown in full to every partner, with the slug as source and no name [C-15.1]',
    async ({ scene }) => {
      const { team, siteId, a, b, ids } = scene;
      const { id, email } = team.operator;
      for (const asker of [a, b]) {
        const { items, total } = await logOf(asker);
        expect(items.map((row) => [row.id, row.source, row.keyPrefix])).toEqual(
          ids.toReversed().map((one) => [one, team.slug, null]),
        );
        expect(total).toBe(2);
        expect(items[1]?.payload).toMatchObject({ reason: 'The grid operator asks for it' });
        expect(items[0]?.payload).toMatchObject({ targetValueKw: 15.51 });
        const explained = await asker.client.read<Explanation>(`/vcp/sites/${siteId}/explain`);
        expect(explained.target).toMatchObject({ level: 'HIGH', commandId: ids[1], kw: 15.51 });
        const config = await asker.client.read<SiteConfigSnapshot>(`/vcp/sites/${siteId}/config`);
        expect(config.modeOverride).toMatchObject({
          ...{ mode: 'MAX_EXPORT', reason: 'The grid operator asks for it' },
          ...{ commandId: ids[0], setBy: team.slug },
        });
        const lives = await Promise.all(
          ids.map((one) => asker.client.read(`/vcp/sites/${siteId}/commands/${one}/timeline`)),
        );
        const text = JSON.stringify([items, explained, config, lives]);
        for (const name of [id, email, 'Test Person', 'user:']) expect(text).not.toContain(name);
        const { body } = asker.message('site-setpoint', setpoint(8, 'HIGH'));
        const { plan } = JSON.parse(await dryRunOf(asker, body)) as DryRunAnswer;
        expect(plan?.displaces).toMatchObject([{ level: 'HIGH', commandId: ids[1] }]);
      }
    },
  );
});

describe('an emergency of another partner', () => {
  const its = test.extend('scene', async ({ team }) => {
    const plant = await newSightPlant(team);
    const { id: siteId } = plant;
    const [a, b] = [await Sender.create(team, siteId, 'A'), await Sender.create(team, siteId, 'B')];
    const site = await connectGateway(plant);
    const standing = await a.send('site-setpoint', setpoint(6.17, 'HIGH', HOUR), { numbers: [6.17] });
    await site.obey();
    const reason = 'B-smells-smoke';
    const stop = await b.send('emergency', { type: 'STOP', reason }, { words: [reason] });
    await site.obey();
    const refused = await a.send('device', charge('BESS-1', 5.57), { numbers: [5.57] });
    const waiting = await a.send('site-setpoint', setpoint(6.71, 'HIGH', HOUR), { numbers: [6.71] });
    return { siteId, a, b, standing, stop, refused, waiting, past: inMs(0) };
  });

  its(
    'is the level STOP in explain and dry run, and nothing else in any read [C-15.1]',
    async ({ scene }) => {
      const { siteId, a, b, standing, waiting, refused, past } = scene;
      const explained = await a.client.read<Explanation>(`/vcp/sites/${siteId}/explain`);
      expect(explained).toMatchObject({ emergency: 'STOP', target: { level: 'STOP', commandId: null } });
      const { body } = a.message('site-setpoint', setpoint(8, 'HIGH'));
      const { plan } = JSON.parse(await dryRunOf(a, body)) as DryRunAnswer;
      expect(plan?.waitsBelow).toEqual({ level: 'STOP', commandId: null });
      for (const [name, pathOf] of Object.entries(READS))
        expect([name, found(await a.ask(pathOf(siteId, past)), a.hidden([b]))]).toEqual([name, []]);
      for (const { commandId } of [standing, waiting, refused]) {
        const text = await a.ask(`/vcp/sites/${siteId}/commands/${commandId}/timeline`);
        expect(found(text, a.hidden([b]))).toEqual([]);
      }
    },
  );

  its(
    'ends a standing setpoint as SUPERSEDED, without the id of the emergency [C-15.1]',
    async ({ scene }) => {
      const { a, b, standing } = scene;
      const row = (await logOf(a)).items.find(({ id }) => id === standing.commandId);
      expect(row).toMatchObject({ status: 'FAILED', reason: expect.stringMatching(/^SUPERSEDED\b/) });
      expect(found(row?.reason ?? '', a.hidden([b]))).toEqual([]);
      const { events } = await a.client.read<{ events: { event: string }[] }>(
        '/vcp/events?limit=500&type=execution',
      );
      const reasons = events.flatMap(({ event }) => JSON.parse(event).payload.reason ?? []);
      expect(reasons).toEqual([expect.stringMatching(/^SUPERSEDED\b/)]);
      expect(found(reasons.join(), a.hidden([b]))).toEqual([]);
    },
  );
});

describe('a monitoring key', () => {
  const its = test.extend('scene', async ({ team }) => {
    const scene = await newScene(team);
    const path = `/partner/api-keys/${scene.m.client.id}`;
    const response = await team.orgAdmin.patch(path, { sees: 'ORGANIZATION' }, { org: team.id });
    expect(response.status).toBe(200);
    return scene;
  });

  its('reads what all partners have sent, with the same total as a member [C-15.1]', async ({ scene }) => {
    const { m, team, siteId, commands } = scene;
    const all = [...idsOf(commands.a), ...idsOf(commands.b)];
    const { items, total } = await logOf(m);
    expect(items.map(({ id }) => id).sort()).toEqual(all.sort());
    expect(total).toBe((await logFor(scene, team.viewer)).total);
    for (const commandId of all) {
      const life = await m.client.read<{ command: CommandLogEntry }>(
        `/vcp/sites/${siteId}/commands/${commandId}/timeline`,
      );
      expect(life.command.id).toBe(commandId);
    }
    const explained = await m.client.read<Explanation>(`/vcp/sites/${siteId}/explain`);
    expect(explained.target).toMatchObject({ commandId: commands.b.high.commandId, kw: 13.37 });
    const config = await m.client.read<SiteConfigSnapshot>(`/vcp/sites/${siteId}/config`);
    expect(config.activeSchedule?.id).toBe(B_LATER);
    expect(config.modeOverride).toMatchObject({ reason: 'B-avoids-the-peak' });
    expect(config.pendingCommands.map(({ id }) => id)).toEqual(
      expect.arrayContaining([commands.a.normal.commandId, commands.b.high.commandId]),
    );
    const { schedules } = await m.client.read<{ schedules: object[] }>(
      `/vcp/sites/${siteId}/schedules?${around(3 * DAY)}`,
    );
    expect(schedules).toHaveLength(3);
    const { body } = m.message('site-setpoint', setpoint(8, 'HIGH'));
    const { plan } = JSON.parse(await dryRunOf(m, body)) as DryRunAnswer;
    expect(plan?.displaces).toMatchObject([{ commandId: commands.b.high.commandId }]);
  });

  its(
    'cancels nothing of another partner: the answer is that for an unknown schedule [C-15.1]',
    async ({ scene }) => {
      const { m, b, siteId } = scene;
      const cancel = (scheduleId: string) => m.message('schedule', { scheduleId }, { verb: 'cancel' }).body;
      const { acknowledgement } = await answerOf(m, cancel(B_SCHEDULE));
      expect(acknowledgement).toMatchObject({ status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD' });
      expect(acknowledgement).toEqual((await answerOf(m, cancel(crypto.randomUUID()))).acknowledgement);
      const { schedules } = await b.client.read<{ schedules: ScheduleSummary[] }>(
        `/vcp/sites/${siteId}/schedules?${around(3 * DAY)}`,
      );
      expect(schedules.find(({ id }) => id === B_SCHEDULE)?.status).toBe('ACTIVE');
    },
  );

  its('sees its own commands alone again at once when its sight is reduced [C-15.1]', async ({ scene }) => {
    const { m, a1, b, team, siteId, past } = scene;
    const path = `/partner/api-keys/${m.client.id}`;
    await team.orgAdmin.change(path, { sees: 'PARTNER' }, { org: team.id });
    for (const [name, pathOf] of Object.entries(READS))
      expect([name, found(await m.ask(pathOf(siteId, past)), m.hidden([a1, b]))]).toEqual([name, []]);
    const { body } = m.message('site-setpoint', setpoint(8, 'HIGH'));
    expect(found(await dryRunOf(m, body), m.hidden([a1, b]))).toEqual([]);
    expect(await logOf(m)).toEqual({ items: [], total: 0, page: 1, pageSize: 500 });
  });
});
