/** The bridge as one object: its listeners, its engines, its way to the edge. Stateless; any number of them may run. */
import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import type { Server as HttpServer } from 'node:http';
import type { Server } from 'node:net';
import type { Logger } from 'pino';
import { type DeviceLinkDown, type DeviceLinkUp, deviceLinkDown } from '../protocol/link/device.ts';
import { type VhostLinkDown, type VhostLinkUp, vhostLinkDown } from '../protocol/link/vhost.ts';
import { Addresses } from './addresses.ts';
import { AmqpConnection } from './amqp/connection.ts';
import type { BridgeConfig } from './config.ts';
import { type DialResult, dial, startPulse } from './link.ts';
import { createMetricsServer, Metrics } from './metrics.ts';
import { MqttEngine } from './mqtt/engine.ts';
import { type Edge, whyNotReady } from './proof.ts';
import type { Proxies } from './proxied.ts';
import { createTlsListener, listen } from './tls.ts';

/** Where it listens; `mtls`: where it has an authority for device certificates. */
export interface BridgePorts {
  amqps: number;
  mqtts: number;
  mtls?: number;
  metrics: number;
}

export class Bridge {
  readonly #config: BridgeConfig;
  readonly #log: Logger;
  readonly #metrics = new Metrics();
  readonly #edge: Edge;
  readonly #addresses = new Addresses();
  readonly #digestKey = randomBytes(32);
  readonly #amqpConnections = new Set<AmqpConnection>();
  readonly #amqpServer: Server;
  readonly #mqttServer: Server;
  readonly #mtlsServer: Server | undefined;
  readonly #mqtt: MqttEngine;
  readonly #metricsServer: HttpServer;
  #stopPulse = () => {};
  #listening = false;

  constructor(config: BridgeConfig, log: Logger) {
    this.#config = config;
    this.#log = log;
    this.#edge = { url: config.edgeUrl, secret: config.secret, bridge: config.bridgeId, boot: randomUUID() };
    const { tls, mtls } = config;
    const proxies: Proxies = {
      ranges: config.proxies,
      refused: (proxy, why) => log.warn({ proxy, why }, 'connection of a proxy without a good PROXY header'),
    };
    this.#amqpServer = createTlsListener(
      tls,
      (socket, address) => this.#acceptAmqp(socket, address),
      proxies,
    );
    this.#mqttServer = createTlsListener(tls, (...client) => this.#mqtt.accept(...client), proxies);
    this.#mtlsServer =
      mtls &&
      createTlsListener(
        { ...tls, clientAuthority: mtls.clientAuthority },
        (...client) => this.#mqtt.accept(...client),
        proxies,
      );
    this.#mqtt = this.#createMqtt();
    this.#metricsServer = createMetricsServer(this.#metrics, () => this.#whyNotReady());
  }

  /** The ports it listens on, once it does. */
  async start(): Promise<BridgePorts> {
    const { host, amqpsPort, mqttsPort, mtls, metrics } = this.#config;
    await this.#mqtt.start();
    this.#stopPulse = startPulse();
    const ports = {
      amqps: await listen(this.#amqpServer, amqpsPort, host),
      mqtts: await listen(this.#mqttServer, mqttsPort, host),
      ...(this.#mtlsServer && mtls ? { mtls: await listen(this.#mtlsServer, mtls.port, host) } : {}),
      metrics: await listen(this.#metricsServer, metrics.port, metrics.host),
    };
    this.#listening = true;
    this.#log.info({ ...ports, edge: this.#config.edgeUrl }, 'bridge listens');
    return ports;
  }

  /** Stops taking clients, tells those there are to come back, and waits for their goodbyes. */
  async stop(): Promise<void> {
    this.#listening = false;
    this.#addresses.stop();
    const servers = [this.#amqpServer, this.#mqttServer, this.#mtlsServer].filter(
      (server) => server !== undefined,
    );
    const closed = servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve())));
    for (const connection of this.#amqpConnections) {
      connection.shutdown("broker forced connection closure with reason 'shutdown'");
    }
    await this.#mqtt.stop();
    await Promise.all(closed);
    this.#stopPulse();
    this.#metricsServer.close();
    this.#log.info('bridge stopped');
  }

  #acceptAmqp(socket: import('node:tls').TLSSocket, address: string): void {
    const log = this.#log.child({ protocol: 'amqp', address });
    let isOpen = false;
    const connection = new AmqpConnection(
      socket,
      async (credential) =>
        this.#count(
          'amqp',
          log,
          await this.#addresses.dial(
            address,
            () =>
              dial<VhostLinkUp, VhostLinkDown>(
                this.#edge,
                'amqp',
                { ...credential, address, fingerprint: '' },
                vhostLinkDown,
              ),
            { isGone: () => socket.destroyed, credential: this.#digest(credential) },
          ),
        ),
      {
        opened: (details) => {
          isOpen = true;
          this.#metrics.opened('amqp');
          log.info(details, 'connection opened');
        },
        closed: (why) => {
          this.#amqpConnections.delete(connection);
          if (isOpen) this.#metrics.closed('amqp');
          else this.#metrics.refusedClients.inc({ protocol: 'amqp' });
          log.info({ why }, 'connection closed');
        },
        published: (count) => this.#metrics.published.inc({ protocol: 'amqp' }, count),
        delivered: (count) => this.#metrics.delivered.inc({ protocol: 'amqp' }, count),
      },
    );
    this.#amqpConnections.add(connection);
  }

  #createMqtt(): MqttEngine {
    const log = this.#log.child({ protocol: 'mqtt' });
    return new MqttEngine(
      async (credential, address, isGone) =>
        this.#count(
          'mqtt',
          log,
          await this.#addresses.dial(
            address,
            (uncounted) =>
              dial<DeviceLinkUp, DeviceLinkDown>(
                this.#edge,
                uncounted ? 'mqttUncounted' : 'mqtt',
                { ...credential, address },
                deviceLinkDown,
              ),
            { isGone, credential: this.#digest(credential), device: credential.username },
          ),
        ),
      {
        opened: (deviceId) => {
          this.#metrics.opened('mqtt');
          log.info({ deviceId }, 'session opened');
        },
        closed: (deviceId, why) => {
          this.#metrics.closed('mqtt');
          log.info({ deviceId, why }, 'session closed');
        },
        refused: (why) => {
          this.#metrics.refusedClients.inc({ protocol: 'mqtt' });
          log.info({ why }, 'client refused');
        },
        published: () => this.#metrics.published.inc({ protocol: 'mqtt' }),
        commanded: () => this.#metrics.delivered.inc({ protocol: 'mqtt' }),
      },
    );
  }

  /** Tells credentials apart without keeping any: keyed anew in each process. */
  #digest(credential: { username: string; password: string; fingerprint?: string }): string {
    const { username, password, fingerprint = '' } = credential;
    return createHmac('sha256', this.#digestKey)
      .update(JSON.stringify([username, password, fingerprint]))
      .digest('base64');
  }

  #count<Up, Down>(
    protocol: 'amqp' | 'mqtt',
    log: Logger,
    result: DialResult<Up, Down>,
  ): DialResult<Up, Down> {
    this.#metrics.dials.inc({ protocol, outcome: result.outcome });
    if (result.outcome === 'trouble') log.warn({ reason: result.reason }, 'edge not reached');
    if (result.outcome === 'unproven') log.error({ reason: result.reason }, 'edge does not take our proof');
    return result;
  }

  async #whyNotReady(): Promise<string | undefined> {
    return this.#listening ? await whyNotReady(this.#edge) : 'it does not listen';
  }
}
