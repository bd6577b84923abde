/** Certificates that are renewed under a running bridge: new handshakes get the new ones, and what is not good is not taken. */
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
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { readTlsFiles } from '../../bridge/tls-files.ts';
import { type CertificateFiles, ensureCertificates } from '../../tools/certificates.ts';
import { issueCertificate } from '../../worker/lifecycle/device-certificate.ts';
import { SECRET, TestEdge } from '../support/bridge-edge.ts';
import { BridgeLines } from '../support/bridge-lines.ts';
import { DEVICE_ID } from '../support/bridge-link.ts';
import { CLOCK } from '../support/bridge-signal.ts';
import { ADDRESS, readAuthority, TestCertificates, WholeBridge } from '../support/bridge-whole.ts';

const LOOK_MS = 10_000;

let certificates: TestCertificates;
let folders: string;
let first: CertificateFiles;
let second: CertificateFiles;
let edge: TestEdge;
let bridge: WholeBridge | undefined;
let lines: BridgeLines;
/** Where the bridge's files are. */
let folder: string;

beforeAll(async () => {
  certificates = await TestCertificates.create();
  folders = mkdtempSync(join(tmpdir(), 'sitewire-renewed-'));
  first = await ensureCertificates(join(folders, 'first'));
  second = await ensureCertificates(join(folders, 'second'));
  edge = await TestEdge.start();
});
beforeEach(() => {
  edge.reset();
  folder = mkdtempSync(join(folders, 'bridge-'));
  put(first);
  lines = new BridgeLines();
});
afterEach(async () => {
  vi.useRealTimers();
  await bridge?.stop();
  bridge = undefined;
});
afterAll(async () => {
  await edge.stop();
  certificates.remove();
  rmSync(folders, { recursive: true });
});

function paths(at = folder) {
  return {
    SITEWIRE_TLS_CERT: join(at, 'tls.crt'),
    SITEWIRE_TLS_KEY: join(at, 'tls.key'),
    SITEWIRE_DEVICE_CA: join(at, 'ca.crt'),
  };
}

/** Puts files in their places, each at once, as certbot does. */
function put({ certificate, key, deviceCa }: CertificateFiles, at = folder): void {
  for (const [from, name] of [
    [certificate, 'tls.crt'],
    [key, 'tls.key'],
    [deviceCa.certificate, 'ca.crt'],
  ] as const) {
    copyFileSync(from, join(at, 'new'));
    renameSync(join(at, 'new'), join(at, name));
  }
}

async function start(): Promise<WholeBridge> {
  bridge = await WholeBridge.start(edge, certificates, paths(), lines.log);
  return bridge;
}

function fingerprintOf(file: string): string {
  return new X509Certificate(readFileSync(file)).fingerprint256;
}

/** The certificate that a new handshake shows. */
async function shown(port: number): Promise<string> {
  const socket: TLSSocket = connect({ host: ADDRESS, port, rejectUnauthorized: false });
  socket.on('error', () => {});
  await once(socket, 'secureConnect');
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256;
}

async function device({ deviceCa }: CertificateFiles) {
  const now = Date.now();
  const { certificate, privateKey } = await issueCertificate(
    readAuthority(deviceCa),
    DEVICE_ID,
    undefined,
    now,
  );
  return { cert: certificate, key: privateKey };
}

async function lookAgain(): Promise<void> {
  await vi.advanceTimersByTimeAsync(LOOK_MS);
}

function expirySeconds(file: string): number {
  return new X509Certificate(readFileSync(file)).validToDate.getTime() / 1_000;
}

