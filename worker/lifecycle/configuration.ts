/**
 * Reads the configuration of a deployment and says what would fail, before anybody uses it. No text has the value of a
 * secret.
 */
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { SecretBox } from '../../durable-objects/secrets/secret-box.ts';
import type { ConfigurationCheck, Finding, Listener } from '../../protocol/configuration.ts';
import type { Env } from '../env.ts';
import { senderOf, serverOf } from '../mail/settings.ts';
import { authorityFault } from './device-certificate.ts';

const LEAST_CHARACTERS = 32;
const HOST = /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/;

type Faults = Iterable<Finding>;

export async function checkConfiguration(env: Env, now: number): Promise<ConfigurationCheck> {
  const findings = [
    ...secrets(env),
    ...mail(env),
    ...addresses(env),
    ...choices(env),
    ...(await authority(env, now)),
    ...(await database(env.DB)),
  ];
  const { PUBLIC_URL: publicUrl = null, AMQP_HOST, MQTT_HOST, DEVICE_CA_CERTIFICATE } = env;
  const { AMQP_PORT, MQTT_PORT, MQTT_MTLS_PORT, AMQP_CA, MQTT_CA } = env;
  const mtlsHost = DEVICE_CA_CERTIFICATE ? MQTT_HOST : undefined;
  const listeners = {
    amqp: listenerOf(AMQP_HOST, AMQP_PORT, 5_671, AMQP_CA),
    mqtt: listenerOf(MQTT_HOST, MQTT_PORT, 8_885, MQTT_CA),
    mqttMtls: listenerOf(mtlsHost, MQTT_MTLS_PORT, 8_883, MQTT_CA),
  };
  return { findings, publicUrl, listeners };
}

function failure(setting: keyof Env, text: string): Finding {
  return { setting, outcome: 'FAILURE', text };
}

function warning(setting: keyof Env, text: string): Finding {
  return { setting, outcome: 'WARNING', text };
}

function* secrets(env: Env): Faults {
  const { BRIDGE_SECRET, SESSION_SECRET, METRICS_TOKEN } = env;
  if (!BRIDGE_SECRET) yield failure('BRIDGE_SECRET', 'is missing: no bridge can connect');
  else if (isAnyShort(BRIDGE_SECRET.split(',').map((one) => one.split('=').at(-1) ?? '')))
    yield failure('BRIDGE_SECRET', `each secret must have at least ${LEAST_CHARACTERS} characters`);
  if (isAnyShort((SESSION_SECRET ?? '').split(',')))
    yield failure('SESSION_SECRET', `each secret must have at least ${LEAST_CHARACTERS} characters`);
  if (!METRICS_TOKEN) yield warning('METRICS_TOKEN', 'is missing: GET /metrics is off');
  else if (isAnyShort(METRICS_TOKEN.split(',')))
    yield failure('METRICS_TOKEN', `each token must have at least ${LEAST_CHARACTERS} characters`);
  try {
    new SecretBox(env.DATA_KEYS ?? '');
  } catch {
    yield failure('DATA_KEYS', 'must be a list of version:key, each key 64 lower-case hex characters');
  }
  const keys = keysOf(env.TOKEN_KEYS);
  if (!keys) yield failure('TOKEN_KEYS', 'must be a JWK set of Ed25519 keys');
  else if (!keys.some((key) => typeof key.d === 'string'))
    yield failure('TOKEN_KEYS', 'has no private key: no device gets a token');
}

function isAnyShort(texts: readonly string[]): boolean {
  return texts.some((text) => text.trim().length < LEAST_CHARACTERS);
}

function keysOf(text: string | undefined): { d?: unknown }[] | undefined {
  try {
    const { keys } = JSON.parse(text ?? '') as { keys?: unknown };
    return Array.isArray(keys) ? keys : undefined;
  } catch {
    return undefined;
  }
}

function* mail({ SMTP_URL, MAIL_FROM, EMAIL, MAIL_FOLDER, PUBLIC_URL, REGISTRATION }: Env): Faults {
  const isOff = SMTP_URL === undefined && EMAIL === undefined && MAIL_FOLDER === undefined;
  if (isOff)
    yield warning('SMTP_URL', 'is missing: the deployment sends no mail, so nobody can reset a password');
  if (isOff && REGISTRATION === 'open')
    yield failure('REGISTRATION', 'is open, but without mail nobody can prove an address');
  if (SMTP_URL !== undefined && !serverOf(SMTP_URL))
    yield failure(
      'SMTP_URL',
      'must be smtps://user:password@host:465 or smtp://user:password@host:587, with %XX for special characters',
    );
  const isNeeded = SMTP_URL !== undefined || EMAIL !== undefined;
  if ((isNeeded || MAIL_FROM) && !senderOf(MAIL_FROM ?? ''))
    yield failure('MAIL_FROM', 'must be the address that mails are sent from, or Name <address>');
  if (isNeeded && PUBLIC_URL === undefined)
    yield failure('PUBLIC_URL', 'is missing: mails contain no link, only a token');
}

