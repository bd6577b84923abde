/** A stack for a benchmark: edge and bridge as processes on one core, the load generator (this process) on the other. */
import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CertificateFiles, ensureCertificates } from '../certificates.ts';
import { makeCredentials, type StackCredentials, signDeviceToken } from '../credentials.ts';
import { type Edge, startEdge } from '../edge.ts';
import { Partner } from '../partner.ts';
import { type PlantSeed, seedApiKey, seedOrganization, seedPlant } from '../seed.ts';

const SYSTEM_CORE = '0';
const GENERATOR_CORE = '1';
/** More load than this before a run comes from something else. */
const MAX_LOAD = 0.7;

export interface BenchStack {
  edge: Edge;
  credentials: StackCredentials;
  certificates: CertificateFiles;
  /** PEM text. */
  ca: string;
  ports: { amqps: number; mqtts: number };
  bridgePid: number;
  addPlant(): Promise<PlantSeed>;
  partner(): Promise<Partner>;
  token(deviceId: string): Promise<string>;
  stop(): Promise<void>;
}

/** Throws when something else loads the machine: its figures would mean nothing. */
export function assertQuiet(): void {
  const [minute = 0] = loadavg();
  if (minute > MAX_LOAD && process.env.SITEWIRE_BENCH_NOISY !== '1') {
    throw new Error(
      `load average ${minute.toFixed(2)} > ${MAX_LOAD}: something else runs (SITEWIRE_BENCH_NOISY=1 to try all the same)`,
    );
  }
}

export async function startBenchStack(): Promise<BenchStack> {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-bench-'));
  const credentials = makeCredentials('acme');
  const certificates = await ensureCertificates(join(folder, 'certificates'));
  pin(process.pid, SYSTEM_CORE);
  const edge = await startEdge({
    dataFolder: join(folder, 'edge'),
    port: 0,
    secrets: {
      bridgeSecret: credentials.bridgeSecret,
      dataKeys: credentials.dataKeys,
      tokenPublicKey: JSON.stringify(credentials.tokenPublicKey),
    },
  });
  const { bridge, ports } = await startBridge(edge.url, credentials, certificates);
  pin(process.pid, GENERATOR_CORE);

  await seedOrganization(edge.miniflare, credentials);
  const { organization, apiKey } = credentials;
  await seedApiKey(edge.miniflare, organization, credentials.admin.id, apiKey);

  return {
    edge,
    credentials,
    certificates,
    ca: readFileSync(certificates.ca, 'utf8'),
    ports,
    bridgePid: bridge.pid ?? 0,
    addPlant: async () => {
      const id = randomUUID();
      const digits = BigInt(`0x${id.replaceAll('-', '').slice(0, 12)}`) % 10n ** 11n;
      const plant: PlantSeed = {
        id,
        name: `Plant ${id.slice(0, 8)}`,
        eanCons: `8591824${String(digits).padStart(11, '0')}`,
        eanProd: `8591825${String(digits).padStart(11, '0')}`,
        externalPlantId: null,
        gateway: { id: randomUUID(), hmacSecret: randomBytes(32).toString('hex') },
      };
      await seedPlant(edge.miniflare, organization.id, plant);
      return plant;
    },
    partner: () =>
      Partner.connect({
        host: 'localhost',
        port: ports.amqps,
        ca: certificates.ca,
        slug: organization.slug,
        vhost: `partner-${apiKey.id}`,
        key: apiKey.key,
        signingKey: apiKey.signingKey,
      }),
    token: (deviceId) => signDeviceToken(credentials.tokenPrivateKey, deviceId, 86_400),
    stop: async () => {
      bridge.kill('SIGTERM');
      await once(bridge, 'exit');
      await edge.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function startBridge(
  edgeUrl: string,
  credentials: StackCredentials,
  certificates: CertificateFiles,
): Promise<{ bridge: ChildProcess; ports: { amqps: number; mqtts: number } }> {
  const bridge = fork(join(import.meta.dirname, '..', '..', 'bridge', 'index.ts'), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: {
      ...process.env,
      SITEWIRE_EDGE_URL: edgeUrl,
      SITEWIRE_BRIDGE_SECRET: credentials.bridgeSecret,
      SITEWIRE_BRIDGE_ID: 'bridge-bench',
      SITEWIRE_TLS_CERT: certificates.certificate,
      SITEWIRE_TLS_KEY: certificates.key,
      SITEWIRE_AMQPS_PORT: '0',
      SITEWIRE_MQTTS_PORT: '0',
      SITEWIRE_METRICS_PORT: '0',
      SITEWIRE_LOG_LEVEL: 'warn',
    },
  });
  const [message] = (await once(bridge, 'message')) as [{ ports: { amqps: number; mqtts: number } }];
  return { bridge, ports: message.ports };
}

/** All threads of a process to one core; children that it starts later inherit it. */
function pin(pid: number, core: string): void {
  execFileSync('taskset', ['-a', '-cp', core, String(pid)], { stdio: 'ignore' });
}
