/**
 * `npm run sitewire -- check --device <id>`: watches a device while its firmware talks to the running stack,
 * and prints step by step what works and what fails. For another stack: `--url`, `--email`, `--password`.
 */
import { parseArgs } from 'node:util';
import type { DeviceDiagnostics, DeviceRecord, RestCommand } from '../protocol/device-record.ts';
import { AdminClient } from './admin-client.ts';
import { showHelp } from './show-help.ts';
import { readStack } from './stack-file.ts';

const USAGE =
  'npm run sitewire -- check --device <id> [--seconds 120] [--url <edge> --email <admin> --password <password>]';

showHelp(USAGE);
const { values } = parseArgs({
  options: {
    device: { type: 'string' },
    url: { type: 'string' },
    email: { type: 'string' },
    password: { type: 'string' },
    seconds: { type: 'string', default: '120' },
  },
});
const LOOK_MS = 500;
/** A connected device whose messages were not dropped for this time passes the step `signs`. */
const QUIET_MS = 15_000;

const shownHints = new Set<string>();

/** A step of the check, and whether it has succeeded. */
interface Step {
  name: string;
  hint: string;
  isDone: boolean;
}

const STEPS = {
  provisioned: {
    name: 'is provisioned',
    hint: 'POST /api/v1/devices/<id>/provision, and give the device the package in the answer',
  },
  connected: { name: 'connects', hint: 'broker, port, CA, user name = device id, password = token' },
  listens: { name: 'listens for commands', hint: 'subscribe to cpi/<id>/commands at QoS 1' },
  obeys: {
    name: 'verifies and acknowledges a command',
    hint: 'ack with RECEIVED, then COMPLETED, each signed over deviceId|cmdId|ts|status',
  },
  signs: { name: 'sends only valid messages', hint: 'see the dropped messages above' },
} as const;

const steps = new Map<keyof typeof STEPS, Step>(
  Object.entries(STEPS).map(([key, step]) => [key as keyof typeof STEPS, { ...step, isDone: false }]),
);

async function enter(): Promise<AdminClient> {
  const { url, email, password } = values;
  if (url && email && password) return await AdminClient.enter(url, { email, password });
  const stack = readStack();
  const admin = await AdminClient.enter(stack.baseUrl, stack.admin);
  admin.organizationId = stack.organization.id;
  return admin;
}

function done(key: keyof typeof STEPS): void {
  const step = steps.get(key);
  if (!step || step.isDone) return;
  step.isDone = true;
  console.log(`ok    ${step.name}`);
}

/** The entries after `sinceMs`, oldest first; `entries` begins with the newest. */
function newer<Entry extends { at: string }>(entries: readonly Entry[], sinceMs: number): Entry[] {
  return entries.filter(({ at }) => Date.parse(at) > sinceMs).reverse();
}

async function check(id: string): Promise<boolean> {
  const admin = await enter();
  const device = await admin.call<DeviceRecord>('GET', `/devices/${id}`);
  console.log(
    `${device.name} (${device.type}, ${device.authMethod}) is ${device.status}; waiting for it to connect`,
  );
  const endsAtMs = Date.now() + 1_000 * Number(values.seconds);
  let seenMs = Date.now();
  let droppedMs = 0;
  let ping: string | undefined;
  while (Date.now() < endsAtMs) {
    const { status, connectionStatus } = await admin.call<DeviceRecord>('GET', `/devices/${id}`);
    if (status === 'SUSPENDED')
      console.log('the device is SUSPENDED, by an admin or after too many failed logins: reactivate it');
    if (status === 'ACTIVE') done('provisioned');
    const { hints, recent, connects } = await admin.call<DeviceDiagnostics>(
      'GET',
      `/devices/${id}/diagnostics`,
    );
    for (const hint of hints.filter((one) => !shownHints.has(one))) {
      shownHints.add(hint);
      console.log(`HINT  ${hint}`);
    }
    for (const { at, address, outcome, reason } of newer(connects, seenMs)) {
      console.log(`      ${at} login from ${address}: ${outcome}${reason ? `, ${reason}` : ''}`);
    }
    for (const { at, topic, reason, detail, expected } of newer(recent, seenMs)) {
      droppedMs = Date.now();
      console.log(`WRONG ${at} ${topic}: ${reason}: ${detail}`);
      if (expected) console.log(`      expected signing string: ${expected}`);
    }
    seenMs = Math.max(seenMs, ...[...recent, ...connects].map(({ at }) => Date.parse(at)));
    const isIn = !['OFFLINE', 'UNKNOWN'].includes(connectionStatus);
    if (isIn) done('connected');
    if (isIn) ping ??= await sendPing(admin, id);
    if (ping) await lookAt(admin, id, ping);
    const quietSinceMs = Math.max(droppedMs, endsAtMs - 1_000 * Number(values.seconds));
    if (isIn && Date.now() - quietSinceMs > QUIET_MS) done('signs');
    if ([...steps.values()].every(({ isDone }) => isDone)) return true;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return false;
}

async function sendPing(admin: AdminClient, id: string): Promise<string> {
  const { cmdId } = await admin.call<RestCommand>('POST', `/devices/${id}/commands`, { action: 'PING' });
  console.log('      sent the command PING');
  return cmdId;
}

async function lookAt(admin: AdminClient, id: string, cmdId: string): Promise<void> {
  const { status } = await admin.call<RestCommand>('GET', `/devices/${id}/commands/${cmdId}`);
  if (status !== 'PENDING') done('listens');
  // The answer FAILED also passes this step: the device may not know PING, but it has acknowledged it with a
  // valid signature.
  if (status === 'COMPLETED' || status === 'FAILED') done('obeys');
}

if (!values.device) {
  console.error(USAGE);
  process.exit(2);
}
const isRight = await check(values.device).catch((error: unknown) => {
  console.error(String(error));
  process.exit(2);
});
for (const { name, hint, isDone } of steps.values()) if (!isDone) console.log(`open  ${name}: ${hint}`);
process.exit(isRight ? 0 : 1);
