/**
 * A walk over random pairs of a key and an object of another partner: random commands of three partners and a person at one
 * plant, then random questions and commands about them. No answer may contain anything of another partner [C-15.1].
 */
import fc from 'fast-check';
import { expect, inject } from 'vitest';
import type { CommandFamily } from '../../../protocol/routing-keys.ts';
import {
  charge,
  connectGateway,
  found,
  inMs,
  newSightPlant,
  type Own,
  READS,
  raiseLimits,
  Sender,
  type SightPlant,
  schedule,
  setpoint,
} from './command-sight.ts';
import { Team } from './team.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** How many pairs are asked at one plant. */
const PAIRS_PER_PLANT = 500;
/** How many commands a plant gets before the questions. */
const COMMANDS = 36;

/** The choices for one command. */
interface Draft {
  by: number;
  kind: number;
  level: 'NORMAL' | 'HIGH' | 'EMERGENCY';
  isOver: boolean;
  isUnsigned: boolean;
  forMs: number | undefined;
  answer: 'RECEIVED' | 'COMPLETED' | 'FAILED' | undefined;
}

const draft: fc.Arbitrary<Draft> = fc.record({
  by: fc.nat(3),
  kind: fc.nat(9),
  level: fc.constantFrom('NORMAL', 'NORMAL', 'HIGH', 'HIGH', 'EMERGENCY'),
  isOver: fc.constantFrom(false, false, false, true),
  isUnsigned: fc.constantFrom(false, false, false, false, true),
  forMs: fc.constantFrom(undefined, 10 * MINUTE, HOUR),
  answer: fc.constantFrom('RECEIVED', 'RECEIVED', 'COMPLETED', 'FAILED', undefined),
});

/** The choices for one pair. */
interface Pair {
  asker: number;
  question: number;
  object: number;
  command: Draft;
}

const pair: fc.Arbitrary<Pair> = fc.record({
  asker: fc.nat(3),
  question: fc.nat(),
  object: fc.nat(),
  command: draft,
});

interface Walk {
  team: Team;
  site: SightPlant;
  siteId: string;
  senders: readonly Sender[];
  past: string;
  /** Grows with each command, so that no two commands have the same number. */
  serial: number;
}

/** A number with four decimals that no other command of the walk has. */
function ownNumber(walk: Walk, base: number): number {
  walk.serial += 1;
  return Number(`${base}.${String(walk.serial * 7 + 1_003).padStart(4, '0')}1`);
}

/** A command of a random kind, with what only it has. */
function make(walk: Walk, { kind, level, isOver, forMs }: Draft): [CommandFamily, object, Own] {
  const serial = walk.serial + 1;
  switch (kind) {
    case 0: {
      const reason = `reason-of-mode-${serial}`;
      ownNumber(walk, 0);
      const until = forMs === undefined ? {} : { validUntil: inMs(forMs) };
      return ['mode', { mode: 'PEAK_SHAVING', reason, ...until }, { words: [reason] }];
    }
    case 1:
      return ['config', { constraints: { maxRampKwPerMinute: 50 + (serial % 50) } }, {}];
    case 2:
    case 3: {
      const scheduleId = crypto.randomUUID();
      const numbers = [ownNumber(walk, isOver ? 140 : 12), ownNumber(walk, 13)];
      return ['schedule', schedule(scheduleId, numbers, kind === 2 ? 0 : HOUR), { numbers, scheduleId }];
    }
    case 4:
    case 5: {
      const powerKw = ownNumber(walk, isOver ? 60 : 20);
      return ['device', charge(kind === 4 ? 'BESS-1' : 'BESS-2', powerKw), { numbers: [powerKw] }];
    }
    default: {
      const target = ownNumber(walk, isOver ? 150 : 30);
      return ['site-setpoint', setpoint(target, level, forMs), { numbers: [target] }];
    }
  }
}

async function newWalk(seed: number): Promise<Walk> {
  const team = await Team.create();
  await raiseLimits(team);
  const plant = await newSightPlant(team);
  const a = await Sender.create(team, plant.id, 'A');
  const senders = [
    a,
    await a.sibling(team, 'A2'),
    await Sender.create(team, plant.id, 'B'),
    await Sender.create(team, plant.id, 'C'),
  ];
  const site = await connectGateway(plant);
  const walk: Walk = { team, site, siteId: plant.id, senders, past: '', serial: 0 };
  for (const one of fc.sample(draft, { numRuns: COMMANDS, seed })) {
    const sender = senders[one.by];
    if (!sender) continue;
    const [family, payload, own] = make(walk, one);
    await sender.send(family, payload, own, one.isUnsigned ? { isUnsigned: true } : {});
    if (one.answer) await site.obey(one.answer);
  }
  return { ...walk, past: inMs(0) };
}

/** One question about an object of another partner; returns the raw answer. */
type Question = (
  walk: Walk,
  asker: Sender,
  object: Sender['sent'][number],
  command: Draft,
) => Promise<string>;

const dryRun: (body: (asker: Sender, object: Sender['sent'][number]) => object) => Question =
  (body) =>
  async ({ siteId }, asker, object) =>
    await asker.ask(`/vcp/sites/${siteId}/commands/dry-run`, body(asker, object));

/** Notes that the asker has written the ids of the object into a command of its own. */
function noteKnown(asker: Sender, { messageId, scheduleId, commandId }: Sender['sent'][number]): void {
  for (const id of [messageId, scheduleId, commandId]) if (id) asker.known.add(id);
}