describe('TLS files that change under a bridge', () => {
  it('are in force for new handshakes on all three listeners, and what stands goes on', async () => {
    vi.useFakeTimers(CLOCK);
    const { ports } = await start();
    const [before, link] = await Promise.all([bridge?.device(), edge.deviceLink()]);
    expect(await before?.takeConnack()).toBe(0);
    put(second);
    expect(await shown(ports.amqps)).toBe(fingerprintOf(first.certificate));
    await lookAgain();
    await lines.until('TLS files in force', 2);
    for (const port of [ports.amqps, ports.mqtts, ports.mtls ?? 0])
      expect(await shown(port)).toBe(fingerprintOf(second.certificate));
    const renewed = await bridge?.certified(await device(second));
    expect(await renewed?.takeConnack()).toBe(0);
    await bridge?.certified(await device(first)).catch(() => {});
    expect(await lines.until('TLS handshake failed')).toMatchObject({ reason: 'untrusted-certificate' });
    await before?.ping();
    expect(link.closedWith).toBeUndefined();
  });

  it('are told by metrics: when they expire, and how often they were taken', async () => {
    vi.useFakeTimers(CLOCK);
    const running = await start();
    const expiry = (certificate: string) =>
      running.metric(`certificate_expiry_timestamp_seconds{certificate="${certificate}"}`);
    expect(await expiry('server')).toBe(expirySeconds(first.certificate));
    expect(await expiry('device-ca')).toBe(expirySeconds(first.deviceCa.certificate));
    expect(lines.of('TLS files in force')).toHaveLength(1);
    // The authority of the listener's certificate stands behind it in the file, and was made before it.
    writeFileSync(join(folders, 'chain'), `${readFileSync(second.certificate)}${readFileSync(second.ca)}`);
    put({ ...second, certificate: join(folders, 'chain') });
    await lookAgain();
    expect(await lines.until('TLS files in force', 2)).toMatchObject({
      serverExpires: new Date(expirySeconds(second.ca) * 1_000).toISOString(),
    });
    expect(await expiry('server')).toBe(expirySeconds(second.ca));
    expect(await running.metric('certificate_reloads_total{outcome="taken"}')).toBe(1);
    await lookAgain();
    expect(await running.metric('certificate_reloads_total{outcome="taken"}')).toBe(1);
  });

  it('are seen where a link to their folder is moved, as Kubernetes does', async () => {
    vi.useFakeTimers(CLOCK);
    for (const [name, files] of [
      ['..1', first],
      ['..2', second],
    ] as const) {
      mkdirSync(join(folder, name));
      put(files, join(folder, name));
    }
    symlinkSync('..1', join(folder, '..data'));
    for (const name of ['tls.crt', 'tls.key', 'ca.crt']) {
      rmSync(join(folder, name));
      symlinkSync(join('..data', name), join(folder, name));
    }
    const { ports } = await start();
    expect(await shown(ports.amqps)).toBe(fingerprintOf(first.certificate));
    symlinkSync('..2', join(folder, '..new'));
    renameSync(join(folder, '..new'), join(folder, '..data'));
    await lookAgain();
    await lines.until('TLS files in force', 2);
    expect(await shown(ports.amqps)).toBe(fingerprintOf(second.certificate));
  });

  it.each<[string, () => void, RegExp]>([
    ['a key of another certificate', () => copyFileSync(second.key, join(folder, 'tls.key')), /private key/],
    ['no certificate', () => writeFileSync(join(folder, 'tls.crt'), ''), /no certificate/],
    [
      'half a certificate',
      () => writeFileSync(join(folder, 'tls.crt'), readFileSync(second.certificate).subarray(0, 300)),
      /no certificate/,
    ],
    ['no authority', () => writeFileSync(join(folder, 'ca.crt'), 'none\n'), /device authority/],
    ['a file missing', () => rmSync(join(folder, 'tls.key')), /ENOENT/],
  ])(
    'and are not good (%s) leave those before in force, told once, and counted',
    async (_title, spoil, why) => {
      vi.useFakeTimers(CLOCK);
      const running = await start();
      spoil();
      await lookAgain();
      expect(await lines.until('TLS files not taken')).toMatchObject({
        level: 50,
        why: expect.stringMatching(why),
      });
      expect(await running.metric('certificate_files_bad')).toBe(1);
      expect(await running.metric('certificate_reloads_total{outcome="kept"}')).toBe(1);
      expect(await shown(running.ports.amqps)).toBe(fingerprintOf(first.certificate));
      await lookAgain();
      expect(lines.of('TLS files not taken')).toHaveLength(1);
      put(second);
      await lookAgain();
      await lines.until('TLS files in force', 2);
      expect(await running.metric('certificate_files_bad')).toBe(0);
      expect(await shown(running.ports.amqps)).toBe(fingerprintOf(second.certificate));
    },
  );
});

it('a device authority that there is not has no expiry, so that none is found to be over', async () => {
  const without = { ...paths(), SITEWIRE_DEVICE_CA: undefined };
  bridge = await WholeBridge.start(edge, certificates, without, lines.log);
  const page = await (await fetch(`http://${ADDRESS}:${bridge.ports.metrics}/metrics`)).text();
  expect(page.match(/expiry_timestamp_seconds\{.*\}/g)).toEqual([
    'expiry_timestamp_seconds{certificate="server"}',
  ]);
});

it('files that are asked for are read though nothing shows that they changed', async () => {
  const running = await start();
  await running.rereadTlsFiles();
  expect(lines.of('TLS files in force')).toHaveLength(2);
  expect(await running.metric('certificate_reloads_total{outcome="taken"}')).toBe(1);
});

it.each<[string, () => void]>([
  ['a key of another certificate', () => copyFileSync(second.key, join(folder, 'tls.key'))],
  ['a key of another kind', () => copyFileSync(second.certificate, join(folder, 'tls.key'))],
  ['no authority', () => writeFileSync(join(folder, 'ca.crt'), '')],
])('a bridge does not start on files that are not good: %s', (_title, spoil) => {
  spoil();
  const { SITEWIRE_TLS_CERT: certificate, SITEWIRE_TLS_KEY: key, SITEWIRE_DEVICE_CA } = paths();
  expect(() => readTlsFiles({ certificate, key, clientAuthority: SITEWIRE_DEVICE_CA })).toThrow();
});

it('SIGHUP has a bridge of its own process read them, at once', async () => {
  const script = join(import.meta.dirname, '..', '..', 'bridge', 'index.ts');
  const environment = {
    SITEWIRE_EDGE_URL: edge.url,
    SITEWIRE_BRIDGE_SECRET: SECRET,
    SITEWIRE_BRIDGE_ID: 'bridge-hup',
    SITEWIRE_HOST: ADDRESS,
    ...Object.fromEntries(
      ['AMQPS', 'MQTTS', 'MTLS', 'METRICS'].map((name) => [`SITEWIRE_${name}_PORT`, '0']),
    ),
    ...paths(),
  };
  const child = fork(script, {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const log = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  const readTwice = new Promise<void>((resolve) => {
    let times = 0;
    log.on('line', (line) => {
      if (JSON.parse(line).msg === 'TLS files in force') times += 1;
      if (times === 2) resolve();
    });
  });
  const [message] = (await once(child, 'message')) as [{ ports: { amqps: number } }];
  put(second);
  expect(await shown(message.ports.amqps)).toBe(fingerprintOf(first.certificate));
  child.kill('SIGHUP');
  await readTwice;
  expect(await shown(message.ports.amqps)).toBe(fingerprintOf(second.certificate));
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([0, null]);
});