function* addresses(env: Env): Faults {
  const { PUBLIC_URL, AMQP_HOST, MQTT_HOST } = env;
  const url = PUBLIC_URL !== undefined && URL.canParse(PUBLIC_URL) ? new URL(PUBLIC_URL) : undefined;
  if (PUBLIC_URL !== undefined && (url?.protocol !== 'https:' || url.hostname === ''))
    yield failure('PUBLIC_URL', 'must begin with https://');
  else if (url && url.href !== `${url.origin}/`)
    yield failure('PUBLIC_URL', 'must have no path, for example https://api.example.com');
  if (AMQP_HOST === undefined) yield warning('AMQP_HOST', 'is missing: keys cannot have broker scopes');
  if (MQTT_HOST === undefined) yield warning('MQTT_HOST', 'is missing: no device can be provisioned');
  for (const name of ['AMQP_HOST', 'MQTT_HOST'] as const)
    if (env[name] !== undefined && !HOST.test(env[name]))
      yield failure(name, 'must be a host name, without a scheme or a port');
  for (const name of ['AMQP_PORT', 'MQTT_PORT', 'MQTT_MTLS_PORT'] as const)
    if (env[name] !== undefined && !isPort(env[name])) yield failure(name, 'must be a port from 1 to 65535');
}

function isPort(text: string): boolean {
  return /^[1-9]\d{0,4}$/.test(text) && Number(text) <= 65_535;
}

function* choices({ REGISTRATION, CLIENT_ADDRESS, ADDRESS_RATE_PER_MINUTE, JURISDICTION }: Env): Faults {
  if (REGISTRATION !== undefined && !['open', 'closed'].includes(REGISTRATION))
    yield failure('REGISTRATION', 'must be "open" or "closed"');
  if (CLIENT_ADDRESS === undefined)
    yield warning('CLIENT_ADDRESS', 'is missing: limits by address and allowedIps of keys do not work');
  else if (CLIENT_ADDRESS !== 'platform')
    yield failure(
      'CLIENT_ADDRESS',
      'must be "platform", or absent where the edge does not run on Cloudflare',
    );
  if (ADDRESS_RATE_PER_MINUTE !== undefined && !/^[1-9]\d{0,8}$/.test(ADDRESS_RATE_PER_MINUTE))
    yield failure('ADDRESS_RATE_PER_MINUTE', 'must be a whole number from 1 to 999999999');
  if (JURISDICTION !== undefined && !['eu', 'us', 'none'].includes(JURISDICTION))
    yield failure('JURISDICTION', 'must be "eu", "us" or "none": no object can be reached');
}

async function authority(env: Env, now: number): Promise<Finding[]> {
  const { DEVICE_CA_CERTIFICATE: certificate, DEVICE_CA_KEY: key } = env;
  if (!certificate && !key)
    return [warning('DEVICE_CA_CERTIFICATE', 'is missing: devices cannot have authMethod MTLS')];
  if (!certificate)
    return [failure('DEVICE_CA_CERTIFICATE', 'is missing, and DEVICE_CA_KEY is there: set both')];
  if (!key) return [failure('DEVICE_CA_KEY', 'is missing, and DEVICE_CA_CERTIFICATE is there: set both')];
  const fault = await authorityFault({ certificate, key }, now);
  if (!fault) return [];
  const setting = fault.isOfKey ? 'DEVICE_CA_KEY' : 'DEVICE_CA_CERTIFICATE';
  return [fault.isEnd ? warning(setting, fault.text) : failure(setting, fault.text)];
}

async function database(db: D1Database): Promise<Finding[]> {
  try {
    await db.prepare('SELECT id FROM organizations LIMIT 1').run();
    return [];
  } catch (error) {
    const reason = reasonOf(error);
    const what = reason.includes('no such table')
      ? 'its tables are missing: run `npx wrangler d1 migrations apply`'
      : `cannot be read: ${reason}`;
    return [failure('DB', what)];
  }
}

function listenerOf(
  host: string | undefined,
  port: string | undefined,
  usual: number,
  ca: string | undefined,
): Listener | null {
  if (host === undefined || !HOST.test(host)) return null;
  return { host, port: port !== undefined && isPort(port) ? Number(port) : usual, ca: ca || null };
}
