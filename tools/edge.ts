/**
 * Runs the edge on one machine: the same modules as in production under workerd, with D1 and the objects
 * stored in a folder.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Miniflare } from 'miniflare';
import {
  type Answer,
  assetsWorker,
  documentsWorker,
  simulatorWorker,
  webhookEgress,
  workerOptions,
} from './edge-workers.ts';
import { FILES } from './reference/documents.ts';
import { Revival } from './revival.ts';
import { readableModules, WORKER_ENTRY } from './worker-build.ts';

const ROOT = join(import.meta.dirname, '..');
/** The file that `tools/assets.ts` writes last: if it is there, all are. */
const LAST_ASSET = FILES.viewer;

export interface EdgeSecrets {
  bridgeSecret: string;
  dataKeys: string;
  sessionSecret: string;
  /** JWK set. */
  tokenKeys: string;
  /** undefined: no metrics endpoint. */
  metricsToken?: string;
  /** undefined: no operator. */
  operatorToken?: string;
}

export interface EdgeOptions {
  /** Folder for the data of D1 and of the objects; undefined: in memory. */
  dataFolder: string | undefined;
  port: number;
  secrets: EdgeSecrets;
  /** A Worker entry other than the product's, for tests that wrap it. */
  entry?: string;
  /**
   * The public AMQPS listener, through which new keys are tested; undefined: there is none. `ca`: PEM file of
   * the authority that signed its certificate; the same for all edges of a process.
   */
  amqp?: { host: string; port: number; ca: string };
  /**
   * The public MQTTS listeners, as provisioning returns them; undefined: no device can be provisioned. PEM
   * files.
   */
  mqtt?: {
    host: string;
    port: number;
    mtlsPort: number;
    ca: string;
    deviceCa: { certificate: string; key: string };
  };
  /** Paths of PEM files. If set, the edge serves HTTPS, as on Cloudflare; absent: HTTP. */
  tls?: { certificate: string; key: string };
  /** How mails are sent: as files into a folder, or through a mail server; undefined: mail is off. */
  mail?: { folder: string } | { smtpUrl: string; from: string };
  /** Answers the console about the simulated plant; undefined: there is none. */
  simulator?: Answer;
  /** Additional bindings for the entry. */
  bindings?: Record<string, string>;
  /** Starts workerd's inspector: `miniflare.getInspectorURL()`. */
  inspector?: boolean;
  /** Called once if the runtime has ended and cannot be started again. */
  onLost?: (reason: string) => void;
}

export interface Edge {
  url: string;
  miniflare: Miniflare;
  /** The current workerd process; it changes after a crash. */
  pid(): number | undefined;
  /** Runs the scheduled tasks, which Cloudflare runs each minute. */
  tick(): Promise<void>;
  stop(): Promise<void>;
}

/** Builds the static files that the Worker serves. */
export function buildAssets(): void {
  execFileSync(process.execPath, [join(ROOT, 'tools', 'assets.ts')], { stdio: 'inherit' });
}

function bindingsOf(options: EdgeOptions): Record<string, string> {
  const { bridgeSecret, dataKeys, tokenKeys, sessionSecret, metricsToken, operatorToken } = options.secrets;
  return {
    BRIDGE_SECRET: bridgeSecret,
    DATA_KEYS: dataKeys,
    TOKEN_KEYS: tokenKeys,
    SESSION_SECRET: sessionSecret,
    ...(metricsToken ? { METRICS_TOKEN: metricsToken } : {}),
    ...(operatorToken ? { OPERATOR_TOKEN: operatorToken } : {}),
    // In a development stack anybody may register; in a deployment registration is closed by default.
    REGISTRATION: 'open',
    ...(options.mail && 'smtpUrl' in options.mail
      ? { SMTP_URL: options.mail.smtpUrl, MAIL_FROM: options.mail.from }
      : {}),
    ...(options.amqp ? amqpBindings(options.amqp) : {}),
    ...(options.mqtt ? mqttBindings(options.mqtt) : {}),
    ...options.bindings,
  };
}

