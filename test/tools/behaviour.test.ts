/**
 * The simulated plant's switches and the table of docs/simulator.md, as a partner sees them, on one running
 * stack.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cleanUp, newFolder, partnerOf, readSite, run, start } from '#support/dev-stack.ts';
import { eventually } from '#support/stack.ts';
import { readOrder } from '../../tools/order.ts';
import type { Partner, ReceivedEvent } from '../../tools/partner.ts';
import type { Stack } from '../../tools/stack-file.ts';

const DOCUMENT = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'simulator.md'), 'utf8');
const PATIENCE_MS = 20_000;

let folder: string;
let stack: Stack;
let partner: Partner;
beforeAll(async () => {
  folder = newFolder();
  ({ described: stack } = await start(folder, { SITEWIRE_SIMULATOR: 'silent' }));
  partner = await partnerOf(stack);
  await partner.consume('event.alarm');
});
afterAll(async () => {
  await partner.close();
  await cleanUp();
});

interface Sent {
  correlationId: string;
  /** The results so far, acknowledgement and executions: the status and its reason. */
  outcomes(): string[];
}

async function behave(word: string): Promise<void> {
  const command = run('simulator.ts', folder, {}, [word]);
  expect([await command.ended, command.output()]).toEqual([0, expect.stringContaining(`to ${word}.`)]);
}

async function send(key: string, payload: object | string): Promise<Sent> {
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
  const order = readOrder(key, text, Date.now());
  const options = order.word ? { word: order.word } : {};
  const siteId = stack.plants[0]?.id ?? '';
  const { correlationId } = await partner.publish(order.family, siteId, order.payload, options);
  const isOurs = (event: ReceivedEvent) =>
    event.correlationId === correlationId && event.queue !== 'event.alarm';
  const outcomes = () =>
    partner.events
      .filter(isOurs)
      .map(({ payload: { status, rejectionCode, reason } }) =>
        [status, rejectionCode ?? reason ?? ''].join(' ').trim(),
      );
  await partner.waitFor((event) => isOurs(event) && event.queue === 'event.status');
  return { correlationId, outcomes };
}

async function expectOutcome({ outcomes }: Sent, wanted: string): Promise<void> {
  const isThere = () => outcomes().some((outcome) => outcome.startsWith(wanted));
  await eventually(isThere, PATIENCE_MS).catch(() => {});
  expect(outcomes()).toContainEqual(expect.stringMatching(new RegExp(`^${wanted}`)));
}

async function expectAlarm(type: string, status: string, sinceMs: number): Promise<void> {
  await partner.waitFor(
    ({ queue, atMs, payload }) =>
      queue === 'event.alarm' && payload.type === type && payload.status === status && atMs >= sinceMs,
    PATIENCE_MS,
  );
}

async function batteryPowerKw(): Promise<number | null> {
  type Latest = { payload: { batteryPowerKw: number | null } };
  return (await readSite<Latest>(stack, 'telemetry/latest')).payload.batteryPowerKw;
}

const charge = (powerKw: number) => ({
  commands: [{ deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw } }],
});
const setpoint = (lastsSeconds: number) => ({
  type: 'POWER',
  targetValueKw: 20,
  direction: 'IMPORT',
  includeConsumption: true,
  priority: 'NORMAL',
  validFrom: 'now',
  validUntil: `now+${lastsSeconds}s`,
});

