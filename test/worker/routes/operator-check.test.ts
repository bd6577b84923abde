/** What a deployment's configuration would make fail, read before anybody uses it [C-15.5]. */
import 'reflect-metadata';
import { env } from 'cloudflare:workers';
import * as x509 from '@peculiar/x509';
import { vi } from 'vitest';
import { anonymous, bodyOf } from '#workerd/client.ts';
import { operator } from '#workerd/operator.ts';
import { restRequest, sendRequest } from '#workerd/rest.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import type { Env } from '../../../durable-objects/env.ts';

const DAY_MS = 86_400_000;
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const SMTP_PASSWORD = 'pass-of-the-mail-server';

interface Finding {
  setting: string;
  outcome: 'FAILURE' | 'WARNING';
  text: string;
}

interface Listener {
  host: string;
  port: number;
  ca: string | null;
}

interface Check {
  findings: Finding[];
  publicUrl: string | null;
  listeners: { amqp: Listener | null; mqtt: Listener | null; mqttMtls: Listener | null };
}

/** A deployment in which everything is set. */
const WHOLE: Partial<Env> = {
  AMQP_HOST: 'amqp.example.org',
  MQTT_HOST: 'mqtt.example.org',
  PUBLIC_URL: 'https://api.example.org',
  SMTP_URL: `smtps://mailer:${SMTP_PASSWORD}@smtp.example.org:465`,
  MAIL_FROM: 'Sitewire <sitewire@example.org>',
  REGISTRATION: 'closed',
};

async function check(settings: object = {}): Promise<Check> {
  const bindings = { ...WHOLE, ...settings } as Partial<Env>;
  return await bodyOf<Check>(await operator.call('/platform/check', {}, bindings), 200);
}

/** What the check says about one setting. */
async function said(setting: string, settings: object): Promise<[Finding['outcome'], string][]> {
  const { findings } = await check(settings);
  return findings.filter((one) => one.setting === setting).map(({ outcome, text }) => [outcome, text]);
}

async function authority(validDays: number) {
  const keys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const { privateKey } = keys as CryptoKeyPair;
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: '01',
    name: 'CN=Acme device CA',
    notBefore: new Date(Date.now() - 400 * DAY_MS),
    notAfter: new Date(Date.now() + validDays * DAY_MS),
    signingAlgorithm: ALGORITHM,
    keys: keys as CryptoKeyPair,
    extensions: [new x509.BasicConstraintsExtension(true, 0, true)],
  });
  const key = await crypto.subtle.exportKey('pkcs8', privateKey);
  return {
    DEVICE_CA_CERTIFICATE: certificate.toString('pem'),
    DEVICE_CA_KEY: x509.PemConverter.encode(key as ArrayBuffer, 'PRIVATE KEY'),
  };
}

