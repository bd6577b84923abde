/** Certificates that are renewed while a bridge runs: new handshakes use valid new files. */
import { fork } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { connect, type TLSSocket } from 'node:tls';
import { describe, expect } from 'vitest';
import { SECRET } from '#support/bridge-edge.ts';
import { ADDRESS, bridgeTest, type Environment, issueDevice } from '#support/bridge-whole.ts';
import { readTlsFiles } from '../../bridge/tls-files.ts';
import { type CertificateFiles, ensureCertificates } from '../../tools/certificates.ts';

const LOOK_MS = 10_000;

interface Renewal {
  folder: string;
  first: CertificateFiles;
  second: CertificateFiles;
}

function pathsIn(folder: string) {
  return {
    SITEWIRE_TLS_CERT: join(folder, 'tls.crt'),
    SITEWIRE_TLS_KEY: join(folder, 'tls.key'),
    SITEWIRE_DEVICE_CA: join(folder, 'ca.crt'),
  };
}

/** Puts each file in its place with a rename, as certbot does. */
function put({ certificate, key, deviceCa }: CertificateFiles, at: string): void {
  for (const [from, name] of [
    [certificate, 'tls.crt'],
    [key, 'tls.key'],
    [deviceCa.certificate, 'ca.crt'],
  ] as const) {
    copyFileSync(from, join(at, 'new'));
    renameSync(join(at, 'new'), join(at, name));
  }
}

function fingerprintOf(file: string): string {
  return new X509Certificate(readFileSync(file)).fingerprint256;
}

/** The fingerprint of the certificate in a new handshake. */
async function shown(port: number): Promise<string> {
  const socket: TLSSocket = connect({ host: ADDRESS, port, rejectUnauthorized: false });
  socket.on('error', () => {});
  await once(socket, 'secureConnect');
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256;
}

function expirySeconds(file: string): number {
  return new X509Certificate(readFileSync(file)).validToDate.getTime() / 1_000;
}

/** `renewal` has the bridge's folder, which holds the files of `first` at the beginning. */
const it = bridgeTest
  // biome-ignore lint/correctness/noEmptyPattern: a fixture's first parameter must be an object pattern
  .extend('sets', { scope: 'file' }, async ({}, { onCleanup }) => {
    const folder = mkdtempSync(join(tmpdir(), 'sitewire-renewed-'));
    onCleanup(() => rmSync(folder, { recursive: true }));
    const first = await ensureCertificates(join(folder, 'first'));
    const second = await ensureCertificates(join(folder, 'second'));
    return { folder, first, second };
  })
  .extend('renewal', ({ sets }): Renewal => {
    const folder = mkdtempSync(join(sets.folder, 'bridge-'));
    put(sets.first, folder);
    return { ...sets, folder };
  })
  .extend('environment', ({ renewal }): Environment => pathsIn(renewal.folder));

describe('TLS files that change under a bridge', () => {
  it('new files apply to new handshakes, and open sessions stay open', async ({
    clock,
    lines,
    bridge,
    renewal,
  }) => {
    const { folder, first, second } = renewal;
    const { ports } = bridge;
    const { peer, link } = await bridge.openDevice();
    put(second, folder);
    expect(await shown(ports.amqps)).toBe(fingerprintOf(first.certificate));
    await clock.pass(LOOK_MS);
    await lines.until('TLS files loaded', 2);
    for (const port of [ports.amqps, ports.mqtts, ports.mtls ?? 0])
      expect(await shown(port)).toBe(fingerprintOf(second.certificate));
    const renewed = await bridge.certified(await issueDevice(second.deviceCa));
    expect(await renewed.takeConnack()).toBe(0);
    await bridge.certified(await issueDevice(first.deviceCa)).catch(() => {});
    await lines.expect('TLS handshake failed', { reason: 'untrusted-certificate' });
    await peer.ping();
    expect(link.closedWith).toBeUndefined();
  });

  it('the metrics show when the certificates expire, and how often new files were loaded', async ({
    clock,
    lines,
    bridge,
    renewal,
  }) => {
    const { folder, first, second } = renewal;
    const expiry = (certificate: string) =>
      bridge.metric(`certificate_expiry_timestamp_seconds{certificate="${certificate}"}`);
    expect(await expiry('server')).toBe(expirySeconds(first.certificate));
    expect(await expiry('device-ca')).toBe(expirySeconds(first.deviceCa.certificate));
    expect(lines.of('TLS files loaded')).toHaveLength(1);
    // The file also has the listener's authority, which expires earlier.
    writeFileSync(join(folder, 'chain'), `${readFileSync(second.certificate)}${readFileSync(second.ca)}`);
    put({ ...second, certificate: join(folder, 'chain') }, folder);
    await clock.pass(LOOK_MS);
    await lines.expect(
      'TLS files loaded',
      { serverExpires: new Date(expirySeconds(second.ca) * 1_000).toISOString() },
      2,
    );
    expect(await expiry('server')).toBe(expirySeconds(second.ca));
    expect(await bridge.metric('certificate_reloads_total{outcome="taken"}')).toBe(1);
    await clock.pass(LOOK_MS);
    expect(await bridge.metric('certificate_reloads_total{outcome="taken"}')).toBe(1);
  });

  // Kubernetes mounts files as links to a folder, and renews them with a new folder.
  const linkedIt = it.extend('environment', ({ renewal: { folder, first, second } }) => {
    for (const name of ['..1', '..2']) mkdirSync(join(folder, name));
    put(first, join(folder, '..1'));
    put(second, join(folder, '..2'));
    symlinkSync('..1', join(folder, '..data'));
    for (const name of ['tls.crt', 'tls.key', 'ca.crt']) {
      rmSync(join(folder, name));
      symlinkSync(join('..data', name), join(folder, name));
    }
    return pathsIn(folder);
  });

  linkedIt(
    'files in a linked folder are renewed when the link moves',
    async ({ clock, lines, bridge: { ports }, renewal }) => {
      const { folder, first, second } = renewal;
      expect(await shown(ports.amqps)).toBe(fingerprintOf(first.certificate));
      symlinkSync('..2', join(folder, '..new'));
      renameSync(join(folder, '..new'), join(folder, '..data'));
      await clock.pass(LOOK_MS);
      await lines.until('TLS files loaded', 2);
      expect(await shown(ports.amqps)).toBe(fingerprintOf(second.certificate));
    },
  );

  it.for<[string, (renewal: Renewal) => void, RegExp]>([
    [
      'a foreign key',
      ({ folder, second }) => copyFileSync(second.key, join(folder, 'tls.key')),
      /private key/,
    ],
    ['an empty certificate', ({ folder }) => writeFileSync(join(folder, 'tls.crt'), ''), /no certificate/],
    [
      'half a certificate',
      ({ folder, second }) =>
        writeFileSync(join(folder, 'tls.crt'), readFileSync(second.certificate).subarray(0, 300)),
      /no certificate/,
    ],
    ['no authority', ({ folder }) => writeFileSync(join(folder, 'ca.crt'), 'none\n'), /device CA file/],
    ['a missing file', ({ folder }) => rmSync(join(folder, 'tls.key')), /ENOENT/],
  ])(
    '%s keeps the previous files in use until all files are valid',
    async ([_, spoil, why], { clock, lines, bridge, renewal }) => {
      const { folder, first, second } = renewal;
      spoil(renewal);
      await clock.pass(LOOK_MS);
      await lines.expect('TLS reload failed, keeping the previous files', {
        level: 50,
        why: expect.stringMatching(why),
      });
      expect(await bridge.metric('certificate_files_bad')).toBe(1);
      expect(await bridge.metric('certificate_reloads_total{outcome="kept"}')).toBe(1);
      expect(await shown(bridge.ports.amqps)).toBe(fingerprintOf(first.certificate));
      await clock.pass(LOOK_MS);
      expect(lines.of('TLS reload failed, keeping the previous files')).toHaveLength(1);
      put(second, folder);
      await clock.pass(LOOK_MS);
      await lines.until('TLS files loaded', 2);
      expect(await bridge.metric('certificate_files_bad')).toBe(0);
      expect(await shown(bridge.ports.amqps)).toBe(fingerprintOf(second.certificate));
    },
  );
});