describe('the simulated plant', () => {
  it('in mode silent is online, and sends neither readings nor acknowledgements', async () => {
    const first = await send('command.site-setpoint', setpoint(1));
    const second = await send('command.device', charge(20));
    expect([...first.outcomes(), ...second.outcomes()]).toEqual(['ACCEPTED', 'ACCEPTED']);
    expect(await batteryPowerKw()).toBeNull();
  });

  it('in mode offline is disconnected: commands wait for it', async () => {
    await behave('offline');
    await expectOutcome(await send('command.site-setpoint', setpoint(2)), 'QUEUED');
  });

  it('in mode slow executes commands, and acknowledges late', async () => {
    await behave('slow');
    const sent = await send('command.device', charge(15));
    await eventually(async () => (await batteryPowerKw()) === 15);
    expect(sent.outcomes()).toEqual(['ACCEPTED']);
    await expectOutcome(sent, 'COMPLETED');
  });

  it('in mode faulty reports a fault until the mode ends: setpoints fail, battery commands are rejected', async () => {
    const sinceMs = performance.now();
    await behave('faulty');
    await expectAlarm('DEVICE_FAULT', 'RAISED', sinceMs);
    await expectOutcome(await send('command.site-setpoint', setpoint(60)), 'FAILED');
    await expectOutcome(await send('command.device', charge(20)), 'REJECTED DEVICE_FAULT');
    await behave('on');
    await expectAlarm('DEVICE_FAULT', 'CLEARED', sinceMs);
  });

  it('in mode short delivers a part of the target, and its setpoint ends as DEVIATED [C-7.8]', async () => {
    await behave('short');
    await expectOutcome(await send('command.device', charge(20)), 'COMPLETED');
    await eventually(async () => (await batteryPowerKw()) === 12);
    const sent = await send('command.site-setpoint', setpoint(4));
    await expectOutcome(sent, 'DEVIATED');
    expect(sent.outcomes()).toEqual(['ACCEPTED', 'EXECUTING', 'DEVIATED']);
    const verdict = partner.events.find(
      ({ correlationId, payload }) =>
        correlationId === sent.correlationId && payload.targetValueKw === 20 && payload.status === 'DEVIATED',
    );
    expect(verdict?.payload).toMatchObject({ actualValueKw: 12, deviationKw: -8 });
  });

  it('in mode off disconnects, and its commands wait until it is on again', async () => {
    await behave('off');
    const waiting = await send('command.device', charge(10));
    expect(waiting.outcomes()).toEqual(['QUEUED']);
    await behave('on');
    await expectOutcome(waiting, 'COMPLETED');
  });

  it('executes an order sent by hand, whose events are printed to the end', async () => {
    await behave('on');
    const stop = { commands: [{ deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_STOP' }] };
    const sent = run('send.ts', folder, {}, ['command.device', JSON.stringify(stop)]);
    expect(await sent.ended, sent.output()).toBe(0);
    expect(sent.output()).toMatch(/confirmed\n.*(ACCEPTED.*COMPLETED|COMPLETED.*ACCEPTED)/s);
    const unsigned = run('send.ts', folder, {}, ['command.mode', '{"mode":"STANDARD"}', '--unsigned']);
    expect(await unsigned.ended).toBe(0);
    expect(unsigned.output()).toMatch(/REJECTED.*signature missing/);
  });

  it('has a closed list of modes: npm run sitewire -- simulate refuses another one and names them', async () => {
    const command = run('simulator.ts', folder, {}, ['quick']);
    expect(await command.ended).toBe(1);
    expect(command.output()).toMatch(/^the behaviour must be one of off, on, .*, not "quick"\n$/);
  });
});

const SECTION = DOCUMENT.split('## To see X, send Y')[1]?.split('What takes longer')[0] ?? '';

/** The commands below the table by their names: routing key and payload. */
const COMMANDS = new Map(
  [...SECTION.matchAll(/^# (\S+)\nnpm run sitewire -- send (\S+) '(.*)'$/gm)].map(
    ([, name = '', key = '', payload = '']) => [name, { key, payload }],
  ),
);

/** The rows of `To see X, send Y`: outcome, plant, and the commands to send. */
const ROWS = SECTION.split('\n')
  .filter((line) => line.startsWith('| `'))
  .map((line) => {
    const [, see = '', plant = '', given = ''] = line.split('|').map((cell) => cell.trim());
    const spans = (cell: string) => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text);
    return {
      see,
      outcomes: spans(see).map((text) => text.replace(' by …', ' by')),
      plant: spans(plant)[0],
      names: spans(given),
    };
  });

async function sendAll(names: readonly string[]): Promise<Sent[]> {
  const sent: Sent[] = [];
  for (const name of names) {
    const command = COMMANDS.get(name);
    if (!command) throw new Error(`docs/simulator.md has no command "${name}"`);
    sent.push(await send(command.key, command.payload));
  }
  return sent;
}

describe('the table of docs/simulator.md', () => {
  let plantIs: string | undefined;

  it('has 17 rows', () => {
    expect(ROWS).toHaveLength(17);
  });

  it.each(ROWS)('shows the outcome that its row promises: $see', async ({ outcomes, plant, names, see }) => {
    const sinceMs = performance.now();
    if (plant && plant !== plantIs) await behave(plant);
    if (plant === 'faulty' && plantIs !== 'faulty') await expectAlarm('DEVICE_FAULT', 'RAISED', sinceMs);
    plantIs = plant;
    const [sent] = await sendAll(names);
    if (!sent) throw new Error(`the row "${see}" sends nothing`);
    for (const outcome of outcomes) await expectOutcome(sent, outcome);
    if (!see.includes('its alarm')) return;
    await eventually(
      () =>
        partner.events.some(
          ({ queue, correlationId }) => queue === 'event.alarm' && correlationId === sent.correlationId,
        ) || undefined,
    );
  });
});