export async function startEdge(options: EdgeOptions): Promise<Edge> {
  if (options.amqp) trust(options.amqp.ca);
  const { convertV4MiniflareOptions, Miniflare } = await import('miniflare');
  if (!existsSync(join(ROOT, 'dist', 'assets', LAST_ASSET))) buildAssets();
  const modules = await readableModules(options.entry ?? WORKER_ENTRY);
  const product = {
    ...workerOptions(modules),
    bindings: bindingsOf(options),
    serviceBindings: {
      ASSETS: 'assets',
      WEBHOOK_EGRESS: webhookEgress(options.bindings?.WEBHOOK_PRIVATE === 'allow'),
      ...(options.mail && 'folder' in options.mail ? { MAIL_FOLDER: intoFolder(options.mail.folder) } : {}),
    },
  };
  const allowedHosts = options.bindings?.ALLOWED_HOSTS;
  const settings = (port: number) =>
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port,
      ...(options.dataFolder ? { resourcePersistencePath: options.dataFolder } : {}),
      ...(options.inspector ? { inspectorPort: 0 } : {}),
      handleStructuredLogs: printLog,
      ...(options.tls ? tlsOptions(options.tls) : {}),
      workers: [
        product,
        assetsWorker(),
        documentsWorker(allowedHosts),
        ...(options.simulator ? [simulatorWorker(options.simulator, allowedHosts)] : []),
      ],
    });
  const miniflare = new Miniflare(settings(options.port));
  const url = String(await miniflare.ready).replace(/\/$/, '');
  await migrateD1(miniflare);
  const tick = async () => {
    const worker = await miniflare.getWorker();
    await worker.scheduled({ cron: '* * * * *' });
  };
  // Bridge and simulator have the URL, so the runtime keeps its port.
  const port = Number(new URL(url).port);
  const revival = new Revival(miniflare, () => settings(port), port, options.onLost);
  const stop = async () => {
    revival.end();
    await miniflare.dispose();
  };
  return { url, miniflare, pid: () => workerdPid(), tick, stop };
}

/** Lines of the runtime itself that only say that an alarm rings late, for example after a machine has slept. */
const LATE_ALARM = 'NOSENTRY SQLite alarm';

/** Prints a log line of the Worker or its runtime where the console would. */
function printLog({ level, message }: { level: string; message: string }): void {
  if (message.includes(LATE_ALARM)) return;
  if (level === 'error' || level === 'warn') console.error(message);
  else console.log(message);
}

/** Writes each mail that the Worker posts into a file; the names sort by time. */
function intoFolder(folder: string): Answer {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  let count = 0;
  return async (request) => {
    count += 1;
    const name = `${new Date().toISOString().replaceAll(':', '-')}-${String(count).padStart(4, '0')}.eml`;
    writeFileSync(join(folder, name), await request.text(), { mode: 0o600 });
    return new Response(null, { status: 204 });
  };
}

function tlsOptions({ certificate, key }: NonNullable<EdgeOptions['tls']>) {
  return { https: true, httpsKey: readFileSync(key, 'utf8'), httpsCert: readFileSync(certificate, 'utf8') };
}

function amqpBindings({ host, port, ca }: NonNullable<EdgeOptions['amqp']>) {
  return { AMQP_HOST: host, AMQP_PORT: String(port), AMQP_CA: readFileSync(ca, 'utf8') };
}

function mqttBindings({ host, port, mtlsPort, ca, deviceCa }: NonNullable<EdgeOptions['mqtt']>) {
  return {
    MQTT_HOST: host,
    MQTT_PORT: String(port),
    MQTT_MTLS_PORT: String(mtlsPort),
    MQTT_CA: readFileSync(ca, 'utf8'),
    DEVICE_CA_CERTIFICATE: readFileSync(deviceCa.certificate, 'utf8'),
    DEVICE_CA_KEY: readFileSync(deviceCa.key, 'utf8'),
  };
}

/**
 * Makes miniflare trust `ca` in addition to the machine's authorities. It must be called first: miniflare
 * reads them once, when it is loaded.
 */
function trust(ca: string): void {
  const known = process.env.NODE_EXTRA_CA_CERTS;
  const both = `${ca}.trusted`;
  if (known === both) return;
  const texts = [ca, ...(known && existsSync(known) ? [known] : [])].map((file) =>
    readFileSync(file, 'utf8'),
  );
  writeFileSync(both, texts.join('\n'));
  process.env.NODE_EXTRA_CA_CERTS = both;
}

/** Applies the new files of registry/sql, each once, as `wrangler d1 migrations apply` does. */
async function migrateD1(miniflare: Miniflare): Promise<void> {
  const database = await miniflare.getD1Database('DB');
  await database.exec(
    'CREATE TABLE IF NOT EXISTS d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE)',
  );
  const { results } = await database.prepare('SELECT name FROM d1_migrations').all<{ name: string }>();
  const applied = new Set(results.map((row) => row.name));
  const folder = join(ROOT, 'registry', 'sql');
  const files = readdirSync(folder).filter((name) => name.endsWith('.sql'));
  for (const name of files.sort()) {
    if (applied.has(name)) continue;
    const statements = readFileSync(join(folder, name), 'utf8').split('--> statement-breakpoint');
    await database.batch([
      ...statements.map((statement) => database.prepare(statement)),
      database.prepare('INSERT INTO d1_migrations (name) VALUES (?)').bind(name),
    ]);
  }
}

/** The workerd child of this process; `besides`: another one that it has. */
export function workerdPid(besides?: number): number | undefined {
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const status = readFileSync(`/proc/${entry}/stat`, 'utf8');
      const [name, parent] = [/\((.*)\)/.exec(status)?.[1], Number(status.split(') ')[1]?.split(' ')[1])];
      const isOurs = name === 'workerd' && parent === process.pid && Number(entry) !== besides;
      if (isOurs && !status.includes(') Z ')) return Number(entry);
    } catch {
      // The process has ended in the meantime.
    }
  }
  return undefined;
}
