/**
 * A whole stack for a test file: edge under workerd with data in its own folder, bridge on free TLS ports,
 * one organization with one plant and one key. `bridgeProcess: true` runs the bridge as a process that can be
 * killed.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectAsync, type MqttClient } from 'mqtt';
import { pino } from 'pino';
import { Bridge, type BridgePorts } from '../../bridge/bridge.ts';
import { readConfig } from '../../bridge/config.ts';
import { signDeviceToken } from '../../durable-objects/secrets/device-tokens.ts';
import type { AdminClient } from '../../tools/admin-client.ts';
import { type CertificateFiles, ensureCertificates } from '../../tools/certificates.ts';
import { edgeSecrets, makeSecrets, type Seeded, type StackSecrets } from '../../tools/credentials.ts';
import { type Edge, type EdgeOptions, type EdgeSecrets, startEdge } from '../../tools/edge.ts';
import { Partner, type PartnerOptions } from '../../tools/partner.ts';
import { freePort } from '../../tools/ports.ts';
import {
  type KeySeed,
  type PlantSeed,
  type SeededDevice,
  type SeededKey,
  type SeededPlant,
  seedApiKey,
  seedDevice,
  seedOrganization,
  seedPlant,
} from '../../tools/seed.ts';
import { Gateway, type Obey } from '../../tools/simulator/gateway.ts';

export interface StackOptions {
  /** Another Worker entry, which may wrap the product's classes. */
  entry?: string;
  bindings?: Record<string, string>;
  bridgeProcess?: boolean;
}

export interface RunningBridge {
  ports: BridgePorts;
  /** Only with `bridgeProcess`. */
  process: ChildProcess | undefined;
  stop(): Promise<void>;
  /** Sends kill -9; only with `bridgeProcess`. */
  kill(): Promise<void>;
}

/** Rates that no test reaches unless it sets its own. */
const UNMET_RATES = {
  publishRatePerSecond: 10_000,
  deviceRatePerSecond: 1_000,
  restRatePerMinute: 1_000_000,
};

const UNMET_CEILINGS = { ...UNMET_RATES, keyTestsPerMinute: 1_000, changesPerMinute: 100_000 };

/** How long a new workerd may take to answer beside other suites; alone it takes less than a second. */
const EDGE_BACK_MS = 20_000;

const shared = new Map<string, string>();

/** One CA for all stacks of this process, because Miniflare reads its trusted certificates once. */
function sharedFolder(name: string): string {
  const folder = shared.get(name) ?? mkdtempSync(join(tmpdir(), `sitewire-${name}-`));
  if (!shared.has(name)) process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  shared.set(name, folder);
  return folder;
}

function newPlant(seed: Partial<PlantSeed>): PlantSeed {
  const ean = () => `8591824${String(Math.floor(Math.random() * 1e11)).padStart(11, '0')}`;
  return { name: 'Plant', eanCons: ean(), eanProd: ean(), externalPlantId: null, ...seed };
}

export type StackCredentials = StackSecrets & Omit<Seeded, 'gatewayId'> & { gateway: SeededDevice };

export class TestStack {
  readonly folder = mkdtempSync(join(tmpdir(), 'sitewire-test-'));
  /** An admin of the first organization, in its context. */
  admin!: AdminClient;
  credentials!: StackCredentials;
  certificates!: CertificateFiles;
  ca!: string;
  edge!: Edge;
  bridge!: RunningBridge;
  #edgeOptions!: EdgeOptions;
  readonly #options: StackOptions;

  /** Nothing runs until `begin`. */
  constructor(options: StackOptions = {}) {
    this.#options = options;
  }

  static async start(options: StackOptions = {}): Promise<TestStack> {
    const stack = new TestStack(options);
    await stack.begin();
    return stack;
  }

