/** `npm run demo`: the main loop once against a running stack, each step with its latency. Exit 0 only if all held. */
import { Partner, type ReceivedEvent } from './partner.ts';
import { readStack, type Stack } from './stack-file.ts';

const STEP_TIMEOUT_MS = 10_000;
const TELEMETRY_TIMEOUT_MS = 20_000;

async function readBatteryPower(stack: Stack, siteId: string): Promise<number> {
  const response = await fetch(`${stack.baseUrl}/api/v1/vcp/sites/${siteId}/telemetry/latest`, {
    headers: { 'x-api-key': stack.apiKey.key },
  });
  const body = (await response.json()) as { payload: { batteryPowerKw: number | null } };
  return body.payload.batteryPowerKw ?? 0;
}

async function untilTelemetryMoved(stack: Stack, siteId: string, wantedKw: number): Promise<number> {
  const giveUpAt = performance.now() + TELEMETRY_TIMEOUT_MS;
  for (;;) {
    const powerKw = await readBatteryPower(stack, siteId);
    if (Math.abs(powerKw - wantedKw) < 0.5) return powerKw;
    if (performance.now() > giveUpAt) throw new Error(`battery at ${powerKw} kW, wanted ${wantedKw} kW`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const { stack, partner } = await connect();
const [plant] = stack.plants;
if (!plant) throw new Error('the stack has no plant');
const battery = plant.subDevices.find((subDevice) => subDevice.assetType === 'BESS')?.deviceId ?? '';

async function connect(): Promise<{ stack: Stack; partner: Partner }> {
  try {
    const running = readStack();
    const connected = await Partner.connect({
      ...running.amqp,
      ...running.apiKey,
      slug: running.organization.slug,
    });
    for (const queue of ['event.status', 'event.execution', 'event.alarm']) await connected.consume(queue);
    return { stack: running, partner: connected };
  } catch (error) {
    console.error(`The demo cannot begin: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  }
}

let startedAt = performance.now();
function show(step: string, detail: string, atMs = performance.now()): void {
  console.log(`${(atMs - startedAt).toFixed(1).padStart(9)} ms  ${step.padEnd(22)} ${detail}`);
}

/** Waits for the event with that status, and shows it. */
async function expectEvent(
  step: string,
  queue: string,
  correlationId: string,
  status: string,
): Promise<void> {
  const fits = (event: ReceivedEvent) => event.queue === queue && event.correlationId === correlationId;
  const event = await partner
    .waitFor((one) => fits(one) && one.payload.status === status, STEP_TIMEOUT_MS)
    .catch(() => {
      const seen = partner.events.filter(fits).map((one) => JSON.stringify(one.payload));
      throw new Error(`${step}: no ${status}; seen: ${seen.join(' ') || 'nothing'}`);
    });
  show(step, status, event.atMs);
}

try {
  console.log(`\nsite setpoint: import 20 kW at ${plant.name}`);
  startedAt = performance.now();
  const setpoint = await partner.publish('site-setpoint', plant.id, {
    type: 'POWER',
    targetValueKw: 20,
    direction: 'IMPORT',
    includeConsumption: true,
    priority: 'NORMAL',
    validFrom: new Date().toISOString(),
    validUntil: new Date(Date.now() + 3_600_000).toISOString(),
  });
  show('confirmed', 'recorded by the site');
  await expectEvent('acknowledgement', 'event.status', setpoint.correlationId, 'ACCEPTED');
  await expectEvent('execution', 'event.execution', setpoint.correlationId, 'EXECUTING');

  const before = await readBatteryPower(stack, plant.id);
  const wantedKw = before > 0 ? -12.5 : 12.5;
  const command = wantedKw > 0 ? 'BESS_CHARGE' : 'BESS_DISCHARGE';
  console.log(`\nbattery command, signed: ${command} ${Math.abs(wantedKw)} kW on ${battery}`);
  startedAt = performance.now();
  const batch = await partner.publish('device', plant.id, {
    commands: [{ deviceId: battery, assetType: 'BESS', command, params: { powerKw: Math.abs(wantedKw) } }],
  });
  show('confirmed', 'recorded by the site');
  await expectEvent('acknowledgement', 'event.status', batch.correlationId, 'ACCEPTED');
  await expectEvent('execution', 'event.execution', batch.correlationId, 'EXECUTING');
  await expectEvent('execution', 'event.execution', batch.correlationId, 'COMPLETED');
  const after = await untilTelemetryMoved(stack, plant.id, wantedKw);
  show('telemetry', `battery ${before} kW -> ${after} kW`);
  console.log('\nThe main loop holds.');
} catch (error) {
  console.error(`\nThe main loop does not hold: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  await partner.close();
}
