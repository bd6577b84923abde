/**
 * A stack for a benchmark: edge and bridge as processes on one core, the load generator (this process) on the
 * other. It is seeded through a separate edge, which then ends: Miniflare's stub keeps an object that a tool
 * has called in memory as long as that edge lives, so the object would never hibernate.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TokenAnswer } from '../../protocol/device-record.ts';
import { AdminClient } from '../admin-client.ts';
import { type CertificateFiles, ensureCertificates } from '../certificates.ts';
import { edgeSecrets, makeSecrets } from '../credentials.ts';
import { type Edge, type EdgeOptions, startEdge } from '../edge.ts';
import { Partner, type PartnerOptions } from '../partner.ts';
import { freePort } from '../ports.ts';
import type { SeededPlant } from '../seed.ts';
import { type OrganizationOptions, type SeededOrganization, seedBench } from './bench-seed.ts';
import { GENERATOR_CORE, pin, SYSTEM_CORE } from './cores.ts';

/**
 * If the load average before a run is higher, another program uses the machine, and the benchmark does not
 * start.
 */
const MAX_LOAD = 0.7;

export interface BenchOptions {
  /**
   * Default: one organization, acme. `plants`, `partner` and `key` of the stack are those of the first
   * organization.
   */
  organizations?: OrganizationOptions[];
  /** Number of plants of the default organization. */
  plants?: number;
  /** Pins the system and the generator to one core each; false: they share all cores. */
  pinned?: boolean;
  /** Another Worker entry, which may wrap the product's. */
  entry?: string;
  /** Starts workerd's inspector, which reports the JavaScript heap. */
  inspector?: boolean;
  /** Where the stack makes its own folder; default: the system's folder for temporary files. */
  folder?: string;
  /** Additional bindings of the edge. */
  bindings?: Record<string, string>;
}

export interface BenchPorts {
  amqps: number;
  mqtts: number;
  metrics: number;
}

export interface BenchStack {
  edge: Edge;
  /** Folder of the edge's D1 and objects. */
  dataFolder: string;
  bridgeSecret: string;
  certificates: CertificateFiles;
  /** PEM text. */
  ca: string;
  ports: BenchPorts;
  readonly bridgePid: number;
  organizations: SeededOrganization[];
  plants: SeededPlant[];
  /** API key of the first organization, and the login of its admin. */
  key: string;
  login: { email: string; password: string };
  partnerOptions(organization?: SeededOrganization): PartnerOptions;
  partner(organization?: SeededOrganization): Promise<Partner>;
  token(deviceId: string): Promise<string>;
  /** Kills the bridge, and starts it again on the same ports. */
  crashBridge(): Promise<void>;
  stop(): Promise<void>;
}

/** Throws if something else loads the machine: the results would be meaningless. */
export function assertQuiet(): void {
  const [minute = 0] = loadavg();
  if (minute > MAX_LOAD && process.env.SITEWIRE_BENCH_NOISY !== '1') {
    throw new Error(
      `load average ${minute.toFixed(2)} > ${MAX_LOAD}: another program loads the machine (set SITEWIRE_BENCH_NOISY=1 to run anyway)`,
    );
  }
}

let sharedCertificates: string | undefined;

/** One folder for all stacks of this process, because Miniflare reads its trusted authorities only once. */
function certificatesFolder(): string {
  if (sharedCertificates) return sharedCertificates;
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-bench-certificates-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  sharedCertificates = folder;
  return folder;
}

