/**
 * `npm start`: the whole stack on one machine, seeded and supervised. The edge runs under workerd in a child
 * of this process. Bridge and simulator are processes of their own; each is restarted when it ends.
 */
import { join } from 'node:path';
import { startBridge } from './bridge-child.ts';
import { Child } from './child.ts';
import { edgeSecrets } from './credentials.ts';
import { buildAssets, startEdge } from './edge.ts';
import { prepare } from './prepare.ts';
import { untilOnline } from './readiness.ts';
import { SUB_DEVICES, seedOnce, VCP_SCOPES } from './seed.ts';
import { showHelp } from './show-help.ts';
import { BEHAVIOURS, type SimulatorSetting } from './simulator/behaviour.ts';
import { simulatorControl } from './simulator/control.ts';
import type { SimulatorChange, SimulatorStart, SimulatorWord } from './simulator/index.ts';
import { requestBehaviour, takeRequest } from './simulator/requested-behaviour.ts';
import { removeStack, type Stack, writeStack } from './stack-file.ts';

const USAGE = `npm start: runs the whole stack on this machine, with sample data and a simulated plant, until Ctrl-C.

It takes no options. These variables of the environment change it:
  SITEWIRE_DATA_DIR        folder of the data (.dev)
  SITEWIRE_SIMULATOR       behaviour of the simulated plant (on), see docs/simulator.md
  SITEWIRE_HTTP_PORT, SITEWIRE_AMQPS_PORT, SITEWIRE_MQTTS_PORT, SITEWIRE_MTLS_PORT, SITEWIRE_METRICS_PORT
  SMTP_URL, MAIL_FROM      a mail server, instead of the folder that npm run sitewire -- mail shows
  REGISTRATION             open or closed (open)
  ADDRESS_RATE_PER_MINUTE  REST requests of an address (60000)
  SITEWIRE_HOST            address on which AMQPS and MQTTS listen (127.0.0.1)
  SITEWIRE_LOG_LEVEL       log level of the bridge (warn)`;

showHelp(USAGE);

const WATCH_MS = 250;
const MINUTE_MS = 60_000;
const STOP_TIMEOUT_MS = 20_000;
const SIMULATOR_INTERVAL_MS = 2_000;
const PLANT = { name: 'Acme Dairy', eanCons: '859182400000000001', eanProd: '859182400000000002' };

const parent = process.ppid;
const { SMTP_URL, MAIL_FROM, REGISTRATION } = process.env;
const { folder, behaviour, ports, secrets, certificates } = await prepare().catch(refuse);
const mailFolder = join(folder, 'mail');
/** Requested and current behaviour of the simulated plant; `id`: once the stack is ready. */
const plantIs = { id: '', requested: behaviour, now: behaviour };
let changes = Promise.resolve();
let isReady = false;
/** Why the stack ends by itself. */
let lost: string | undefined;
let stopping = false;
takeSignals();
const watch = setInterval(look, WATCH_MS);
const watchdog = new Child({
  name: 'watchdog',
  script: join(import.meta.dirname, 'watchdog.ts'),
  env: { SITEWIRE_DATA_DIR: folder },
  onLost: giveUp,
});
watchdog.start();

