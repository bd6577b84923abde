/** A whole bridge on ports of 127.0.0.1, and TLS clients at any loopback address. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { type Logger, pino } from 'pino';
import { vi } from 'vitest';
import { METHOD } from '../../bridge/amqp/wire/codec.ts';
import { Bridge, type BridgePorts } from '../../bridge/bridge.ts';
import { readConfig } from '../../bridge/config.ts';
import { type CertificateFiles, ensureCertificates, ensureDeviceCa } from '../../tools/certificates.ts';
import { issueCertificate } from '../../worker/lifecycle/device-certificate.ts';
import { AmqpPeer, type HandshakeOptions } from './bridge-amqp-peer.ts';
import { type DeviceEdgeLink, SECRET, type TestEdge, type VhostEdgeLink } from './bridge-edge.ts';
import { BridgeLines } from './bridge-lines.ts';
import { DEVICE_ID } from './bridge-link.ts';
import { type ConnectOptions, connectPacket, MqttPeer } from './bridge-mqtt-peer.ts';
import { edgeTest } from './bridge-test.ts';

export const ADDRESS = '127.0.0.1';
export const OTHER_ADDRESS = '127.0.0.2';
export const OLD_TLS = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;

/** The certificates of all bridges of one file. */
export class TestCertificates {
  readonly files: CertificateFiles;
  readonly #folder: string;

  private constructor(folder: string, files: CertificateFiles) {
    this.#folder = folder;
    this.files = files;
  }

  static async create(): Promise<TestCertificates> {
    const folder = mkdtempSync(join(tmpdir(), 'sitewire-bridge-'));
    return new TestCertificates(folder, await ensureCertificates(folder));
  }

  /** A device certificate of the authority that the bridge trusts. */
  device(name?: string, now?: number): Promise<DeviceIdentity> {
    return issueDevice(this.files.deviceCa, name, now);
  }