  async begin(): Promise<void> {
    const { entry, bindings, bridgeProcess = false } = this.#options;
    const secrets = makeSecrets(`acme-${randomBytes(3).toString('hex')}`);
    this.certificates = await ensureCertificates(sharedFolder('certificates'));
    this.ca = readFileSync(this.certificates.ca, 'utf8');
    // Chosen, not any: the system may give an ephemeral port to another socket while what listens on it restarts.
    const [amqps, mqtts, mtls, metrics] = [
      await freePort(),
      await freePort(),
      await freePort(),
      await freePort(),
    ];
    const ports = { amqps, mqtts, mtls, metrics };
    const { ca, deviceCa } = this.certificates;
    this.#edgeOptions = {
      dataFolder: join(this.folder, 'edge'),
      port: await freePort(),
      secrets: edgeSecrets(secrets),
      amqp: { host: 'localhost', port: ports.amqps, ca },
      mqtt: { host: 'localhost', port: ports.mqtts, mtlsPort: ports.mtls, ca, deviceCa },
      ...(entry ? { entry } : {}),
      ...(bindings ? { bindings } : {}),
    };
    this.edge = await startEdge(this.#edgeOptions);
    this.bridge = await startBridge(this.edge.url, secrets, this.certificates, bridgeProcess, ports);
    this.admin = await seedOrganization(this.edge.url, secrets, UNMET_RATES, UNMET_CEILINGS);
    const { id: plantId, gateway } = await seedPlant(this.admin, newPlant({}));
    const organization = { id: this.admin.organizationId ?? '', slug: secrets.organization.slug };
    const apiKey = await seedApiKey(this.admin);
    this.credentials = { ...secrets, organization, plantId, gateway, apiKey };
  }

