/** The bridge's environment: required and optional variables, and the report of every mistake. */
import { describe, expect, it } from 'vitest';
import { readConfig } from '../../bridge/config.ts';

const GOOD = {
  SITEWIRE_EDGE_URL: 'https://edge.example',
  SITEWIRE_BRIDGE_SECRET: 's'.repeat(32),
  SITEWIRE_BRIDGE_ID: 'bridge-1.eu_a',
  SITEWIRE_TLS_CERT: '/etc/sitewire/server.pem',
  SITEWIRE_TLS_KEY: '/etc/sitewire/server.key',
};

function errorOf(variables: Record<string, string | undefined>): string {
  try {
    readConfig(variables);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('nothing was thrown');
}

describe('the configuration', () => {
  it('has the standard ports and the other defaults with only the required variables', () => {
    expect(readConfig(GOOD)).toEqual({
      edgeUrl: 'https://edge.example',
      secret: 's'.repeat(32),
      bridgeId: 'bridge-1.eu_a',
      tls: { certificate: '/etc/sitewire/server.pem', key: '/etc/sitewire/server.key' },
      host: '::',
      proxies: [],
      amqpsPort: 5671,
      mqttsPort: 8885,
      metrics: { host: '127.0.0.1', port: 9464 },
      logLevel: 'info',
    });
  });

  it('optional variables replace the defaults, and foreign ones are ignored', () => {
    const config = readConfig({
      ...GOOD,
      SITEWIRE_EDGE_URL: 'http://127.0.0.1:8787',
      SITEWIRE_HOST: '127.0.0.1',
      SITEWIRE_AMQPS_PORT: '15671',
      SITEWIRE_MQTTS_PORT: '0',
      SITEWIRE_METRICS_HOST: '0.0.0.0',
      SITEWIRE_METRICS_PORT: '65535',
      SITEWIRE_LOG_LEVEL: 'silent',
      PATH: '/bin',
    });
    expect(config).toMatchObject({
      host: '127.0.0.1',
      amqpsPort: 15_671,
      mqttsPort: 0,
      metrics: { host: '0.0.0.0', port: 65_535 },
      logLevel: 'silent',
    });
  });

  it.each([
    ['', []],
    [' ', []],
    ['192.0.2.7', ['192.0.2.7']],
    ['10.0.0.0/8, 2001:db8::/64,::ffff:192.0.2.7', ['10.0.0.0/8', '2001:db8::/64', '::ffff:192.0.2.7']],
  ])('proxies %j are read as %j', (SITEWIRE_PROXIES, proxies) => {
    expect(readConfig({ ...GOOD, SITEWIRE_PROXIES }).proxies).toEqual(proxies);
  });

  it.each(['http://localhost:8787', 'http://127.0.0.1', 'http://[::1]:8787', 'https://10.0.0.1'])(
    'accepts the edge URL %s, because it is on this machine or uses TLS',
    (SITEWIRE_EDGE_URL) => {
      expect(readConfig({ ...GOOD, SITEWIRE_EDGE_URL }).edgeUrl).toBe(SITEWIRE_EDGE_URL);
    },
  );

  it('SITEWIRE_DEVICE_CA alone opens the listener for certificates, on 8883 or the given port [C-3.3]', () => {
    const clientAuthority = '/etc/sitewire/device-ca.pem';
    const withAuthority = { ...GOOD, SITEWIRE_DEVICE_CA: clientAuthority };
    expect(readConfig(withAuthority).mtls).toEqual({ clientAuthority, port: 8883 });
    const elsewhere = { ...withAuthority, SITEWIRE_MTLS_PORT: '18883' };
    expect(readConfig(elsewhere).mtls).toEqual({ clientAuthority, port: 18_883 });
    expect(readConfig({ ...GOOD, SITEWIRE_MTLS_PORT: '18883' }).mtls).toBeUndefined();
  });

  it.each(Object.keys(GOOD))('a missing %s is reported', (name) => {
    expect(errorOf({ ...GOOD, [name]: undefined })).toMatch(
      new RegExp(`^invalid configuration of ${name}\\. ${name}: .+$`),
    );
  });

  it.each([
    'proxy.example',
    '10.0.0.0/33',
    '10.0.0',
    '010.0.0.1',
    '10.0.0.1,',
    '10.0.0.1 10.0.0.2',
    '10.0.0.1,,10.0.0.2',
    '*',
    'true',
  ])('invalid proxies %j are reported', (SITEWIRE_PROXIES) => {
    expect(errorOf({ ...GOOD, SITEWIRE_PROXIES })).toMatch(
      /^invalid configuration of SITEWIRE_PROXIES\.\d+\. SITEWIRE_PROXIES\.\d+: must be comma-separated addresses or CIDR ranges$/,
    );
  });

  it.each([
    ['SITEWIRE_EDGE_URL', 'edge.example'],
    ['SITEWIRE_EDGE_URL', 'ftp://edge.example'],
    ['SITEWIRE_EDGE_URL', 'ws://edge.example'],
    ['SITEWIRE_EDGE_URL', 'http://edge.example'],
    ['SITEWIRE_EDGE_URL', 'http://localhost.example'],
    ['SITEWIRE_EDGE_URL', 'http://10.0.0.1:8787'],
    ['SITEWIRE_EDGE_URL', 'http://127.0.0.1.example'],
    ['SITEWIRE_EDGE_URL', ''],
    ['SITEWIRE_BRIDGE_SECRET', 's'.repeat(31)],
    ['SITEWIRE_BRIDGE_ID', ''],
    ['SITEWIRE_BRIDGE_ID', 'bridge 1'],
    ['SITEWIRE_BRIDGE_ID', 'bridge;1'],
    ['SITEWIRE_BRIDGE_ID', 'b'.repeat(65)],
    ['SITEWIRE_AMQPS_PORT', 'amqps'],
    ['SITEWIRE_AMQPS_PORT', '-1'],
    ['SITEWIRE_MQTTS_PORT', '65536'],
    ['SITEWIRE_MQTTS_PORT', '88.5'],
    ['SITEWIRE_MTLS_PORT', 'mtls'],
    ['SITEWIRE_METRICS_PORT', '9464x'],
    ['SITEWIRE_LOG_LEVEL', 'loud'],
  ])('an invalid %s (%j) is reported', (name, value) => {
    expect(errorOf({ ...GOOD, [name]: value })).toMatch(
      new RegExp(`^invalid configuration of ${name}\\. ${name}: .+$`),
    );
  });

  it('several mistakes are all reported, without the secret', () => {
    const message = errorOf({
      ...GOOD,
      SITEWIRE_BRIDGE_SECRET: 'too-short',
      SITEWIRE_AMQPS_PORT: 'x',
      SITEWIRE_TLS_KEY: undefined,
    });
    const [, names = ''] = /^invalid configuration of ([^.]+)\. /.exec(message) ?? [];
    expect(names.split(', ').sort()).toEqual([
      'SITEWIRE_AMQPS_PORT',
      'SITEWIRE_BRIDGE_SECRET',
      'SITEWIRE_TLS_KEY',
    ]);
    expect(message).not.toContain('too-short');
  });
});
