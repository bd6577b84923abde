/**
 * Another bridge, in this process, whose connections to the edge go through a TCP proxy that a test can
 * disturb.
 */
import { pino } from 'pino';
import { Bridge } from '../../bridge/bridge.ts';
import { readConfig } from '../../bridge/config.ts';
import type { TestStack } from './stack.ts';
import { TcpProxy } from './tcp-proxy.ts';

export class ProxiedBridge {
  readonly ports: { amqps: number; mqtts: number };
  /** Every link of this bridge. */
  readonly links: TcpProxy;
  readonly #bridge: Bridge;

  private constructor(bridge: Bridge, ports: { amqps: number; mqtts: number }, links: TcpProxy) {
    this.#bridge = bridge;
    this.ports = ports;
    this.links = links;
  }

  static async start(stack: TestStack, bridgeId: string): Promise<ProxiedBridge> {
    const links = await TcpProxy.start(Number(new URL(stack.edge.url).port));
    const config = readConfig({
      SITEWIRE_EDGE_URL: `http://127.0.0.1:${links.port}`,
      SITEWIRE_BRIDGE_SECRET: stack.credentials.bridgeSecret,
      SITEWIRE_BRIDGE_ID: bridgeId,
      SITEWIRE_TLS_CERT: stack.certificates.certificate,
      SITEWIRE_TLS_KEY: stack.certificates.key,
      SITEWIRE_AMQPS_PORT: '0',
      SITEWIRE_MQTTS_PORT: '0',
      SITEWIRE_METRICS_PORT: '0',
    });
    const bridge = new Bridge(config, pino({ level: 'silent' }));
    return new ProxiedBridge(bridge, await bridge.start(), links);
  }

  async stop(): Promise<void> {
    this.links.resume();
    await this.#bridge.stop();
    await this.links.stop();
  }
}
