/**
 * P8: what one plant with a reading every 5 s costs per hour, with a partner that consumes all its events:
 * rows written, requests, and the seconds in which Site and Vhost cannot hibernate. Measured by the product's
 * Worker with meters around its objects.
 *
 * Cloudflare bills the duration of an object while it runs or while something holds it in memory that could
 * not wake it again; an object that may hibernate is not billed, even before it does. A WebSocket message
 * counts as a twentieth of a request, a `setAlarm` as a row written.
 */
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import { type Figure, report } from './figures.ts';
import { connectInstantDevice } from './instant-device.ts';
import type { MeterReport, ObjectKind } from './meter-report.ts';
import { OBJECT_KINDS as KINDS, METERED_ENTRY, readMeters, rowsOf, sum } from './meters.ts';
import { CommandingPartner, publishTelemetry } from './plant-load.ts';

const MINUTES = 60;
const INTERVAL_MS = 5_000;
const SETTLE_MS = 15_000;
const COMMANDS = 40;
const COMMAND_EVERY_MS = 500;
/**
 * Number of pauses in which both objects must hibernate; each is longer than the 10 s after which the runtime
 * evicts an idle object.
 */
const SILENCES = 3;
const SILENCE_MS = 25_000;

const HOURS_PER_MONTH = 730;
const PRICE = { row: 1 / 1e6, request: 0.15 / 1e6, gigabyteSecond: 12.5 / 1e6 };
const OBJECT_GIGABYTES = 0.128;
const MESSAGES_PER_REQUEST = 20;

type Meters = Record<ObjectKind, MeterReport>;

export async function benchCost(minutes: number = MINUTES): Promise<void> {
  const stack = await startBenchStack({ entry: METERED_ENTRY });
  const [plant] = stack.plants;
  if (!plant) throw new Error('The stack of this benchmark has no plant: a bug of the benchmark');
  const device = await connectInstantDevice(stack, plant);
  const partner = await CommandingPartner.start(await stack.partner(), 'acme');
  await pause(SETTLE_MS);

  const messages = Math.round((minutes * 60_000) / INTERVAL_MS);
  const before = await readBoth(stack);
  const eventsBefore = partner.eventCount;
  const startedAt = performance.now();
  for (let sent = 0; sent < messages; sent++) {
    await publishTelemetry(device, plant);
    await pause(startedAt + (sent + 1) * INTERVAL_MS - performance.now());
  }
  const hours = (performance.now() - startedAt) / 3_600_000;
  const during = difference(await readBoth(stack), before);
  const events = partner.eventCount - eventsBefore;

  await pause(SETTLE_MS);
  const beforeCommands = await readBoth(stack);
  for (let sent = 0; sent < COMMANDS; sent++) {
    await partner.complete(plant);
    await pause(COMMAND_EVERY_MS);
  }
  await pause(SETTLE_MS);
  const commands = difference(await readBoth(stack), beforeCommands);

  const beforeSilence = await readBoth(stack);
  for (let silence = 0; silence < SILENCES; silence++) {
    await pause(SILENCE_MS);
    await publishTelemetry(device, plant);
  }
  const silences = difference(await readBoth(stack), beforeSilence);

  await partner.partner.close();
  device.end(true);
  await stack.stop();
  const scaled = minutes === MINUTES ? '' : `, ${minutes} minutes scaled to an hour`;
  report('p8', `one hour of a plant with a reading every 5 s and a connected partner${scaled}`, [
    ...KINDS.flatMap((kind) => hourOf(kind, during[kind], hours)),
    ...perPiece(during, commands, messages, events),
    ...KINDS.flatMap((kind) => hibernationOf(kind, silences[kind])),
  ]);
  printCalls(during, hours);
}

