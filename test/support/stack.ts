/**
 * A whole stack for a test file: edge under workerd with data in a folder of its own, bridge on free TLS ports, one
 * organization with one plant and one key. `bridgeProcess: true` runs the bridge as a process that can be killed.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connectAsync, type MqttClient } from 'mqtt';
import { pino } from 'pino';
import { Bridge } from '../../bridge/bridge.ts';
import { readConfig } from '../../bridge/config.ts';
import { composeApiKey } from '../../protocol/api-key.ts';
import { type CertificateFiles, ensureCertificates } from '../../tools/certificates.ts';
import { makeCredentials, type StackCredentials, signDeviceToken } from '../../tools/credentials.ts';
import { type Edge, startEdge } from '../../tools/edge.ts';
import { siteOf } from '../../tools/objects.ts';
import { Partner, type PartnerOptions } from '../../tools/partner.ts';
import { type KeySeed, type PlantSeed, seedApiKey, seedOrganization, seedPlant } from '../../tools/seed.ts';
import { Gateway, type Obey } from '../../tools/simulator/gateway.ts';

export interface StackOptions {
  /** Another Worker entry, which may wrap the product's classes. */
  entry?: string;
  bindings?: Record<string, string>;
  bridgeProcess?: boolean;
}

export interface RunningBridge {
  ports: { amqps: number; mqtts: number; metrics: number };
  /** Only with `bridgeProcess`. */
  process: ChildProcess | undefined;
  stop(): Promise<void>;
  /** kill -9; only with `bridgeProcess`. */
  kill(): Promise<void>;
}

export class TestStack {
  readonly folder: string;
  readonly credentials: StackCredentials;
  readonly certificates: CertificateFiles;
  readonly ca: string;
  readonly edge: Edge;
  bridge: RunningBridge;
  readonly #options: StackOptions;

  private constructor(
    folder: string,
    credentials: StackCredentials,
    certificates: CertificateFiles,
    edge: Edge,
    bridge: RunningBridge,
    options: StackOptions,
  ) {
    this.folder = folder;
    this.credentials = credentials;
    this.certificates = certificates;
    this.ca = readFileSync(certificates.ca, 'utf8');
    this.edge = edge;
    this.bridge = bridge;
    this.#options = options;
  }

  static async start(options: StackOptions = {}): Promise<TestStack> {
    const folder = mkdtempSync(join(tmpdir(), 'sitewire-test-'));
    const credentials = makeCredentials(`acme-${randomBytes(3).toString('hex')}`);
    const certificates = await ensureCertificates(join(folder, 'certificates'));
    const edge = await startEdge({
      dataFolder: join(folder, 'edge'),
      port: 0,
      secrets: {
        bridgeSecret: credentials.bridgeSecret,
        dataKeys: credentials.dataKeys,
        tokenPublicKey: JSON.stringify(credentials.tokenPublicKey),
      },
      ...(options.entry ? { entry: options.entry } : {}),
      ...(options.bindings ? { bindings: options.bindings } : {}),
    });
    // Rates that no test meets unless it sets its own.
    const settings = { publishRatePerSecond: 10_000, deviceRatePerSecond: 1_000 };
    await seedOrganization(edge.miniflare, credentials, settings);
    const bridge = await startBridge(edge.url, credentials, certificates, options.bridgeProcess ?? false);
    const stack = new TestStack(folder, credentials, certificates, edge, bridge, options);
    await stack.addPlant({ id: credentials.plantId, gateway: credentials.gateway });
    await seedApiKey(edge.miniflare, credentials.organization, credentials.admin.id, credentials.apiKey);
    return stack;
  }

