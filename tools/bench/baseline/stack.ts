/**
 * What a user would build instead: one application process with RabbitMQ, mosquitto and PostgreSQL, all on the system's
 * core, started from private folders on loopback ports. It has the same plants as a stack of the product has.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import type { CertificateFiles } from '../../certificates.ts';
import { Partner, type PartnerOptions } from '../../partner.ts';
import type { SeededPlant } from '../../seed.ts';
import { newPlant } from '../bench-seed.ts';
import { pinnedTo, SYSTEM_CORE } from '../cores.ts';
import { processCpuMs } from '../figures.ts';
import { treeOf } from '../process-figures.ts';
import { type Mosquitto, startMosquitto } from './mosquitto.ts';
import { type PartnerBroker, startPartnerBroker } from './partner-broker.ts';
import { type Postgres, startPostgres } from './postgres.ts';
import { type Settings, SLUG, VHOST } from './settings.ts';
import { createTables } from './tables.ts';

const USER = 'postgres';

export interface BaselineOptions {
  plants: number;
  /** Number of API keys that get every event, each in queues of its own; default: one. */
  keys?: number;
}

/** Called with the number of readings that each transaction stored. */
export type OnStored = (count: number) => void;

export class BaselineStack {
  readonly plants: readonly SeededPlant[];
  readonly ca: string;
  readonly ports: { mqtts: number };
  readonly restKey: string;
  /** Set by the load that wants to know when readings are stored. */
  onStored: OnStored = () => {};
  readonly #parts: Parts;
  readonly #settings: Settings;
  readonly #partnerOptions: PartnerOptions;
  #application: ChildProcess | undefined;
  #restPort = 0;

  private constructor(parts: Parts, settings: Settings, partnerOptions: PartnerOptions) {
    this.#parts = parts;
    this.#settings = settings;
    this.#partnerOptions = partnerOptions;
    this.plants = parts.plants;
    this.ca = readFileSync(partnerOptions.ca ?? '', 'utf8');
    this.ports = { mqtts: parts.mosquitto.ports.tls };
    this.restKey = parts.restKey;
  }

  static async start(certificates: CertificateFiles, options: BaselineOptions): Promise<BaselineStack> {
    const parts = await startParts(certificates, options);
    const password = randomBytes(16).toString('hex');
    const signingKey = randomBytes(32).toString('hex');
    const rabbitMq = await startPartnerBroker(certificates, password, options.keys ?? 1);
    const settings: Settings = {
      database: { host: parts.postgres.socketFolder, user: USER, database: USER },
      rabbitMq: {
        protocol: 'amqp',
        hostname: '127.0.0.1',
        port: rabbitMq.ports.tcp,
        username: SLUG,
        password,
        vhost: VHOST,
      },
      mqttPort: parts.mosquitto.ports.tcp,
      mqttLogin: parts.login,
      key: { slug: SLUG, signingKey },
      restPort: 0,
    };
    const partnerOptions = {
      ...{
        host: 'localhost',
        port: rabbitMq.ports.tls,
        ca: certificates.ca,
        slug: SLUG,
        vhost: VHOST,
        key: password,
        signingKey,
      },
    };
    const stack = new BaselineStack({ ...parts, rabbitMq }, settings, partnerOptions);
    await stack.startApplication();
    return stack;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#restPort}`;
  }

  async startApplication(): Promise<void> {
    const script = join(import.meta.dirname, 'application.ts');
    const [program, given] = pinnedTo(SYSTEM_CORE, process.execPath, script);
    const child = spawn(program, given, {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      env: {
        ...process.env,
        SITEWIRE_BASELINE: JSON.stringify({ ...this.#settings, restPort: this.#restPort }),
      },
    });
    this.#application = child;
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    child.once('exit', () => {
      if (this.#application !== child) return;
      const error = new Error("the baseline's application has ended: its error is above");
      reject(error);
      // Otherwise the load would wait for answers for ever.
      throw error;
    });
    child.on('message', (message: { port?: number; stored?: number }) => {
      if (message.port) resolve(message.port);
      if (message.stored !== undefined) this.onStored(message.stored);
    });
    this.#restPort = await promise;
  }

  /** Kills the application, as a crash would. */
  async killApplication(): Promise<void> {
    const child = this.#application;
    if (!child) return;
    this.#application = undefined;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  partner(): Promise<Partner> {
    return Partner.connect(this.#partnerOptions);
  }

  async token(deviceId: string): Promise<string> {
    return this.plants.find(({ gateway }) => gateway.id === deviceId)?.gateway.token ?? '';
  }

  /** Reads over REST how many readings are stored; `dropped`: refused or repeated ones. */
  async readings(): Promise<{ stored: number; dropped: number }> {
    const response = await fetch(`${this.url}/bench/readings`, { headers: { 'x-api-key': this.restKey } });
    return (await response.json()) as { stored: number; dropped: number };
  }

  /** CPU of all its processes so far, in ms. */
  cpuMs(): number {
    return Object.values(this.cpuMsByPart()).reduce((total, ms) => total + ms, 0);
  }

  /** The same by program. */
  cpuMsByPart(): Record<'application' | 'postgres' | 'mosquitto' | 'rabbitMq', number> {
    const { postgres, mosquitto, rabbitMq } = this.#parts;
    const ms = (root: number | undefined) =>
      root === undefined ? 0 : treeOf(root).reduce((total, pid) => total + processCpuMs(pid), 0);
    return {
      application: ms(this.#application?.pid),
      postgres: ms(postgres.pid),
      mosquitto: ms(mosquitto.pid),
      rabbitMq: ms(rabbitMq?.pid),
    };
  }

  async stop(): Promise<void> {
    await this.killApplication();
    const { postgres, mosquitto, rabbitMq } = this.#parts;
    await Promise.all([postgres.stop(), mosquitto.stop(), rabbitMq?.stop()]);
  }
}

interface Parts {
  plants: readonly SeededPlant[];
  login: { username: string; password: string };
  restKey: string;
  postgres: Postgres;
  mosquitto: Mosquitto;
  rabbitMq?: PartnerBroker;
}

async function startParts(certificates: CertificateFiles, options: BaselineOptions): Promise<Parts> {
  const plants = Array.from({ length: options.plants }, seededPlant);
  const login = { username: 'application', password: randomBytes(16).toString('hex') };
  const devices = plants.map(({ gateway: { id, token } }) => ({ username: id, password: token }));
  const [postgres, mosquitto] = await Promise.all([
    startPostgres(),
    startMosquitto(certificates, login, devices),
  ]);
  const client = new Client({ host: postgres.socketFolder, user: USER, database: USER });
  await client.connect();
  const restKey = randomBytes(32).toString('hex');
  await createTables(client, plants, restKey);
  await client.end();
  return { plants, login, restKey, postgres, mosquitto };
}

function seededPlant(): SeededPlant {
  const secret = () => randomBytes(32).toString('hex');
  const gateway = { id: randomUUID(), hmacSecret: secret(), token: secret() };
  return { ...newPlant(), id: randomUUID(), gateway };
}