const plainIt = it.extend('environment', ({ renewal }) => {
  return { ...pathsIn(renewal.folder), SITEWIRE_DEVICE_CA: undefined };
});
plainIt('have no expiry metric of a device authority that does not exist', async ({ bridge }) => {
  const page = await (await bridge.fetch('/metrics')).text();
  expect(page.match(/expiry_timestamp_seconds\{.*\}/g)).toEqual([
    'expiry_timestamp_seconds{certificate="server"}',
  ]);
});

it('rereadTlsFiles loads the files again even if they have not changed', async ({ lines, bridge }) => {
  await bridge.rereadTlsFiles();
  expect(lines.of('TLS files loaded')).toHaveLength(2);
  expect(await bridge.metric('certificate_reloads_total{outcome="taken"}')).toBe(1);
});

it.for<[string, (renewal: Renewal) => void]>([
  ['a key of another certificate', ({ folder, second }) => copyFileSync(second.key, join(folder, 'tls.key'))],
  ['a certificate as key', ({ folder, second }) => copyFileSync(second.certificate, join(folder, 'tls.key'))],
  ['no authority', ({ folder }) => writeFileSync(join(folder, 'ca.crt'), '')],
])('reading TLS files with %s throws an error', ([_, spoil], { renewal }) => {
  spoil(renewal);
  const {
    SITEWIRE_TLS_CERT: certificate,
    SITEWIRE_TLS_KEY: key,
    SITEWIRE_DEVICE_CA,
  } = pathsIn(renewal.folder);
  expect(() => readTlsFiles({ certificate, key, clientAuthority: SITEWIRE_DEVICE_CA })).toThrow();
});

it('SIGHUP makes a bridge process reread its TLS files', async ({ edge, environment: paths, renewal }) => {
  const { folder, first, second } = renewal;
  const script = join(import.meta.dirname, '..', '..', 'bridge', 'index.ts');
  const environment = {
    SITEWIRE_EDGE_URL: edge.url,
    SITEWIRE_BRIDGE_SECRET: SECRET,
    SITEWIRE_BRIDGE_ID: 'bridge-hup',
    SITEWIRE_HOST: ADDRESS,
    ...Object.fromEntries(
      ['AMQPS', 'MQTTS', 'MTLS', 'METRICS'].map((name) => [`SITEWIRE_${name}_PORT`, '0']),
    ),
    ...paths,
  };
  const child = fork(script, {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const log = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const readTwice = new Promise<void>((resolve) => {
    let times = 0;
    log.on('line', (line) => {
      if (JSON.parse(line).msg === 'TLS files loaded') times += 1;
      if (times === 2) resolve();
    });
  });
  const [message] = (await once(child, 'message')) as [{ ports: { amqps: number } }];
  put(second, folder);
  expect(await shown(message.ports.amqps)).toBe(fingerprintOf(first.certificate));
  child.kill('SIGHUP');
  await readTwice;
  expect(await shown(message.ports.amqps)).toBe(fingerprintOf(second.certificate));
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([0, null]);
});