export async function startBenchStack(options: BenchOptions = {}): Promise<BenchStack> {
  const folder = mkdtempSync(join(options.folder ?? tmpdir(), 'sitewire-bench-'));
  const secrets = makeSecrets('acme');
  const certificates = await ensureCertificates(certificatesFolder());
  const edgeOptions: EdgeOptions = {
    dataFolder: join(folder, 'edge'),
    port: 0,
    secrets: edgeSecrets(secrets),
    amqp: { host: 'localhost', port: await freePort(), ca: certificates.ca },
    // These ports appear only in provisioning packages; each benchmark gives its clients the real ports.
    mqtt: {
      host: 'localhost',
      port: 8885,
      mtlsPort: 8883,
      ca: certificates.ca,
      deviceCa: certificates.deviceCa,
    },
  };
  const wanted = options.organizations ?? [{ slug: 'acme', plants: options.plants ?? 1 }];
  const organizations = await seedBench(edgeOptions, certificates, wanted);
  const [first] = organizations;
  if (!first) throw new Error('a stack needs an organization');

  const isPinned = options.pinned ?? true;
  if (isPinned) pin(process.pid, SYSTEM_CORE);
  const edge = await startEdge({
    ...edgeOptions,
    ...(options.entry ? { entry: options.entry } : {}),
    ...(options.inspector ? { inspector: true } : {}),
    ...(options.bindings ? { bindings: options.bindings } : {}),
  });
  let { bridge, ports } = await startBridge(edge.url, secrets.bridgeSecret, certificates);
  if (isPinned) pin(process.pid, GENERATOR_CORE);

  const admin = AdminClient.enter(edge.url, first.admin);
  const partnerOptions = (organization = first): PartnerOptions => ({
    host: 'localhost',
    port: ports.amqps,
    ca: certificates.ca,
    slug: organization.slug,
    vhost: `partner-${organization.apiKey.id}`,
    key: organization.apiKey.key,
    signingKey: organization.apiKey.signingKey,
  });
  return {
    edge,
    dataFolder: join(folder, 'edge'),
    bridgeSecret: secrets.bridgeSecret,
    certificates,
    ca: readFileSync(certificates.ca, 'utf8'),
    ports,
    get bridgePid() {
      return bridge.pid ?? 0;
    },
    organizations,
    plants: first.plants,
    key: first.apiKey.key,
    login: first.admin,
    partnerOptions,
    partner: (organization) => Partner.connect(partnerOptions(organization)),
    token: async (deviceId) => {
      const path = `/devices/${deviceId}/mqtt-token`;
      return (await (await admin).call<TokenAnswer>('POST', path, { expiresIn: 86_400 })).token;
    },
    crashBridge: async () => {
      await ended(bridge, 'SIGKILL');
      if (isPinned) pin(process.pid, SYSTEM_CORE);
      const starting = startBridge(edge.url, secrets.bridgeSecret, certificates, ports);
      if (isPinned) pin(process.pid, GENERATOR_CORE);
      ({ bridge, ports } = await starting);
    },
    stop: async () => {
      await ended(bridge, 'SIGTERM');
      await edge.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}

async function startBridge(
  edgeUrl: string,
  secret: string,
  certificates: CertificateFiles,
  ports: BenchPorts = { amqps: 0, mqtts: 0, metrics: 0 },
): Promise<{ bridge: ChildProcess; ports: BenchPorts }> {
  const bridge = fork(join(import.meta.dirname, '..', '..', 'bridge', 'index.ts'), {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    execArgv: ['--expose-gc', '--import', join(import.meta.dirname, 'collect-garbage.ts')],
    env: {
      ...process.env,
      SITEWIRE_EDGE_URL: edgeUrl,
      SITEWIRE_BRIDGE_SECRET: secret,
      SITEWIRE_BRIDGE_ID: 'bridge-bench',
      SITEWIRE_TLS_CERT: certificates.certificate,
      SITEWIRE_TLS_KEY: certificates.key,
      SITEWIRE_AMQPS_PORT: String(ports.amqps),
      SITEWIRE_MQTTS_PORT: String(ports.mqtts),
      SITEWIRE_METRICS_PORT: String(ports.metrics),
      SITEWIRE_LOG_LEVEL: 'warn',
    },
  });
  const [message] = (await once(bridge, 'message')) as [{ ports: BenchPorts }];
  return { bridge, ports: message.ports };
}
