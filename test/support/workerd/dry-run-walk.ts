/**
 * A walk of random commands in random states of a site: each is asked in a dry run and then published, and both must be
 * answered alike [C-13.1].
 */
import fc from 'fast-check';
import { expect, vi } from 'vitest';
import type { Submission, SubmissionResult } from '../../../durable-objects/rpc.ts';
import { type DryRunAnswer, dryRunAnswer } from '../../../protocol/dry-run.ts';
import { UNLIMITED } from '../../../protocol/site-config.ts';
import { randomCommand } from './random-commands.ts';
import { setScene } from './scene.ts';
import { passTime, SECOND } from './site-clock.ts';
import { connectListening, sendAck, sendTelemetry } from './site-devices.ts';
import { PLANNED, sentCommands } from './site-plan.ts';
import { openSessions } from './site-rows.ts';
import type { Submitter } from './site-submissions.ts';
import { DEFAULT_SUB_DEVICES, LIMITED, type PlantOptions, siteOf } from './world.ts';

export const SITE: PlantOptions = {
  subDevices: [...DEFAULT_SUB_DEVICES, { externalId: 'BESS-2', assetType: 'BESS', ratedPowerKw: 30 }],
  config: { ...LIMITED, hardLimits: { ...UNLIMITED, maxImportKw: 105, maxSocPercent: 95 } },
};
/** The least step that the tests take beyond an admissible value. */
const QUANTUM = 0.001;

export async function ask(partner: Submitter, ...commands: Submission[]): Promise<DryRunAnswer[]> {
  const texts = await siteOf(partner.siteId).dryRun(partner.batchOf(commands), partner.asker);
  return texts.map((text) => dryRunAnswer.parse(JSON.parse(text)));
}

export async function askOne(partner: Submitter, command: Submission): Promise<DryRunAnswer> {
  const [answer] = await ask(partner, command);
  if (!answer) throw new Error('the dry run had no answer');
  return answer;
}

async function publish(partner: Submitter, command: Submission): Promise<SubmissionResult> {
  const { results } = await partner.submit({ ...command, wantsResult: true });
  const [result] = results ?? [];
  if (!result) throw new Error('the command was not recorded');
  return result;
}

/** The answer without what each dry run makes, and without the turns that the site runs by itself. */
function comparable({ asOf, plan, ...answer }: DryRunAnswer) {
  return { ...answer, asOf: { ...asOf, sequence: 0 }, plan: JSON.stringify(plan)?.length };
}

/** The payload with this value in a field that is named like `commands[0].params.powerKw`. */
function withField(payload: Record<string, unknown>, field: string, value: number): object {
  const changed = structuredClone(payload);
  const names = field.replace(/\[(\d+)\]/g, '.$1').split('.');
  const last = names.pop() ?? '';
  let at = changed as Record<string, unknown>;
  for (const name of names) {
    at[name] ??= {};
    at = at[name] as Record<string, unknown>;
  }
  at[last] = value;
  return changed;
}

/** Each admissible value is accepted, all of them together; one quantum beyond one of them is refused. */
async function expectAdmissible(partner: Submitter, command: Submission, { stages }: DryRunAnswer) {
  const named = stages.flatMap(({ stage, admissible }) =>
    admissible && !admissible.field.startsWith('the sum') ? [{ stage, ...admissible }] : [],
  );
  if (named.length === 0) return 0;
  const within = named.reduce<object>(
    (payload, { field, min, max }) => withField(payload as Record<string, unknown>, field, min ?? max ?? 0),
    JSON.parse(command.payloadText),
  );
  const fresh = (payload: object) => ({
    ...command,
    messageId: crypto.randomUUID(),
    payloadText: JSON.stringify(payload),
  });
  const accepted = await askOne(partner, fresh(within));
  const refusedFields = ({ stages: all }: DryRunAnswer) =>
    all.flatMap(({ admissible }) => admissible?.field ?? []);
  expect({ within, status: accepted.acknowledgement.status }).not.toMatchObject({ status: 'REJECTED' });
  expect(refusedFields(accepted).filter((field) => named.some((one) => one.field === field))).toEqual([]);
  for (const { field, min, max } of named) {
    const value = min === undefined ? (max ?? 0) + QUANTUM : min - QUANTUM;
    const beyond = withField(within as Record<string, unknown>, field, value);
    const refused = await askOne(partner, fresh(beyond));
    expect({
      beyond,
      stages: refused.stages.filter(({ outcome }) => outcome === 'refused').map(({ stage }) => stage),
    }).toMatchObject({
      stages: expect.arrayContaining(['constraint']),
    });
  }
  return named.length;
}

/** Every end that a walk must meet, or it would be worth little. */
const ENDS = [
  ...['ACCEPTED dispatch', 'ACCEPTED plan', 'PARTIAL dispatch', 'QUEUED plan', 'REJECTED constraint'],
  ...['REJECTED freshness', 'REJECTED payload', 'REJECTED repeat', 'REJECTED signature', 'REJECTED target'],
  'REJECTED window',
];

/** Walks with this number of commands. */
export async function walkDryRun(seed: number, count: number): Promise<void> {
  const { plant, partner, link: first } = await setScene({ ...PLANNED, plant: SITE });
  let link: typeof first | undefined = first;
  const drafts = fc.sample(randomCommand, { numRuns: count, seed });
  const chances = fc.sample(fc.nat(999), { numRuns: count, seed });
  const used: string[] = [];
  let admissible = 0;
  const seen = new Map<string, number>();
  for (const [index, draft] of drafts.entries()) {
    const chance = chances[index] ?? 0;
    if (chance < 60) await passTime(plant.id, chance * 2 * SECOND);
    else if (chance < 80 && link) {
      link.socket.close(1000, 'bye');
      await vi.waitFor(async () => expect(await openSessions(plant.id)).toBe(0));
      link = undefined;
    } else if (chance < 140 && !link) link = await connectListening(plant);
    else if (chance < 200 && link) {
      for (const { cmdId } of (await sentCommands(link, plant)).slice(-4))
        await sendAck(link, plant.gateway, cmdId, chance < 150 ? 'FAILED' : 'COMPLETED');
    } else if (chance < 240 && link)
      await sendTelemetry(link, plant.gateway, {
        'BESS-1/fault': chance % 4 === 0 ? 3 : 0,
        'BESS-1/socPercent': chance % 3 === 0 ? 97 : 50,
      });
    const command = draft(Date.now(), used);
    const asked = await askOne(partner, command);
    const again = await askOne(partner, command);
    expect(comparable(again)).toEqual(comparable(asked));
    const { acknowledgement, isRepeated } = await publish(partner, command);
    expect({ command, acknowledgement }).toEqual({ command, acknowledgement: asked.acknowledgement });
    expect(asked.repeated ?? false).toBe(isRepeated);
    admissible += await expectAdmissible(partner, command, asked);
    used.push(command.messageId);
    const key = `${acknowledgement.status} ${asked.decidedBy}`;
    seen.set(key, (seen.get(key) ?? 0) + 1);
  }
  expect([...seen.keys()]).toEqual(expect.arrayContaining(ENDS));
  expect(admissible).toBeGreaterThan(count / 100);
}