  async stop(): Promise<void> {
    await this.bridge.stop();
    await this.edge.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Starts the edge again on the same data and port, with the same secrets except for these. */
  async restartEdge(secrets: Partial<EdgeSecrets> = {}, whileStopped = () => {}): Promise<void> {
    await this.edge.stop();
    whileStopped();
    const { secrets: before } = this.#edgeOptions;
    this.edge = await startEdge({ ...this.#edgeOptions, secrets: { ...before, ...secrets } });
  }

  /** Where the edge stores D1. */
  get databaseFolder(): string {
    return join(this.folder, 'edge', 'd1');
  }

  /** Sends kill -9 to workerd; resolves when Miniflare's new one answers. */
  async killEdge(): Promise<void> {
    const pid = this.edge.pid();
    if (pid) process.kill(pid, 'SIGKILL');
    for (const giveUpAt = Date.now() + EDGE_BACK_MS; Date.now() < giveUpAt; ) {
      const next = this.edge.pid();
      if (next && next !== pid && (await this.#answers())) return;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    throw new Error(`the edge did not come back within ${EDGE_BACK_MS} ms`);
  }

  /** Starts a bridge again, on the same ports, after `bridge.kill()` or `bridge.stop()`. */
  async restartBridge(): Promise<void> {
    const { ports } = this.bridge;
    this.bridge = await startBridge(
      this.edge.url,
      this.credentials,
      this.certificates,
      this.#options.bridgeProcess ?? false,
      ports,
    );
  }

  /** Starts another bridge beside the first, on its own ports. */
  async addBridge(bridgeId: string): Promise<RunningBridge> {
    return await startBridge(this.edge.url, this.credentials, this.certificates, false, undefined, bridgeId);
  }

  async addPlant(seed: Partial<PlantSeed> = {}): Promise<SeededPlant> {
    return await seedPlant(this.admin, newPlant(seed));
  }

  async addKey(seed: KeySeed = {}): Promise<SeededKey> {
    return await seedApiKey(this.admin, seed);
  }

  partnerOptions(
    key: { id: string; key: string; signingKey: string } = this.credentials.apiKey,
  ): PartnerOptions & { ca: string } {
    return {
      host: 'localhost',
      port: this.bridge.ports.amqps,
      ca: this.certificates.ca,
      slug: this.credentials.organization.slug,
      key: key.key,
      signingKey: key.signingKey,
      vhost: `partner-${key.id}`,
    };
  }

  async partner(key?: { id: string; key: string; signingKey: string }): Promise<Partner> {
    return await Partner.connect(this.partnerOptions(key));
  }

  /** Creates another gateway of a plant. */
  async addDevice(plantId: string | null): Promise<SeededDevice> {
    return await seedDevice(this.admin, plantId, 'CONTROLLER');
  }

  /** Evicts the object from memory; its sockets hibernate, and the next event wakes it. */
  async putToSleep(className: 'Site' | 'Vhost', name: string): Promise<void> {
    await this.edge.miniflare.unsafeEvictDurableObject('', className, { name, webSockets: 'hibernate' });
  }

  /** A token of any lifetime; the platform itself issues tokens valid for a minute at least. */
  async deviceToken(
    deviceId: string = this.credentials.gateway.id,
    lifetimeSeconds = 3_600,
  ): Promise<string> {
    return (await signDeviceToken(this.credentials.tokenKeys, deviceId, lifetimeSeconds, Date.now())).token;
  }

  /** A gateway that obeys at once, unless the options say otherwise. */
  async gateway(
    device: { id: string; hmacSecret: string } = this.credentials.gateway,
    obey: Obey = () => true,
    port: number = this.bridge.ports.mqtts,
  ): Promise<Gateway> {
    return new Gateway(
      {
        host: 'localhost',
        port,
        ca: this.ca,
        deviceId: device.id,
        hmacSecret: device.hmacSecret,
        token: await this.deviceToken(device.id),
      },
      obey,
    );
  }

  /** A bare MQTT client with these credentials; rejects with the CONNACK's error. */
  async mqtt(
    username: string | undefined,
    password: string | undefined,
    clientId = 'test',
    port: number = this.bridge.ports.mqtts,
  ): Promise<MqttClient> {
    return await connectAsync({
      protocol: 'mqtts',
      host: 'localhost',
      port,
      ca: this.ca,
      clientId,
      clean: true,
      reconnectPeriod: 0,
      ...(username === undefined ? {} : { username }),
      ...(password === undefined ? {} : { password }),
    });
  }

  async rest(
    path: string,
    key: string = this.credentials.apiKey.key,
  ): Promise<{ status: number; body: never }> {
    const response = await fetch(`${this.edge.url}/api/v1${path}`, { headers: { 'x-api-key': key } });
    return { status: response.status, body: (await response.json()) as never };
  }

  async #answers(): Promise<boolean> {
    try {
      return (await fetch(`${this.edge.url}/healthz`)).ok;
    } catch {
      return false;
    }
  }
}

/** Polls a condition without a fixed wait; throws the last value when the condition never holds. */
export async function eventually<Value>(
  look: () => Promise<Value | undefined> | Value | undefined,
  timeoutMs = 10_000,
): Promise<Value> {
  const giveUpAt = Date.now() + timeoutMs;
  for (;;) {
    const value = await look();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > giveUpAt) throw new Error(`it did not come within ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function startBridge(
  edgeUrl: string,
  { bridgeSecret }: Pick<StackSecrets, 'bridgeSecret'>,
  certificates: CertificateFiles,
  asProcess: boolean,
  ports: BridgePorts = { amqps: 0, mqtts: 0, mtls: 0, metrics: 0 },
  bridgeId = 'bridge-test',
): Promise<RunningBridge> {
  const environment = {
    SITEWIRE_EDGE_URL: edgeUrl,
    SITEWIRE_BRIDGE_SECRET: bridgeSecret,
    SITEWIRE_BRIDGE_ID: bridgeId,
    SITEWIRE_TLS_CERT: certificates.certificate,
    SITEWIRE_TLS_KEY: certificates.key,
    SITEWIRE_DEVICE_CA: certificates.deviceCa.certificate,
    SITEWIRE_MTLS_PORT: String(ports.mtls ?? 0),
    SITEWIRE_AMQPS_PORT: String(ports.amqps),
    SITEWIRE_MQTTS_PORT: String(ports.mqtts),
    SITEWIRE_METRICS_PORT: String(ports.metrics),
    SITEWIRE_LOG_LEVEL: 'silent',
  };
  if (!asProcess) {
    const bridge = new Bridge(readConfig(environment), pino({ level: 'silent' }));
    const listening = await bridge.start();
    const kill = () => Promise.reject(new Error('only a bridge process can be killed'));
    return { ports: listening, process: undefined, stop: () => bridge.stop(), kill };
  }
  const script = join(import.meta.dirname, '..', '..', 'bridge', 'index.ts');
  const child = fork(script, {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const [message] = (await once(child, 'message')) as [{ ports: RunningBridge['ports'] }];
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  };
  return { ports: message.ports, process: child, stop: () => end('SIGTERM'), kill: () => end('SIGKILL') };
}
