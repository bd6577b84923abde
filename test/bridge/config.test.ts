/** The bridge's environment: what it must say, what it may say, and that every mistake is named. */
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
  it('of what is required has the standard ports', () => {
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

  it('takes everything that may be said, and no notice of what is not its own', () => {
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
  ])('with proxies %j believes %j', (SITEWIRE_PROXIES, proxies) => {
    expect(readConfig({ ...GOOD, SITEWIRE_PROXIES }).proxies).toEqual(proxies);
  });

  it('with an authority for device certificates listens for them, on the standard port or another [C-3.3]', () => {
    const clientAuthority = '/etc/sitewire/device-ca.pem';
    const withAuthority = { ...GOOD, SITEWIRE_DEVICE_CA: clientAuthority };
    expect(readConfig(withAuthority).mtls).toEqual({ clientAuthority, port: 8883 });
    const elsewhere = { ...withAuthority, SITEWIRE_MTLS_PORT: '18883' };
    expect(readConfig(elsewhere).mtls).toEqual({ clientAuthority, port: 18_883 });
    expect(readConfig({ ...GOOD, SITEWIRE_MTLS_PORT: '18883' }).mtls).toBeUndefined();
  });

  it.each(Object.keys(GOOD))('without %s is refused, and says so', (name) => {
    expect(errorOf({ ...GOOD, [name]: undefined })).toMatch(
      new RegExp(`^bad configuration of ${name}\\. ${name}: .+$`),
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
  ])('with proxies %j is refused, and says so', (SITEWIRE_PROXIES) => {
    expect(errorOf({ ...GOOD, SITEWIRE_PROXIES })).toMatch(
      /^bad configuration of SITEWIRE_PROXIES\.\d+\. SITEWIRE_PROXIES\.\d+: must be addresses or CIDR ranges, a comma between$/,
    );
  });

  it.each([
    ['SITEWIRE_EDGE_URL', 'edge.example'],
    ['SITEWIRE_EDGE_URL', 'ftp://edge.example'],
    ['SITEWIRE_EDGE_URL', 'ws://edge.example'],
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
  ])('with a bad %s (%j) is refused, and says so', (name, value) => {
    expect(errorOf({ ...GOOD, [name]: value })).toMatch(
      new RegExp(`^bad configuration of ${name}\\. ${name}: .+$`),
    );
  });

  it('with many mistakes names them all, and tells no secret', () => {
    const message = errorOf({
      ...GOOD,
      SITEWIRE_BRIDGE_SECRET: 'too-short',
      SITEWIRE_AMQPS_PORT: 'x',
      SITEWIRE_TLS_KEY: undefined,
    });
    const [, names = ''] = /^bad configuration of ([^.]+)\. /.exec(message) ?? [];
    expect(names.split(', ').sort()).toEqual([
      'SITEWIRE_AMQPS_PORT',
      'SITEWIRE_BRIDGE_SECRET',
      'SITEWIRE_TLS_KEY',
    ]);
    expect(message).not.toContain('too-short');
  });
});
