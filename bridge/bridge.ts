/**
 * The bridge as one object: its listeners, its engines and its connection to the edge. It stores nothing, so
 * any number of bridges may run.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Server as HttpServer } from 'node:http';
import type { Logger } from 'pino';
import { type DeviceLinkDown, type DeviceLinkUp, deviceLinkDown } from '../protocol/link/device.ts';
import type { BridgeConfig } from './config.ts';
import { ConnectionReport } from './connection-report.ts';
import { Door } from './door.ts';
import type { ListenerName } from './handshake-reasons.ts';
import { startPulse } from './link.ts';
import { BridgeLog } from './log.ts';
import { Metrics } from './metrics.ts';
import { createMetricsServer } from './metrics-server.ts';
import { MqttEngine } from './mqtt/engine.ts';
import { Partners } from './partners.ts';
import { type Edge, whyNotReady } from './proof.ts';
import type { Proxies } from './proxied.ts';
import { createTlsListener, type HandshakeFailure, listen, type TlsListener } from './tls.ts';
import { readTlsFiles, TlsFiles, type TlsMaterial } from './tls-files.ts';
import { WaitingRoom } from './waiting-room.ts';

/** The version of Sitewire. */
const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};
/** How often the TLS files are checked for changes. */
const LOOK_MS = 10_000;

/** The ports of the listeners; `mtls` only if a CA for device certificates is configured. */
export interface BridgePorts {
  amqps: number;
  mqtts: number;
  mtls?: number;
  metrics: number;
}

export class Bridge {
  readonly #config: BridgeConfig;
  readonly #log: BridgeLog;
  readonly #metrics = new Metrics(version);
  readonly #edge: Edge;
  readonly #door: Door;
  readonly #partners: Partners;
  readonly #devices: MqttEngine;
  readonly #files: TlsFiles;
  /** All listeners share one waiting room, because its limits protect the memory that they share. */
  readonly #waitingRoom: WaitingRoom;
  readonly #amqps: TlsListener;
  readonly #mqtts: TlsListener;
  readonly #mtls: TlsListener | undefined;
  readonly #metricsServer: HttpServer;
  #stopPulse = () => {};
  #lookAtFiles: NodeJS.Timeout | undefined;
  #listening = false;

  /** Throws if the TLS files are invalid. */
  constructor(config: BridgeConfig, log: Logger) {
    this.#config = config;
    this.#log = new BridgeLog(log);
    this.#edge = { url: config.edgeUrl, secret: config.secret, bridge: config.bridgeId, boot: randomUUID() };
    this.#door = new Door(this.#edge, this.#metrics, this.#log);
    this.#partners = new Partners(this.#door, this.#metrics, this.#log);
    this.#devices = new MqttEngine(
      (credential, { connection, address }, isGone) =>
        this.#door.dial<DeviceLinkUp, DeviceLinkDown>(
          'mqtt',
          { ...credential, connection, address },
          deviceLinkDown,
          isGone,
        ),
      (client) => new ConnectionReport(this.#metrics, this.#log, { protocol: 'mqtt', ...client }),
    );
    this.#waitingRoom = new WaitingRoom((address) =>
      this.#log.write('oldest connection without a login closed', { address }),
    );
    const paths = { ...config.tls, ...(config.mtls && { clientAuthority: config.mtls.clientAuthority }) };
    const material = readTlsFiles(paths);
    this.#inForce(material);
    this.#files = new TlsFiles(paths, {
      taken: (renewed) => this.#renew(renewed),
      kept: (why) => {
        this.#metrics.tlsReread('kept');
        this.#log.write('TLS reload failed, keeping the previous files', { why });
      },
    });
    this.#amqps = createTlsListener(
      material,
      (client) => this.#partners.accept(client),
      this.#optionsOf('amqps'),
    );
    const device: Parameters<typeof createTlsListener>[1] = ({ socket, ...client }) =>
      this.#devices.accept(socket, client);
    this.#mqtts = createTlsListener(material, device, this.#optionsOf('mqtts'));
    this.#mtls = config.mtls && createTlsListener(material, device, this.#optionsOf('mtls'));
    this.#metricsServer = createMetricsServer(this.#metrics, async () =>
      this.#listening ? await whyNotReady(this.#edge) : 'the bridge is not listening',
    );
  }

  /** Resolves with the ports once every listener is up. */
  async start(): Promise<BridgePorts> {
    const { host, amqpsPort, mqttsPort, mtls, metrics } = this.#config;
    await this.#devices.start();
    this.#stopPulse = startPulse();
    await this.#files.look();
    this.#lookAtFiles = setInterval(() => void this.#files.look(), LOOK_MS);
    const ports = {
      amqps: await listen(this.#amqps.server, amqpsPort, host),
      mqtts: await listen(this.#mqtts.server, mqttsPort, host),
      ...(this.#mtls && mtls ? { mtls: await listen(this.#mtls.server, mtls.port, host) } : {}),
      metrics: await listen(this.#metricsServer, metrics.port, metrics.host),
    };
    this.#listening = true;
    const { bridge, boot, url } = this.#edge;
    this.#log.write('bridge listening', {
      mtls: undefined,
      ...ports,
      bridge,
      boot,
      version,
      edge: url,
    });
    return ports;
  }

  /** Reads the TLS files again; new handshakes use them if they are valid. */
  rereadTlsFiles(): Promise<void> {
    return this.#files.reread();
  }

  /** Stops accepting clients, closes the connected ones so that they reconnect, and waits for them. */
  async stop(): Promise<void> {
    this.#listening = false;
    clearInterval(this.#lookAtFiles);
    this.#door.stop();
    const closed = this.#listeners().map(
      ({ server }) => new Promise<void>((resolve) => server.close(() => resolve())),
    );
    this.#partners.stop();
    await this.#devices.stop();
    await Promise.all(closed);
    this.#stopPulse();
    this.#metricsServer.close();
    this.#log.stop();
    this.#log.write('bridge stopped', {});
  }

  #listeners(): TlsListener[] {
    return [this.#amqps, this.#mqtts, this.#mtls].filter((listener) => listener !== undefined);
  }

  #optionsOf(listener: ListenerName) {
    const proxies: Proxies = {
      ranges: this.#config.proxies,
      refused: (proxy, why) => {
        this.#metrics.proxyRefused();
        this.#log.write('proxy connection without a valid PROXY header', { listener, proxy, why });
      },
    };
    const failed = (failure: HandshakeFailure) => this.#handshakeFailed(listener, failure);
    return { demandsCertificate: listener === 'mtls', proxies, failed, waitingRoom: this.#waitingRoom };
  }

  /**
   * Logs a failed TLS handshake. A client that disconnects during the handshake is logged at level debug,
   * because load balancers check the port in this way all the time.
   */
  #handshakeFailed(listener: ListenerName, { reason, code, address }: HandshakeFailure): void {
    this.#metrics.handshakeFailed(listener, reason);
    if (reason === 'client')
      this.#log.write('client disconnected during TLS handshake', { listener, address, code });
    else this.#log.write('TLS handshake failed', { listener, address, reason, code });
  }

  #renew(material: TlsMaterial): void {
    for (const listener of this.#listeners()) listener.renew(material);
    this.#metrics.tlsReread('taken');
    this.#inForce(material);
  }

  #inForce({ expiresMs }: TlsMaterial): void {
    this.#metrics.tlsInForce(expiresMs);
    const { server, 'device-ca': deviceCa } = expiresMs;
    const instant = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString());
    this.#log.write('TLS files loaded', {
      serverExpires: instant(server),
      deviceCaExpires: instant(deviceCa),
    });
  }
}