describe('GET /platform/check', () => {
  it('finds nothing in a deployment in which everything is set, and names its listeners', async () => {
    expect(await check()).toEqual({
      findings: [],
      publicUrl: 'https://api.example.org',
      listeners: {
        amqp: { host: 'amqp.example.org', port: 5_671, ca: null },
        mqtt: { host: 'mqtt.example.org', port: 8_885, ca: null },
        mqttMtls: { host: 'mqtt.example.org', port: 8_883, ca: null },
      },
    });
  });

  it('names the ports and authorities that are set, and no listener that devices cannot use', async () => {
    const settings = { AMQP_PORT: '15671', AMQP_CA: 'amqp-pem', MQTT_CA: 'mqtt-pem', MQTT_PORT: '18885' };
    const { listeners } = await check({
      ...settings,
      DEVICE_CA_CERTIFICATE: undefined,
      DEVICE_CA_KEY: undefined,
    });
    expect(listeners).toEqual({
      amqp: { host: 'amqp.example.org', port: 15_671, ca: 'amqp-pem' },
      mqtt: { host: 'mqtt.example.org', port: 18_885, ca: 'mqtt-pem' },
      mqttMtls: null,
    });
  });

  it('is only for the operator', async () => {
    await expectError(await anonymous.call('/platform/check'), 401, 'UNAUTHORIZED');
  });

  it('contains no secret, whatever is wrong with it', async () => {
    for (const settings of [
      {},
      { MAIL_FROM: '' },
      { SMTP_URL: `mailer:${SMTP_PASSWORD}@smtp.example.org` },
    ]) {
      const text = JSON.stringify(await check({ ...settings, DATA_KEYS: `x${env.DATA_KEYS}` }));
      for (const secret of [
        SMTP_PASSWORD,
        env.DATA_KEYS,
        env.SESSION_SECRET,
        env.BRIDGE_SECRET,
        env.OPERATOR_TOKEN,
      ])
        expect(text).not.toContain(secret);
      expect(text).not.toContain('PRIVATE KEY');
    }
  });

  it.each<[string, object, string]>([
    ['BRIDGE_SECRET', { BRIDGE_SECRET: undefined }, 'no bridge can connect'],
    ['BRIDGE_SECRET', { BRIDGE_SECRET: 'short' }, '32 characters'],
    ['DATA_KEYS', { DATA_KEYS: undefined }, 'version:key'],
    ['DATA_KEYS', { DATA_KEYS: '1:zz' }, 'version:key'],
    ['SESSION_SECRET', { SESSION_SECRET: '' }, '32 characters'],
    ['TOKEN_KEYS', { TOKEN_KEYS: undefined }, 'JWK set'],
    ['TOKEN_KEYS', { TOKEN_KEYS: '{"keys":[' }, 'JWK set'],
    ['TOKEN_KEYS', { TOKEN_KEYS: '{"keys":[]}' }, 'no private key'],
    ['METRICS_TOKEN', { METRICS_TOKEN: 'short' }, '32 characters'],
    ['SMTP_URL', { SMTP_URL: 'smtp.example.org:587' }, 'smtps://user:password@host:465'],
    ['SMTP_URL', { SMTP_URL: 'https://smtp.example.org' }, 'smtps://user:password@host:465'],
    ['MAIL_FROM', { MAIL_FROM: undefined }, 'address that mails are sent from'],
    ['MAIL_FROM', { MAIL_FROM: 'Sitewire' }, 'address that mails are sent from'],
    ['MAIL_FROM', { MAIL_FROM: 'Sitewire <sitewire@example.org> x' }, 'address that mails are sent from'],
    ['PUBLIC_URL', { PUBLIC_URL: undefined }, 'mails contain no link'],
    ['PUBLIC_URL', { PUBLIC_URL: 'http://api.example.org' }, 'https://'],
    ['PUBLIC_URL', { PUBLIC_URL: 'api.example.org' }, 'https://'],
    ['PUBLIC_URL', { PUBLIC_URL: 'https://api.example.org/v1' }, 'no path'],
    ['REGISTRATION', { REGISTRATION: 'Open' }, '"open" or "closed"'],
    ['CLIENT_ADDRESS', { CLIENT_ADDRESS: 'cloudflare' }, '"platform"'],
    ['ADDRESS_RATE_PER_MINUTE', { ADDRESS_RATE_PER_MINUTE: 'many' }, 'whole number'],
    ['AMQP_PORT', { AMQP_PORT: '70000' }, 'from 1 to 65535'],
    ['MQTT_PORT', { MQTT_PORT: 'mqtts' }, 'from 1 to 65535'],
    ['MQTT_MTLS_PORT', { MQTT_MTLS_PORT: '0' }, 'from 1 to 65535'],
    ['AMQP_HOST', { AMQP_HOST: 'amqps://amqp.example.org' }, 'host name'],
    ['MQTT_HOST', { MQTT_HOST: 'mqtt.example.org:8885' }, 'host name'],
    ['DEVICE_CA_KEY', { DEVICE_CA_KEY: undefined }, 'DEVICE_CA_CERTIFICATE'],
    ['DEVICE_CA_CERTIFICATE', { DEVICE_CA_CERTIFICATE: undefined }, 'DEVICE_CA_KEY'],
    ['DEVICE_CA_CERTIFICATE', { DEVICE_CA_CERTIFICATE: 'not PEM' }, 'PEM'],
    ['JURISDICTION', { JURISDICTION: 'germany' }, '"eu", "us" or "none"'],
  ])('finds a %s that cannot work: %o', async (setting, settings, text) => {
    expect(await said(setting, settings)).toEqual([['FAILURE', expect.stringContaining(text)]]);
  });

  it.each<[string, object, string]>([
    ['AMQP_HOST', { AMQP_HOST: undefined }, 'keys cannot have broker scopes'],
    ['MQTT_HOST', { MQTT_HOST: undefined }, 'no device can be provisioned'],
    ['SMTP_URL', { SMTP_URL: undefined, MAIL_FROM: undefined }, 'nobody can reset a password'],
    ['METRICS_TOKEN', { METRICS_TOKEN: undefined }, 'GET /metrics'],
    ['CLIENT_ADDRESS', { CLIENT_ADDRESS: undefined }, 'allowedIps'],
    [
      'DEVICE_CA_CERTIFICATE',
      { DEVICE_CA_CERTIFICATE: undefined, DEVICE_CA_KEY: undefined },
      'authMethod MTLS',
    ],
  ])('warns of what is off without %s', async (setting, settings, text) => {
    expect(await said(setting, settings)).toEqual([['WARNING', expect.stringContaining(text)]]);
  });

  it('finds that nobody can register where registration is open and no mail is sent [C-14.1]', async () => {
    const settings = { REGISTRATION: 'open', SMTP_URL: undefined, MAIL_FROM: undefined };
    expect(await said('REGISTRATION', settings)).toEqual([
      ['FAILURE', expect.stringContaining('nobody can prove an address')],
    ]);
  });

  it('names the end of the authority of device certificates: an error after it, a warning in the year before', async () => {
    const ofEnd = async (days: number) => said('DEVICE_CA_CERTIFICATE', await authority(days));
    expect(await ofEnd(-1)).toEqual([['FAILURE', expect.stringContaining('has expired')]]);
    const end = new Date(Date.now() + 20 * DAY_MS).toISOString().slice(0, 10);
    expect(await ofEnd(20)).toEqual([['WARNING', expect.stringContaining(`expires on ${end}`)]]);
    expect(await ofEnd(3_650)).toEqual([]);
  });

  it('finds a DEVICE_CA_KEY that belongs to another certificate', async () => {
    const { DEVICE_CA_KEY } = await authority(3_650);
    expect(await said('DEVICE_CA_KEY', { DEVICE_CA_KEY })).toEqual([
      ['FAILURE', expect.stringContaining('another certificate')],
    ]);
  });

  it('finds a database that cannot be read, and one whose tables are not there', async () => {
    const real = env.DB.prepare.bind(env.DB);
    const prepare = vi.spyOn(env.DB, 'prepare').mockImplementation(() => {
      throw new Error('D1 is away');
    });
    expect(await said('DB', {})).toEqual([['FAILURE', expect.stringContaining('cannot be read')]]);
    prepare.mockImplementation(() => real('SELECT 1 FROM no_such_table'));
    expect(await said('DB', {})).toEqual([
      ['FAILURE', expect.stringContaining('wrangler d1 migrations apply')],
    ]);
  });
});

describe('GET /readyz', () => {
  const ready = (settings: object) => sendRequest(restRequest('/readyz'), settings as Partial<Env>);

  it('answers 503 and names the mail setting that cannot work [C-15.5]', async () => {
    for (const [name, settings] of [
      ['SMTP_URL', { ...WHOLE, SMTP_URL: `mailer:${SMTP_PASSWORD}@smtp.example.org` }],
      ['MAIL_FROM', { ...WHOLE, MAIL_FROM: 'nobody' }],
    ] as const) {
      const { message } = await expectError(await ready(settings), 503, 'SERVICE_UNAVAILABLE');
      expect(message).toContain(name);
      expect(message).not.toContain(SMTP_PASSWORD);
    }
  });

  it('answers 200 with mail that can work, and without mail', async () => {
    for (const settings of [WHOLE, { ...WHOLE, SMTP_URL: undefined, MAIL_FROM: undefined }])
      expect((await ready(settings)).status).toBe(200);
  });
});
