/**
 * P8: what one plant with a reading every 5 s costs per hour, with a partner that consumes all its events:
 * rows written, requests, and the seconds in which Site and Vhost cannot hibernate. Measured by the product's
 * Worker with meters around its objects.
 *
 * Cloudflare bills the duration of an object while it runs or while something holds it in memory that could
 * not wake it again; an object that may hibernate is not billed, even before it does. A WebSocket message
 * counts as a twentieth of a request, a `setAlarm` as a row written.
 */
import type { BenchStack } from './bench-stack.ts';
import { connectInstantDevice } from './instant-device.ts';
import type { MeterReport, ObjectKind } from './meter-report.ts';
import { OBJECT_KINDS as KINDS, METERED_ENTRY, readMeters, rowsOf, sum } from './meters.ts';
import { CommandingPartner, publishTelemetry } from './plant-load.ts';
import { alone, type Measured } from './runner.ts';

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

export const cost = alone({
  title:
    'one hour of a plant with a reading every 5 s and a connected partner, scaled to an hour if it is shorter',
  aims: {
    'rows per telemetry message': '≤ 1.1',
    'rows per partner event': '≤ 0.2',
    'rows per command (both)': '≤ 15',
    'pauses that ended in hibernation': 'all of them, and more than 0',
  },
  stack: { entry: METERED_ENTRY },
  measure,
});

async function measure(stack: BenchStack, minutes: number = MINUTES): Promise<Measured> {
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
  printCalls(during, hours);
  return Object.assign(
    {},
    ...KINDS.map((kind) => hourOf(kind, during[kind], hours)),
    perPiece(during, commands, messages, events),
    ...KINDS.map((kind) => hibernationOf(kind, silences[kind])),
  );
}

function hourOf(kind: ObjectKind, meter: MeterReport, hours: number): Measured {
  const rows = rowsOf(meter) / hours;
  const { webSocketMessage: frames = 0, alarm: alarms = 0 } = meter.calls;
  const calls = sum(Object.values(meter.calls));
  const requests = (calls - frames + frames / MESSAGES_PER_REQUEST) / hours;
  const busy = meter.busyMs / 1_000 / hours;
  const dollars =
    HOURS_PER_MONTH *
    (rows * PRICE.row + requests * PRICE.request + busy * OBJECT_GIGABYTES * PRICE.gigabyteSecond);
  return {
    [`${kind}: rows written, including setAlarm`]: { value: rows, unit: '1/h' },
    [`${kind}: seconds awake (billed)`]: { value: busy, unit: 's/h' },
    [`${kind}:   of these in handlers`]: { value: meter.handlerMs / 1_000 / hours, unit: 's/h' },
    [`${kind}: seconds in which it may hibernate`]: { value: Math.max(0, 3_600 - busy), unit: 's/h' },
    [`${kind}: wakes from hibernation`]: { value: meter.wakes / hours, unit: '1/h' },
    [`${kind}: WebSocket messages`]: { value: frames / hours, unit: '1/h' },
    [`${kind}: alarms`]: { value: alarms / hours, unit: '1/h' },
    [`${kind}: requests billed`]: { value: requests, unit: '1/h' },
    [`${kind}: price`]: { value: dollars, unit: '$/month' },
  };
}

function perPiece(during: Meters, commands: Meters, messages: number, events: number): Measured {
  const rows = (value: number) => ({ value, unit: 'rows' });
  const [site = 0, vhost = 0] = KINDS.map((kind) => rowsOf(commands[kind]) / COMMANDS);
  return {
    'events consumed by the partner': { value: events, unit: '' },
    'rows per telemetry message (Site)': rows(rowsOf(during.Site) / messages),
    'rows per partner event (Vhost)': rows(rowsOf(during.Vhost) / Math.max(1, events)),
    'rows per command (Site)': rows(site),
    'rows per command (Vhost)': rows(vhost),
    'rows per command (both)': rows(site + vhost),
  };
}

function hibernationOf(kind: ObjectKind, meter: MeterReport): Measured {
  return {
    [`${kind}: pauses over 10 s`]: { value: meter.longIdles, unit: '' },
    [`${kind}: pauses that ended in hibernation`]: { value: meter.hibernated, unit: '' },
  };
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