  async stop(): Promise<void> {
    await this.bridge.stop();
    await this.edge.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** kill -9 of workerd; resolves when Miniflare has another one running and it answers. */
  async killEdge(): Promise<void> {
    const pid = this.edge.pid();
    if (pid) process.kill(pid, 'SIGKILL');
    for (let attempt = 0; attempt < 200; attempt++) {
      const next = this.edge.pid();
      if (next && next !== pid && (await this.#answers())) return;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    throw new Error('the edge did not come back');
  }

  /** A bridge again, on the same ports, after `bridge.kill()` or `bridge.stop()`. */
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

  /** One more bridge beside the first, on ports of its own. */
  async addBridge(bridgeId: string): Promise<RunningBridge> {
    return await startBridge(this.edge.url, this.credentials, this.certificates, false, undefined, bridgeId);
  }

  async addPlant(seed: Partial<PlantSeed> = {}): Promise<PlantSeed> {
    const ean = () => `8591824${String(Math.floor(Math.random() * 1e11)).padStart(11, '0')}`;
    const plant: PlantSeed = {
      id: randomUUID(),
      name: 'Plant',
      eanCons: ean(),
      eanProd: ean(),
      externalPlantId: null,
      gateway: { id: randomUUID(), hmacSecret: randomBytes(32).toString('hex') },
      ...seed,
    };
    await seedPlant(this.edge.miniflare, this.credentials.organization.id, plant);
    return plant;
  }

  async addKey(seed: Partial<KeySeed> = {}): Promise<KeySeed> {
    const key: KeySeed = {
      id: randomUUID(),
      key: composeApiKey(randomBytes(128)),
      signingKey: randomBytes(32).toString('hex'),
      ...seed,
    };
    await seedApiKey(this.edge.miniflare, this.credentials.organization, this.credentials.admin.id, key);
    return key;
  }

  partnerOptions(
    key: { id: string; key: string; signingKey: string } = this.credentials.apiKey,
  ): PartnerOptions {
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

  /** One more gateway of a plant. */
  async addDevice(plantId: string): Promise<{ id: string; hmacSecret: string }> {
    const device = { id: randomUUID(), hmacSecret: randomBytes(32).toString('hex') };
    const database = await this.edge.miniflare.getD1Database('DB');
    await database
      .prepare(
        `INSERT INTO devices (id, organization_id, plant_id, name, serial_number, type, auth_method, status, provisioned_at_ms, created_at_ms)
         VALUES (?, ?, ?, 'Controller', ?, 'CONTROLLER', 'TOKEN', 'ACTIVE', 1, 1)`,
      )
      .bind(device.id, this.credentials.organization.id, plantId, device.id)
      .run();
    const site = await siteOf(this.edge.miniflare, plantId);
    const { id: deviceId, hmacSecret } = device;
    await site.adoptDevice({ siteId: plantId, plantId, deviceId, type: 'CONTROLLER', hmacSecret });
    return device;
  }

  /** The object leaves memory; its sockets hibernate, and the next event wakes it. */
  async putToSleep(className: 'Site' | 'Vhost', name: string): Promise<void> {
    await this.edge.miniflare.unsafeEvictDurableObject('', className, { name, webSockets: 'hibernate' });
  }

  async deviceToken(
    deviceId: string = this.credentials.gateway.id,
    lifetimeSeconds = 3_600,
  ): Promise<string> {
    return await signDeviceToken(this.credentials.tokenPrivateKey, deviceId, lifetimeSeconds);
  }

  /** A gateway that obeys at once, or as told. */
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

/** Polls a condition without a fixed wait; throws what it last saw when it never holds. */
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
  credentials: StackCredentials,
  certificates: CertificateFiles,
  asProcess: boolean,
  ports: { amqps: number; mqtts: number; metrics: number } = { amqps: 0, mqtts: 0, metrics: 0 },
  bridgeId = 'bridge-test',
): Promise<RunningBridge> {
  const environment = {
    SITEWIRE_EDGE_URL: edgeUrl,
    SITEWIRE_BRIDGE_SECRET: credentials.bridgeSecret,
    SITEWIRE_BRIDGE_ID: bridgeId,
    SITEWIRE_TLS_CERT: certificates.certificate,
    SITEWIRE_TLS_KEY: certificates.key,
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