// 1. the edge, migrated
buildAssets();
const edge = await startEdge({
  dataFolder: join(folder, 'edge'),
  port: ports.http,
  secrets: edgeSecrets(secrets),
  amqp: { host: 'localhost', port: ports.amqps, ca: certificates.ca },
  mqtt: {
    host: 'localhost',
    port: ports.mqtts,
    mtlsPort: ports.mtls,
    ca: certificates.ca,
    deviceCa: certificates.deviceCa,
  },
  mail: SMTP_URL === undefined ? { folder: mailFolder } : { smtpUrl: SMTP_URL, from: MAIL_FROM ?? '' },
  simulator: simulatorControl(plantIs, (setting) => requestBehaviour(folder, setting)),
  onLost: giveUp,
  bindings: {
    ...(REGISTRATION === undefined ? {} : { REGISTRATION }),
    // Mails link to the console. Any free port is known only later.
    ...(ports.http === 0 ? {} : { PUBLIC_URL: `http://127.0.0.1:${ports.http}` }),
    // The edge listens on this machine only, so a forged address harms nobody else.
    CLIENT_ADDRESS: 'platform',
    ALLOWED_HOSTS: 'localhost,127.0.0.1,[::1]',
    // Webhooks may be sent to a receiver on this machine.
    WEBHOOK_PRIVATE: 'allow',
    ADDRESS_RATE_PER_MINUTE: process.env.ADDRESS_RATE_PER_MINUTE ?? '60000',
  },
}).catch(refuse);
// Installs the signal handlers again, because starting the edge installs handlers that would end this process
// before its children have stopped.
takeSignals();
// Replaces Cloudflare's cron trigger. If a run fails while the edge restarts, the next run does its work.
const clock = setInterval(() => {
  edge.tick().catch((error: unknown) => console.error(`edge: scheduled tasks failed: ${String(error)}`));
}, MINUTE_MS);

// 2. the bridge on its TLS ports
const { bridge, listening: bridgeReady } = startBridge({
  ports,
  env: {
    SITEWIRE_EDGE_URL: edge.url,
    SITEWIRE_BRIDGE_SECRET: secrets.bridgeSecret,
    SITEWIRE_BRIDGE_ID: 'bridge-dev',
    SITEWIRE_TLS_CERT: certificates.certificate,
    SITEWIRE_TLS_KEY: certificates.key,
    SITEWIRE_DEVICE_CA: certificates.deviceCa.certificate,
    // Only this machine, unless another address is requested.
    SITEWIRE_HOST: process.env.SITEWIRE_HOST ?? '127.0.0.1',
    SITEWIRE_LOG_LEVEL: process.env.SITEWIRE_LOG_LEVEL ?? 'warn',
  },
  onLost: giveUp,
});
const listening = await bridgeReady;

// 3. an organization with a plant, a gateway and a key, created over REST
const plantSeed = { ...PLANT, externalPlantId: 'dairy-1' };
const seeded = await seedOnce(edge.url, folder, secrets, plantSeed).catch(refuse);
const { organization, apiKey, plantId, gatewayId } = seeded;

// 4. the simulated plant, which provisions its gateway
let isPlantListening = false;
const provisioned = Promise.withResolvers<void>();
const simulator = new Child({
  name: 'simulator',
  script: join(import.meta.dirname, 'simulator', 'index.ts'),
  env: {},
  onLost: giveUp,
  onStart: (child) => {
    if (plantIs.requested === 'off') return;
    const start: SimulatorStart = {
      kind: 'start',
      behaviour: plantIs.requested,
      edgeUrl: edge.url,
      admin: secrets.admin,
      organizationId: organization.id,
      deviceId: gatewayId,
      identityFile: join(folder, 'gateway.json'),
      host: 'localhost',
      port: listening.mqtts,
      caFile: certificates.ca,
      intervalMs: SIMULATOR_INTERVAL_MS,
    };
    child.send(start);
    child.on('message', ({ kind }: SimulatorWord) => {
      provisioned.resolve();
      if (kind === 'listening') isPlantListening = true;
      const { requested } = plantIs;
      if (kind !== 'provisioned' || (requested !== 'off' && !BEHAVIOURS[requested].connects))
        plantIs.now = requested;
    });
  },
});
if (behaviour !== 'off') {
  simulator.start();
  await provisioned.promise;
  const { connects, reports } = BEHAVIOURS[behaviour];
  if (connects) {
    const plant = {
      edgeUrl: edge.url,
      apiKey: apiKey.key,
      plantId,
      isListening: () => isPlantListening,
      reports,
    };
    await untilOnline(plant, console.error);
  }
}