const QUESTIONS: readonly (readonly [name: string, ask: Question])[] = [
  ...Object.entries(READS).map(
    ([name, pathOf]) =>
      [name, async ({ siteId, past }, asker) => await asker.ask(pathOf(siteId, past))] as [string, Question],
  ),
  ...[1, 2, 3].map(
    (page) =>
      [
        `page ${page} of the log`,
        async ({ siteId }, asker) =>
          await asker.ask(`/vcp/sites/${siteId}/commands?page=${page}&pageSize=${page + 1}`),
      ] as [string, Question],
  ),
  [
    'the timeline of the object',
    async ({ siteId }, asker, { commandId }) =>
      await asker.ask(`/vcp/sites/${siteId}/commands/${commandId}/timeline`),
  ],
  [
    'the timelines of the own commands',
    async ({ siteId }, asker, { commandId }) => {
      const own = asker.sent[commandId.charCodeAt(0) % Math.max(1, asker.sent.length)];
      return await asker.ask(`/vcp/sites/${siteId}/commands/${own?.commandId ?? commandId}/timeline`);
    },
  ],
  ...(['NORMAL', 'HIGH', 'EMERGENCY'] as const).map(
    (level) =>
      [
        `a dry run of a ${level} setpoint`,
        dryRun((asker) => asker.message('site-setpoint', setpoint(9, level, HOUR)).body),
      ] as const,
  ),
  ['a dry run of a battery command', dryRun((asker) => asker.message('device', charge('BESS-2', 49)).body)],
  [
    'a dry run of a configuration',
    dryRun((asker) => asker.message('config', { constraints: { maxImportKw: 25 } }).body),
  ],
  ['a dry run of an emergency', dryRun((asker) => asker.message('emergency', { type: 'STOP' }).body)],
  [
    'a dry run that cancels the schedule of the object',
    dryRun(
      (asker, { scheduleId, commandId }) =>
        asker.message('schedule', { scheduleId: scheduleId ?? commandId }, { verb: 'cancel' }).body,
    ),
  ],
  [
    'a dry run of several commands',
    dryRun((asker, { messageId }) => ({
      commands: [
        asker.message('site-setpoint', setpoint(9, 'HIGH', HOUR)).body,
        asker.message('device', charge('BESS-1', 49)).body,
        asker.message('mode', { mode: 'STANDARD' }, { messageId }).body,
        asker.message('emergency', { type: 'HOLD' }).body,
      ],
    })),
  ],
  [
    'a command that cancels the schedule of the object',
    async ({ siteId }, asker, object) => {
      const { scheduleId = object.commandId } = object;
      const { body } = asker.message('schedule', { scheduleId }, { verb: 'cancel' });
      noteKnown(asker, object);
      return await asker.ask(`/vcp/sites/${siteId}/commands`, body);
    },
  ],
  [
    'a command with the messageId of the object',
    async (_walk, asker, object) => {
      noteKnown(asker, object);
      const { acknowledgement } = await asker.send(
        'mode',
        { mode: 'STANDARD' },
        {},
        { messageId: object.messageId },
      );
      return JSON.stringify(acknowledgement);
    },
  ],
  [
    'a command of its own',
    async (walk, asker, _object, command) => {
      const [family, payload, own] = make(walk, command);
      const changes = command.isUnsigned ? { isUnsigned: true } : {};
      const { acknowledgement } = await asker.send(family, payload, own, changes);
      if (command.answer) await walk.site.obey(command.answer);
      return JSON.stringify(acknowledgement);
    },
  ],
];

/** What a pair found: the question, and what its answer contains of other partners. */
async function askPair(walk: Walk, { asker: place, question, object: chosen, command }: Pair) {
  const asker = walk.senders[place];
  const [name, ask] = QUESTIONS[question % QUESTIONS.length] ?? [];
  if (!asker || !ask) throw new Error('the walk has no such key or question');
  const others = walk.senders.filter(({ partnerId }) => partnerId !== asker.partnerId);
  const objects = [...new Set(others.map(({ sent }) => sent))].flat();
  const object = objects[chosen % Math.max(1, objects.length)];
  if (!object) throw new Error('the other partners have sent nothing');
  const text = await ask(walk, asker, object, command);
  return { asker: asker.name, name, leaks: found(text, asker.hidden(walk.senders)) };
}

/** Asks that many pairs, from that seed; a failure names the seed, the pair and what its answer contains. */
export async function walkSight(seed = inject('sightSeed'), count = inject('sightPairs')): Promise<void> {
  const asked = new Set<string>();
  for (let start = 0; start < count; start += PAIRS_PER_PLANT) {
    const ofPlant = seed + start / PAIRS_PER_PLANT;
    const walk = await newWalk(ofPlant);
    const numRuns = Math.min(PAIRS_PER_PLANT, count - start);
    for (const [index, one] of fc.sample(pair, { numRuns, seed: ofPlant }).entries()) {
      const { asker, name, leaks } = await askPair(walk, one);
      expect({ seed: ofPlant, pair: index, asker, name, leaks }).toEqual({
        ...{ seed: ofPlant, pair: index, asker, name, leaks: [] },
      });
      asked.add(`${asker} ${name}`);
    }
  }
  // A walk that met few of the pairs of key and question would be worth little.
  expect(asked.size).toBeGreaterThan(Math.min(count, 4 * QUESTIONS.length) / 2);
}