function hourOf(kind: ObjectKind, meter: MeterReport, hours: number): Figure[] {
  const rows = rowsOf(meter) / hours;
  const { webSocketMessage: frames = 0, alarm: alarms = 0 } = meter.calls;
  const calls = sum(Object.values(meter.calls));
  const requests = (calls - frames + frames / MESSAGES_PER_REQUEST) / hours;
  const busy = meter.busyMs / 1_000 / hours;
  const dollars =
    HOURS_PER_MONTH *
    (rows * PRICE.row + requests * PRICE.request + busy * OBJECT_GIGABYTES * PRICE.gigabyteSecond);
  const figure = (name: string, value: number, unit: string): Figure => ({
    name: `${kind}: ${name}`,
    value,
    unit,
  });
  return [
    figure('rows written, including setAlarm', rows, '1/h'),
    figure('seconds awake (billed)', busy, 's/h'),
    figure('  of these in handlers', meter.handlerMs / 1_000 / hours, 's/h'),
    figure('seconds in which it may hibernate', Math.max(0, 3_600 - busy), 's/h'),
    figure('wakes from hibernation', meter.wakes / hours, '1/h'),
    figure('WebSocket messages', frames / hours, '1/h'),
    figure('alarms', alarms / hours, '1/h'),
    figure('requests billed', requests, '1/h'),
    figure('price', dollars, '$/month'),
  ];
}

function perPiece(during: Meters, commands: Meters, messages: number, events: number): Figure[] {
  const both = KINDS.map((kind) => rowsOf(commands[kind]));
  return [
    { name: 'events consumed by the partner', value: events, unit: '' },
    {
      name: 'rows per telemetry message (Site)',
      value: rowsOf(during.Site) / messages,
      unit: 'rows',
      target: '≤ 1.1',
    },
    {
      name: 'rows per partner event (Vhost)',
      value: rowsOf(during.Vhost) / Math.max(1, events),
      unit: 'rows',
      target: '≤ 0.2',
    },
    { name: 'rows per command (Site)', value: (both[0] ?? 0) / COMMANDS, unit: 'rows' },
    { name: 'rows per command (Vhost)', value: (both[1] ?? 0) / COMMANDS, unit: 'rows' },
    { name: 'rows per command (both)', value: sum(both) / COMMANDS, unit: 'rows', target: '≤ 15' },
  ];
}

function hibernationOf(kind: ObjectKind, meter: MeterReport): Figure[] {
  return [
    {
      name: `${kind}: pauses over 10 s`,
      value: meter.longIdles,
      unit: '',
    },
    {
      name: `${kind}: pauses that ended in hibernation`,
      value: meter.hibernated,
      unit: '',
      target: `= ${meter.longIdles}, and more than 0`,
    },
  ];
}

/** Prints calls and rows by name, to show where the results come from. */
function printCalls(meters: Meters, hours: number): void {
  for (const kind of KINDS) {
    const { calls, rows, alarmsSet } = meters[kind];
    console.log(`\n  ${kind}, per hour`);
    for (const name of new Set([...Object.keys(calls), ...Object.keys(rows)])) {
      const [called, written] = [calls[name] ?? 0, rows[name] ?? 0].map((count) => count / hours);
      console.log(
        `    ${name.padEnd(24)} ${called?.toFixed(0).padStart(7)} calls ${written?.toFixed(0).padStart(7)} rows`,
      );
    }
    console.log(`    ${'setAlarm'.padEnd(24)} ${(alarmsSet / hours).toFixed(0).padStart(7)} calls`);
  }
}

async function readBoth(stack: BenchStack): Promise<Meters> {
  const { Site, Vhost } = await readMeters(stack);
  const [site, vhost] = [Site[0], Vhost[0]];
  if (!site || !vhost)
    throw new Error('the meters have no report of the Site or of the Vhost: a bug of the benchmark');
  return { Site: site, Vhost: vhost };
}

function difference(after: Meters, before: Meters): Meters {
  return { Site: since(after.Site, before.Site), Vhost: since(after.Vhost, before.Vhost) };
}

function since(after: MeterReport, before: MeterReport): MeterReport {
  const counts = (name: 'calls' | 'rows') =>
    Object.fromEntries(
      Object.entries(after[name]).map(([key, count]) => [key, count - (before[name][key] ?? 0)]),
    );
  return {
    wakes: after.wakes - before.wakes,
    busyMs: after.busyMs - before.busyMs,
    handlerMs: after.handlerMs - before.handlerMs,
    calls: counts('calls'),
    rows: counts('rows'),
    alarmsSet: after.alarmsSet - before.alarmsSet,
    longIdles: after.longIdles - before.longIdles,
    hibernated: after.hibernated - before.hibernated,
    heldBy: after.heldBy,
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));
}