// 5. ready: write stack.json and print the addresses
let published = '';
let complaint = '';
isReady = true;
plantIs.id = plantId;
process.on('unhandledRejection', (error) =>
  console.error(`unhandled error, the stack keeps running: ${String(error)}`),
);
publish();
const stack = describe();
console.log(`
Sitewire is ready.

  console ${stack.baseUrl}/            ${stack.admin.email}, password ${stack.admin.password}
  REST    ${stack.baseUrl}/api/v1      X-API-Key: ${apiKey.key}
  AMQPS   amqps://${organization.slug}:${apiKey.key}@localhost:${listening.amqps}/${stack.apiKey.vhost}
  MQTTS   mqtts://localhost:${listening.mqtts}, with client certificates ${listening.mtls}
  CA      ${certificates.ca}
  plant   ${stack.plants[0]?.name} ${plantId}
  details ${join(folder, 'stack.json')}

Try \`npm run demo\` in another terminal. Ctrl-C stops the stack.
`);

function refuse(error: unknown): never {
  console.error(`Sitewire cannot start: ${error instanceof Error ? error.message : String(error)}`);
  process.exit(1);
}

function describe(): Stack {
  const endpoint = (port: number) => ({ host: 'localhost', port, ca: certificates.ca });
  return {
    pids: { stack: process.pid, edge: edge.pid() ?? null, bridge: bridge.pid, simulator: simulator.pid },
    baseUrl: edge.url,
    amqp: endpoint(listening.amqps),
    mqtt: endpoint(listening.mqtts),
    mqttMtls: endpoint(listening.mtls),
    metricsUrl: `http://127.0.0.1:${listening.metrics}/metrics`,
    simulator: plantIs.now,
    mail: SMTP_URL === undefined ? mailFolder : null,
    operator: { token: secrets.operatorToken },
    edgeMetrics: { url: `${edge.url}/metrics`, token: secrets.metricsToken },
    admin: secrets.admin,
    organization,
    apiKey: { ...apiKey, vhost: `partner-${apiKey.id}`, scopes: VCP_SCOPES },
    plants: [
      {
        id: plantId,
        ...PLANT,
        gatewayId,
        subDevices: SUB_DEVICES.map(({ deviceId, assetType }) => ({ deviceId, assetType })),
      },
    ],
  };
}

/** Runs four times a second: a restarted edge has another pid, and another behaviour may have been requested. */
function look(): void {
  // If the parent process has changed, npm or its shell was killed and sent no signal to this process: stop
  // the stack.
  if (process.env.npm_lifecycle_event !== undefined && process.ppid !== parent) void stop();
  if (!isReady || stopping) return;
  const requested = takeRequest(folder);
  if (requested) changes = changes.then(() => changePlant(requested));
  publish();
}

async function changePlant(requested: SimulatorSetting): Promise<void> {
  const { requested: before } = plantIs;
  plantIs.requested = requested;
  if (requested === 'off') {
    await simulator.stop();
    plantIs.now = 'off';
  } else if (before === 'off') {
    simulator.start();
  } else {
    const change: SimulatorChange = { kind: 'behave', behaviour: requested };
    simulator.send(change);
  }
}

/** Writes stack.json if it has changed. If that fails the stack keeps running, and the next call tries again. */
function publish(): void {
  const stack = describe();
  const text = JSON.stringify([stack.pids, stack.simulator]);
  if (text === published) return;
  try {
    writeStack(folder, stack);
    published = text;
    complaint = '';
  } catch (error) {
    if (String(error) !== complaint) console.error(`cannot write stack.json: ${String(error)}`);
    complaint = String(error);
  }
}

function takeSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.removeAllListeners(signal);
    process.on(signal, () => void stop());
  }
}

/**
 * Stops all parts in order if the stack is ready. Before that, the children notice the end of this process
 * and exit.
 */
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  setTimeout(() => process.exit(1), STOP_TIMEOUT_MS).unref();
  removeStack(folder);
  if (isReady) {
    clearInterval(watch);
    clearInterval(clock);
    for (const part of [simulator, bridge, edge, watchdog]) await part.stop();
  }
  if (lost !== undefined) console.error(`Sitewire ends: ${lost}`);
  process.exit(lost === undefined ? 0 : 1);
}

/** Ends a stack of which a part cannot be brought back. */
function giveUp(reason: string): void {
  lost ??= reason;
  void stop();
}