  /** A device certificate of an authority of the same name that no bridge trusts. */
  async foreignDevice(): Promise<DeviceIdentity> {
    return issueDevice(await ensureDeviceCa(mkdtempSync(join(this.#folder, 'foreign-'))));
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export interface DeviceIdentity {
  cert: string;
  key: string | undefined;
  fingerprint: string;
}

/** `now`: the time of issue. */
export async function issueDevice(
  { certificate, key }: CertificateFiles['deviceCa'],
  name: string = DEVICE_ID,
  now = Date.now(),
): Promise<DeviceIdentity> {
  const authority = { certificate: readFileSync(certificate, 'utf8'), key: readFileSync(key, 'utf8') };
  const issued = await issueCertificate(authority, name, undefined, now);
  return { cert: issued.certificate, key: issued.privateKey, fingerprint: issued.fingerprint };
}

export type Environment = Record<string, string | undefined>;

export class WholeBridge {
  readonly ports: BridgePorts;
  /** Bytes that each connection sends before TLS. */
  preamble: Buffer = Buffer.alloc(0);
  readonly #edge: TestEdge;
  readonly #bridge: Bridge;
  readonly #streams = new Set<{ destroy(): void }>();

  private constructor(edge: TestEdge, bridge: Bridge, ports: BridgePorts) {
    this.#edge = edge;
    this.#bridge = bridge;
    this.ports = ports;
  }

  /** `changes`: variables of its environment; undefined removes one. */
  static async start(
    edge: TestEdge,
    { files }: TestCertificates,
    changes: Environment = {},
    log: Logger = pino({ level: 'silent' }),
  ): Promise<WholeBridge> {
    const config = readConfig({
      SITEWIRE_EDGE_URL: edge.url,
      SITEWIRE_BRIDGE_SECRET: SECRET,
      SITEWIRE_BRIDGE_ID: 'bridge-test',
      SITEWIRE_TLS_CERT: files.certificate,
      SITEWIRE_TLS_KEY: files.key,
      SITEWIRE_HOST: ADDRESS,
      SITEWIRE_AMQPS_PORT: '0',
      SITEWIRE_MQTTS_PORT: '0',
      SITEWIRE_MTLS_PORT: '0',
      SITEWIRE_DEVICE_CA: files.deviceCa.certificate,
      SITEWIRE_METRICS_PORT: '0',
      ...changes,
    });
    const bridge = new Bridge(config, log);
    return new WholeBridge(edge, bridge, await bridge.start());
  }

  /** Closes its clients first, so that it waits for none. */
  async stop(): Promise<void> {
    for (const stream of this.#streams) stream.destroy();
    await this.#bridge.stop();
  }

  stopWithClients(): Promise<void> {
    return this.#bridge.stop();
  }

  rereadTlsFiles(): Promise<void> {
    return this.#bridge.rereadTlsFiles();
  }

  /** A partner that has sent its start-ok. */
  async partner(options: HandshakeOptions = {}, address = ADDRESS): Promise<AmqpPeer> {
    const peer = new AmqpPeer(await this.#connect(this.ports.amqps, address));
    await peer.logIn(options);
    return peer;
  }

  /** The connection close that a rejected login gets; with a vhost, after connection.open. */
  async rejectedPartner(options: HandshakeOptions = {}, address?: string): Promise<string> {
    const peer = await this.partner(options, address);
    if (options.vhost !== undefined) await peer.openVhost(options.vhost);
    const close = await peer.takeConnectionClose();
    peer.stream.destroy();
    return close;
  }

  /** A device that has sent its CONNECT. */
  async device(options: ConnectOptions = {}, address = ADDRESS): Promise<MqttPeer> {
    const peer = new MqttPeer(await this.#connect(this.ports.mqtts, address));
    peer.write(connectPacket({ username: DEVICE_ID, password: 'token', ...options }));
    return peer;
  }

  /** A partner whose connection is open, and its link. */
  async openPartner(): Promise<{ peer: AmqpPeer; link: VhostEdgeLink }> {
    const [peer, link] = await Promise.all([this.partner(), this.#edge.vhostLink()]);
    await peer.openVhost();
    await peer.takeMethod(METHOD.connectionOpenOk);
    return { peer, link };
  }

  /** A device with a session, and its link. */
  async openDevice(options: ConnectOptions = {}): Promise<{ peer: MqttPeer; link: DeviceEdgeLink }> {
    const [peer, link] = await Promise.all([this.device(options), this.#edge.deviceLink()]);
    const code = await peer.takeConnack();
    if (code !== 0) throw new Error(`refused with ${code}`);
    return { peer, link };
  }

  /** A client of the listener for devices that has sent nothing. */
  async stranger(): Promise<MqttPeer> {
    return new MqttPeer(await this.#connect(this.ports.mqtts, ADDRESS));
  }

  /** A device on the listener for certificates that has sent its CONNECT, by default without a user name. */
  async certified(identity: ConnectionOptions, options: ConnectOptions = {}): Promise<MqttPeer> {
    const peer = new MqttPeer(await this.#connect(this.ports.mtls ?? 0, ADDRESS, identity));
    peer.write(connectPacket(options));
    return peer;
  }

  /** The page of the metrics server at this path. */
  fetch(path: string): Promise<Response> {
    return fetch(`http://${ADDRESS}:${this.ports.metrics}${path}`);
  }

  /** The value of a metric, by its name and labels. */
  async metric(line: string): Promise<number> {
    const text = await (await this.fetch('/metrics')).text();
    const found = text.split('\n').find((one) => one.startsWith(`sitewire_bridge_${line} `));
    return Number(found?.split(' ').at(-1) ?? 0);
  }

  /** A TLS client in its handshake, and the socket under it. */
  connectTls(port = 0, localAddress = ADDRESS, options: ConnectionOptions = {}) {
    const carrier = connectTcp({ host: ADDRESS, port, localAddress });
    if (this.preamble.length > 0) carrier.write(this.preamble);
    return { carrier, socket: connectTls({ socket: carrier, rejectUnauthorized: false, ...options }) };
  }

  async #connect(port: number, localAddress: string, identity: ConnectionOptions = {}): Promise<TLSSocket> {
    const { socket } = this.connectTls(port, localAddress, identity);
    this.#streams.add(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once('secureConnect', resolve);
      socket.once('error', reject);
    });
    return socket;
  }
}

/** `bridge` runs with the variables of `environment`, which a file may change; `lines` is its log. */
export const bridgeTest = edgeTest
  // biome-ignore lint/correctness/noEmptyPattern: a fixture's first parameter must be an object pattern
  .extend('certificates', { scope: 'file' }, async ({}, { onCleanup }) => {
    const certificates = await TestCertificates.create();
    onCleanup(() => certificates.remove());
    return certificates;
  })
  .extend('environment', (): Environment => ({}))
  .extend('lines', () => new BridgeLines())
  .extend('bridge', async ({ edge, certificates, environment, lines }, { onCleanup }) => {
    const bridge = await WholeBridge.start(edge, certificates, environment, lines.log);
    onCleanup(() => {
      // The bridge waits for its connections on a clock that moves.
      vi.useRealTimers();
      return bridge.stop();
    });
    return bridge;
  });
