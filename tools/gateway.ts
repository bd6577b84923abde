/**
 * `npm run sitewire -- gateway`: runs a gateway of the running stack that executes commands and prints what it receives
 * and sends. With `--package` it only writes the device's provisioning package, for a client of your own.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { DeviceRecord } from '../protocol/device-record.ts';
import type { SubDeviceRecord } from '../protocol/plant-record.ts';
import type { SiteConfig } from '../protocol/site-config.ts';
import type { AdminClient } from './admin-client.ts';
import { showHelp } from './show-help.ts';
import { BEHAVIOURS, type BehaviourName } from './simulator/behaviour.ts';
import type { GatewayWord } from './simulator/gateway.ts';
import type { Identity } from './simulator/identity.ts';
import { Simulation } from './simulator/simulation.ts';
import { templatesOf } from './simulator/template.ts';
import { ensureGateway, enterStack, findDevice, freshToken, identify, packageOf } from './stack-device.ts';
import { readStack, type Stack } from './stack-file.ts';

const USAGE = `npm run sitewire -- gateway [--device <id|name|serial>] [--plant <id|name>] [--behave <name>] [--package <file>]
  --device   a device of the organization; default: the gateway of the seeded plant
  --plant    a separate gateway for that plant, registered the first time
  --behave   ${Object.keys(BEHAVIOURS).join(', ')}: the behaviours of \`npm run sitewire -- simulate\`
  --package  writes the device's package to that file (-: standard output) for a client of your own, and exits`;
showHelp(USAGE);

const INTERVAL_MS = 2_000;
/** One day: a package may be used long after it was written. */
const PACKAGE_TOKEN_SECONDS = 86_400;

const options = {
  device: { type: 'string' },
  plant: { type: 'string' },
  behave: { type: 'string', default: 'on' },
  package: { type: 'string' },
} as const;

function say(text: string): void {
  console.log(`${new Date().toISOString()}  ${text}`);
}

function printEvent(word: GatewayWord): void {
  if (word.kind === 'command') say(`received ${word.action} ${word.cmdId} ${JSON.stringify(hidden(word))}`);
  else if (word.kind === 'ack') say(`sent     ${word.status} ${word.cmdId}`);
  else say(`sent     telemetry ${JSON.stringify(word.data)}`);
}

/** The payload as it may be printed: without the token, which is secret. */
function hidden({ action, payload }: Extract<GatewayWord, { kind: 'command' }>): Record<string, unknown> {
  return action === 'TOKEN_REFRESH' ? { ...payload, token: '…' } : payload;
}

/** Two clients with the credentials of one device would end each other's sessions again and again. */
function refuseTwins(stack: Stack, id: string): void {
  if (stack.simulator === 'off' || stack.simulator === 'offline') return;
  if (!stack.plants.some(({ gatewayId }) => gatewayId === id)) return;
  throw new Error(
    'the simulated plant already runs as this gateway: stop it first with `npm run sitewire -- simulate off`',
  );
}

async function run(
  stack: Stack,
  admin: AdminClient,
  device: DeviceRecord,
  identity: Identity,
  behave: string,
) {
  refuseTwins(stack, device.id);
  const plant = device.plantId === null ? undefined : `/plants/${device.plantId}`;
  const assets = plant ? await admin.list<SubDeviceRecord>(`${plant}/sub-devices`) : [];
  const config = plant ? await admin.call<SiteConfig>('GET', `${plant}/config`) : undefined;
  const simulation = new Simulation({
    behaviour: behave as BehaviourName,
    assets: assets.map((asset) => ({ ...asset, deviceId: asset.externalId })),
    constraints: config?.constraints ?? null,
    intervalMs: INTERVAL_MS,
    token: () => identity.token,
    templates: () => templatesOf(admin, device.id),
    gateway: {
      host: stack.mqtt.host,
      port: stack.mqtt.port,
      ca: readFileSync(stack.mqtt.ca, 'utf8'),
      deviceId: device.id,
      hmacSecret: identity.hmacSecret,
      onToken: (token, expiresAt) => identity.takeToken(token, expiresAt),
      renew: () => identity.renew(),
      onListening: () =>
        say(`${device.name} ${device.id} is connected and listens for commands; Ctrl-C stops it`),
      watch: printEvent,
    },
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void simulation.stop().finally(() => process.exit(0)));
  }
}

async function writePackage(stack: Stack, admin: AdminClient, identity: Identity, id: string, file: string) {
  const token = await freshToken(admin, id, PACKAGE_TOKEN_SECONDS);
  // On one line, because gateway.sh reads it with sed.
  const text = `${JSON.stringify(packageOf(stack, id, identity.hmacSecret, token))}\n`;
  if (file === '-') {
    process.stdout.write(text);
    return;
  }
  if (existsSync(file) && !readFileSync(file, 'utf8').includes('"hmacSecret"')) {
    throw new Error(`${file} exists and is not a provisioning package: choose another name`);
  }
  writeFileSync(`${file}.new`, text, { mode: 0o600 });
  renameSync(`${file}.new`, file);
  console.log(`wrote the package of ${id} to ${file}; its token is valid until ${token.expiresAt}`);
}

try {
  const { values } = parseArgs({ options });
  if (!Object.hasOwn(BEHAVIOURS, values.behave))
    throw new Error(`unknown behaviour "${values.behave}"\n\n${USAGE}`);
  if (values.device && values.plant) throw new Error(`--device and --plant cannot be combined\n\n${USAGE}`);
  const stack = readStack();
  const admin = await enterStack(stack);
  const device = values.plant
    ? await ensureGateway(admin, values.plant)
    : await findDevice(admin, values.device ?? stack.plants[0]?.gatewayId ?? '');
  const identity = await identify(stack, device);
  if (values.package !== undefined) await writePackage(stack, admin, identity, device.id, values.package);
  else await run(stack, admin, device, identity, values.behave);
} catch (error) {
  const { message, code } = error as Error & { code?: string };
  console.error(code?.startsWith('ERR_PARSE_ARGS') ? `${message}\n\n${USAGE}` : message);
  process.exitCode = 1;
}
