/** A whole bridge on ports of 127.0.0.1, and clients of a test that come to it by TLS from any loopback address. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { type Logger, pino } from 'pino';
import { METHOD } from '../../bridge/amqp/wire/codec.ts';
import { Bridge, type BridgePorts } from '../../bridge/bridge.ts';
import { readConfig } from '../../bridge/config.ts';
import { type CertificateFiles, ensureCertificates, ensureDeviceCa } from '../../tools/certificates.ts';
import type { Authority } from '../../worker/lifecycle/device-certificate.ts';
import { PROTOCOL_HEADER } from './bridge-amqp-frames.ts';
import { AmqpPeer, type HandshakeOptions } from './bridge-amqp-peer.ts';
import { SECRET, type TestEdge } from './bridge-edge.ts';
import { DEVICE_ID } from './bridge-link.ts';
import { type ConnectOptions, connectPacket, MqttPeer } from './bridge-mqtt-peer.ts';

export const ADDRESS = '127.0.0.1';
export const OTHER_ADDRESS = '127.0.0.2';

/** Certificates for all bridges of one file. */
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

  /** Of devices, as the bridge trusts it. */
  get authority(): Authority {
    return readAuthority(this.files.deviceCa);
  }

  /** Another one, which no bridge trusts. */
  async foreignAuthority(): Promise<Authority> {
    return readAuthority(await ensureDeviceCa(mkdtempSync(join(this.#folder, 'foreign-'))));
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export function readAuthority({ certificate, key }: CertificateFiles['deviceCa']): Authority {
  return { certificate: readFileSync(certificate, 'utf8'), key: readFileSync(key, 'utf8') };
}

export class WholeBridge {
  readonly ports: BridgePorts;
  /** What each connection begins with, before TLS. */
  preamble: Buffer = Buffer.alloc(0);
  readonly #bridge: Bridge;
  readonly #streams = new Set<{ destroy(): void }>();

  private constructor(bridge: Bridge, ports: BridgePorts) {
    this.#bridge = bridge;
    this.ports = ports;
  }

  /** `changes`: of its environment; undefined takes a variable out. */
  static async start(
    edge: TestEdge,
    { files }: TestCertificates,
    changes: Record<string, string | undefined> = {},
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
    return new WholeBridge(bridge, await bridge.start());
  }

  /** Its clients go first: none keeps it waiting. */
  async stop(): Promise<void> {
    for (const stream of this.#streams) stream.destroy();
    await this.#bridge.stop();
  }

  /** While its clients are there. */
  stopAlone(): Promise<void> {
    return this.#bridge.stop();
  }

  rereadTlsFiles(): Promise<void> {
    return this.#bridge.rereadTlsFiles();
  }

  /** A partner that has sent its start-ok. */
  async partner(options: HandshakeOptions = {}, address = ADDRESS): Promise<AmqpPeer> {
    const peer = new AmqpPeer(await this.#connect(this.ports.amqps, address));
    peer.write(PROTOCOL_HEADER);
    await peer.takeMethod(METHOD.connectionStart);
    peer.startOk(options);
    return peer;
  }

  /** A device that has sent its CONNECT. */
  async device(options: ConnectOptions = {}, address = ADDRESS): Promise<MqttPeer> {
    const peer = new MqttPeer(await this.#connect(this.ports.mqtts, address));
    peer.write(connectPacket({ username: DEVICE_ID, password: 'token', ...options }));
    return peer;
  }

  /** Who has come to the listener of devices and sent nothing. */
  async stranger(): Promise<MqttPeer> {
    return new MqttPeer(await this.#connect(this.ports.mqtts, ADDRESS));
  }

  /** A device on the listener for certificates that has sent its CONNECT, by default one without a user name. */
  async certified(identity: ConnectionOptions, options: ConnectOptions = {}): Promise<MqttPeer> {
    const peer = new MqttPeer(await this.#connect(this.ports.mtls ?? 0, ADDRESS, identity));
    peer.write(connectPacket(options));
    return peer;
  }

  /** The value of a metric, by its name and labels. */
  async metric(line: string): Promise<number> {
    const text = await (await fetch(`http://${ADDRESS}:${this.ports.metrics}/metrics`)).text();
    const found = text.split('\n').find((one) => one.startsWith(`sitewire_bridge_${line} `));
    return Number(found?.split(' ').at(-1) ?? 0);
  }

  async #connect(port: number, localAddress: string, identity: ConnectionOptions = {}): Promise<TLSSocket> {
    const carrier = connectTcp({ host: ADDRESS, port, localAddress });
    if (this.preamble.length > 0) carrier.write(this.preamble);
    const socket = connectTls({
      socket: carrier,
      rejectUnauthorized: false,
      ...identity,
    });
    this.#streams.add(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once('secureConnect', resolve);
      socket.once('error', reject);
    });
    return socket;
  }
}
