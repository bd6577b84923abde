/**
 * `npm run demo`: runs the main flow once against a running stack and prints the latency of each step: a
 * setpoint, a setpoint of higher priority that displaces it for a while, and a signed battery command. It
 * stops the battery at its end, so that repeated runs never fill or empty it. It exits with 0 only if all
 * steps succeed.
 */
import type { CommandFamily } from '../protocol/routing-keys.ts';
import { Partner, type ReceivedEvent } from './partner.ts';
import { showHelp } from './show-help.ts';
import { readStack, type Stack } from './stack-file.ts';

const USAGE =
  'npm run demo: runs the main flow once against the stack that npm start has started; takes no options';

showHelp(USAGE);

const STEP_TIMEOUT_MS = 10_000;
const TELEMETRY_TIMEOUT_MS = 20_000;
const HOUR_MS = 3_600_000;
const HIGH_LASTS_MS = 6_000;
/** How long the last setpoint of the demo is valid: the plant then follows its mode again. */
const LAST_MS = 2_000;

interface Begun {
  stack: Stack;
  plant: Stack['plants'][number];
  partner: Partner;
}

const { stack, plant, partner } = await begin();
const battery = plant.subDevices.find((subDevice) => subDevice.assetType === 'BESS')?.deviceId ?? '';

async function begin(): Promise<Begun> {
  try {
    const running = readStack();
    const [first] = running.plants;
    if (!first) throw new Error('the running stack has no plant');
    const connected = await Partner.connect({
      ...running.amqp,
      ...running.apiKey,
      slug: running.organization.slug,
    });
    for (const queue of ['event.status', 'event.execution', 'event.alarm']) await connected.consume(queue);
    return { stack: running, plant: first, partner: connected };
  } catch (error) {
    console.error(`Cannot run the demo: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  }
}

let startedAt = performance.now();
function title(text: string): void {
  console.log(`\n${text}`);
  startedAt = performance.now();
}

function show(step: string, detail: string, atMs = performance.now()): void {
  console.log(`${(atMs - startedAt).toFixed(1).padStart(9)} ms  ${step.padEnd(22)} ${detail}`);
}

async function readPower(of: 'grid' | 'battery'): Promise<number> {
  const response = await fetch(`${stack.baseUrl}/api/v1/vcp/sites/${plant.id}/telemetry/latest`, {
    headers: { 'x-api-key': stack.apiKey.key },
  });
  const { payload } = (await response.json()) as { payload: Record<string, number | null> };
  return payload[`${of}PowerKw`] ?? 0;
}

/** Waits until telemetry shows that power, and prints it. */
async function expectPower(of: 'grid' | 'battery', wantedKw: number): Promise<void> {
  const giveUpAt = performance.now() + TELEMETRY_TIMEOUT_MS;
  for (;;) {
    const powerKw = await readPower(of);
    if (Math.abs(powerKw - wantedKw) < 0.5) {
      show('telemetry', `${of} at ${powerKw} kW`);
      return;
    }
    if (performance.now() > giveUpAt)
      throw new Error(`the ${of} power is ${powerKw} kW, but the demo expects ${wantedKw} kW`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Waits for an event of the command that has one of these statuses. */
async function waitForEvent(
  step: string,
  queue: string,
  correlationId: string,
  statuses: string[],
): Promise<ReceivedEvent> {
  const fits = (event: ReceivedEvent) => event.queue === queue && event.correlationId === correlationId;
  return await partner
    .waitFor((one) => fits(one) && statuses.includes(String(one.payload.status)), STEP_TIMEOUT_MS)
    .catch(() => {
      const seen = partner.events.filter(fits).map((one) => JSON.stringify(one.payload));
      throw new Error(
        `${step}: no event with status ${statuses.join(' or ')} arrived; received: ${seen.join(' ') || 'nothing'}`,
      );
    });
}

/**
 * Publishes a command, prints its confirm, acknowledgement and first execution event, and returns its
 * correlationId.
 */
async function command(family: CommandFamily, payload: object): Promise<string> {
  const { correlationId } = await partner.publish(family, plant.id, payload);
  show('confirmed', 'recorded by the site');
  const taken = await waitForEvent('acknowledgement', 'event.status', correlationId, ['ACCEPTED']);
  show('acknowledgement', 'ACCEPTED', taken.atMs);
  const begun = await waitForEvent('execution', 'event.execution', correlationId, ['EXECUTING']);
  show('execution', 'EXECUTING', begun.atMs);
  return correlationId;
}

async function importPower(
  targetValueKw: number,
  priority: 'NORMAL' | 'HIGH',
  lastsMs: number,
): Promise<string> {
  return await command('site-setpoint', {
    type: 'POWER',
    targetValueKw,
    direction: 'IMPORT',
    includeConsumption: true,
    priority,
    validFrom: new Date().toISOString(),
    validUntil: new Date(Date.now() + lastsMs).toISOString(),
  });
}

/** Sends a battery command and waits until it is COMPLETED. */
async function commandBattery(name: string, params: { powerKw?: number }): Promise<void> {
  const correlationId = await command('device', {
    commands: [{ deviceId: battery, assetType: 'BESS', command: name, params }],
  });
  const done = await waitForEvent('execution', 'event.execution', correlationId, ['COMPLETED']);
  show('execution', 'COMPLETED', done.atMs);
}

/** Waits for the verdict at the end of a setpoint and prints it. */
async function expectVerdict(correlationId: string): Promise<void> {
  const verdict = await waitForEvent('verdict', 'event.execution', correlationId, ['COMPLETED', 'DEVIATED']);
  const { status, actualValueKw, targetValueKw } = verdict.payload;
  show('verdict', `${status}: ${actualValueKw ?? 'unmeasured'} of ${targetValueKw} kW`, verdict.atMs);
}

try {
  title(`site setpoint: import 20 kW at ${plant.name} for an hour`);
  const normal = await importPower(20, 'NORMAL', HOUR_MS);
  await expectPower('grid', 20);

  title(`site setpoint of HIGH priority: import 5 kW for ${HIGH_LASTS_MS / 1_000} s`);
  const high = await importPower(5, 'HIGH', HIGH_LASTS_MS);
  await expectPower('grid', 5);
  await expectVerdict(high);

  title('the NORMAL setpoint becomes active again');
  await expectPower('grid', 20);

  const wantedKw = (await readPower('battery')) > 0 ? -12.5 : 12.5;
  const name = wantedKw > 0 ? 'BESS_CHARGE' : 'BESS_DISCHARGE';
  title(`battery command, signed: ${name} ${Math.abs(wantedKw)} kW on ${battery}`);
  await commandBattery(name, { powerKw: Math.abs(wantedKw) });
  await expectPower('battery', wantedKw);

  title(`battery stop: BESS_STOP on ${battery}`);
  await commandBattery('BESS_STOP', {});
  await expectPower('battery', 0);

  title('end of the NORMAL setpoint: a newer one replaces it and ends at once');
  await importPower(20, 'NORMAL', LAST_MS);
  const ended = await waitForEvent('execution', 'event.execution', normal, [
    'FAILED',
    'COMPLETED',
    'DEVIATED',
  ]);
  show('execution', `${ended.payload.status} ${ended.payload.reason ?? ''}`.trim(), ended.atMs);
  console.log('\nDemo passed.');
} catch (error) {
  console.error(`\nDemo failed: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  await partner.close();
}
