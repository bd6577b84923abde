/**
 * `npm start`: the whole stack on one machine, seeded and supervised. The edge runs under workerd in a child of this
 * process; bridge and simulator are processes of their own, started again when they die.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ensureCertificates } from './certificates.ts';
import { Child } from './child.ts';
import { ensureCredentials, signDeviceToken } from './credentials.ts';
import { startEdge } from './edge.ts';
import { endLeftover } from './leftover.ts';
import { assertFree, portOf } from './ports.ts';
import { SUB_DEVICES, seedApiKey, seedOrganization, seedPlant, VCP_SCOPES } from './seed.ts';
import type { SimulatorListening, SimulatorStart } from './simulator/index.ts';
import { dataFolder, removeStack, type Stack, writeStack } from './stack-file.ts';

const TOKEN_LIFETIME_S = 86_400;
const TOKEN_REFRESH_MS = 12 * 3_600_000;
const WATCH_MS = 250;
const SIMULATOR_INTERVAL_MS = 2_000;
const PLANT = { name: 'Acme Dairy', eanCons: '859182400000000001', eanProd: '859182400000000002' };

const folder = dataFolder();
mkdirSync(folder, { recursive: true });
const ports = await choosePorts();
const credentials = ensureCredentials(folder);
const certificates = await ensureCertificates(join(folder, 'certificates'));

// 1. the edge, migrated and seeded
const edge = await startEdge({
  dataFolder: join(folder, 'edge'),
  port: ports.http,
  secrets: {
    bridgeSecret: credentials.bridgeSecret,
    dataKeys: credentials.dataKeys,
    tokenPublicKey: JSON.stringify(credentials.tokenPublicKey),
  },
});
const { organization, apiKey, gateway } = credentials;
await seedOrganization(edge.miniflare, credentials);
await seedPlant(edge.miniflare, organization.id, {
  id: credentials.plantId,
  ...PLANT,
  externalPlantId: 'dairy-1',
  gateway,
});
await seedApiKey(edge.miniflare, organization, credentials.admin.id, apiKey);

// 2. the bridge on its TLS ports
const bridgeReady = Promise.withResolvers<{ amqps: number; mqtts: number; metrics: number }>();
const bridge = new Child({
  name: 'bridge',
  script: join(import.meta.dirname, '..', 'bridge', 'index.ts'),
  env: {
    SITEWIRE_EDGE_URL: edge.url,
    SITEWIRE_BRIDGE_SECRET: credentials.bridgeSecret,
    SITEWIRE_BRIDGE_ID: 'bridge-dev',
    SITEWIRE_TLS_CERT: certificates.certificate,
    SITEWIRE_TLS_KEY: certificates.key,
    SITEWIRE_AMQPS_PORT: String(ports.amqps),
    SITEWIRE_MQTTS_PORT: String(ports.mqtts),
    SITEWIRE_METRICS_PORT: String(ports.metrics),
    SITEWIRE_LOG_LEVEL: process.env.SITEWIRE_LOG_LEVEL ?? 'warn',
  },
  onStart: (child) => {
    child.on(
      'message',
      (message: { ready?: true; ports: { amqps: number; mqtts: number; metrics: number } }) => {
        if (message.ready) bridgeReady.resolve(message.ports);
      },
    );
  },
});
bridge.start();
const listening = await bridgeReady.promise;

// 3. the simulated plant
const newToken = () => signDeviceToken(credentials.tokenPrivateKey, gateway.id, TOKEN_LIFETIME_S);
let token = await newToken();
let isPlantListening = false;
const simulator = new Child({
  name: 'simulator',
  script: join(import.meta.dirname, 'simulator', 'index.ts'),
  env: {},
  onStart: (child) => {
    const start: SimulatorStart = {
      kind: 'start',
      behaviour: 'on',
      host: 'localhost',
      port: listening.mqtts,
      caFile: certificates.ca,
      deviceId: gateway.id,
      hmacSecret: gateway.hmacSecret,
      token,
      intervalMs: SIMULATOR_INTERVAL_MS,
    };
    child.send(start);
    child.on('message', (message: SimulatorListening) => {
      if (message.kind === 'listening') isPlantListening = true;
    });
  },
});
const isSimulated = process.env.SITEWIRE_SIMULATOR !== 'off';
if (isSimulated) {
  simulator.start();
  setInterval(() => {
    void newToken().then((fresh) => {
      token = fresh;
      simulator.send({ kind: 'token', token });
    });
  }, TOKEN_REFRESH_MS);
}

// 4. ready: tell tools and people
function describe(): Stack {
  const endpoint = (port: number) => ({ host: 'localhost', port, ca: certificates.ca });
  return {
    pids: { stack: process.pid, edge: edge.pid() ?? null, bridge: bridge.pid, simulator: simulator.pid },
    baseUrl: edge.url,
    amqp: endpoint(listening.amqps),
    mqtt: endpoint(listening.mqtts),
    metricsUrl: `http://127.0.0.1:${listening.metrics}/metrics`,
    admin: { email: credentials.admin.email, password: credentials.admin.password },
    organization,
    apiKey: { ...apiKey, vhost: `partner-${apiKey.id}`, scopes: VCP_SCOPES },
    plants: [
      {
        id: credentials.plantId,
        ...PLANT,
        gatewayId: gateway.id,
        subDevices: SUB_DEVICES.map(({ deviceId, assetType }) => ({ deviceId, assetType })),
      },
    ],
  };
}

async function choosePorts() {
  try {
    endLeftover(folder);
    const http = portOf('SITEWIRE_HTTP_PORT', 8787);
    const amqps = portOf('SITEWIRE_AMQPS_PORT', 5671);
    const mqtts = portOf('SITEWIRE_MQTTS_PORT', 8885);
    const metrics = portOf('SITEWIRE_METRICS_PORT', 9464);
    await assertFree({
      SITEWIRE_HTTP_PORT: http,
      SITEWIRE_AMQPS_PORT: amqps,
      SITEWIRE_MQTTS_PORT: mqtts,
      SITEWIRE_METRICS_PORT: metrics,
    });
    return { http, amqps, mqtts, metrics };
  } catch (error) {
    console.error(`Sitewire cannot start: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  }
}

let written = '';
function publish(): void {
  const stack = describe();
  const text = JSON.stringify(stack.pids);
  if (text === written) return;
  written = text;
  writeStack(folder, stack);
}

if (isSimulated) await untilOnline();
publish();
const watch = setInterval(publish, WATCH_MS);
const stack = describe();
console.log(`
Sitewire is ready.

  REST    ${stack.baseUrl}/api/v1      X-API-Key: ${apiKey.key}
  AMQPS   amqps://${organization.slug}:${apiKey.key}@localhost:${listening.amqps}/${stack.apiKey.vhost}
  MQTTS   mqtts://localhost:${listening.mqtts}
  CA      ${certificates.ca}
  plant   ${stack.plants[0]?.name} ${credentials.plantId}
  all     ${join(folder, 'stack.json')}

Try \`npm run demo\` in another terminal. Ctrl-C stops.
`);

/** The plant is there once its gateway listens for commands, and telemetry is readable: what was kept is no sign of it. */
async function untilOnline(): Promise<void> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const response = await fetch(`${edge.url}/api/v1/vcp/sites/${credentials.plantId}/telemetry/latest`, {
      headers: { 'x-api-key': apiKey.key },
    });
    const body = (await response.json()) as { payload?: { dataQuality?: string } };
    if (isPlantListening && body.payload?.dataQuality === 'GOOD') return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error('the simulated plant did not come online');
}

let stopping = false;
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  clearInterval(watch);
  removeStack(folder);
  await simulator.stop();
  await bridge.stop();
  await edge.stop();
  process.exit(0);
}
// The runtime's own handlers end the process at once, before its children have stopped.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.removeAllListeners(signal);
  process.on(signal, () => void stop());
}
