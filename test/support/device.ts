/**
 * A gateway on stock mqtt that reconnects whenever it is closed, also after "server unavailable", and
 * executes each command once, however often it arrives. It records all executions.
 */
import { createHmac } from 'node:crypto';
import { connect, ErrorWithReasonCode, type IClientOptions, type MqttClient } from 'mqtt';
import type { DeviceAckStatus } from '../../protocol/enums.ts';
import { ackSigningString } from '../../protocol/signing.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import type { TestStack } from './stack.ts';

export interface DeviceOptions {
  port?: number;
  /** False: it does not reconnect after its first connection. */
  comesBack?: boolean;
}

interface DeviceCommand {
  cmdId: string;
  payload: { targets?: { params?: { powerKw?: number } }[] };
}

export class Device {
  /** The ids of the received commands, including repeats. */
  readonly receivedIds: string[] = [];
  /** Sessions opened, and ended, so far. */
  readonly sessions = { opened: 0, ended: 0 };
  /** The return codes of refusing CONNACKs. */
  readonly refusals: number[] = [];
  readonly #client: MqttClient;
  readonly #identity: { id: string; hmacSecret: string };
  readonly #done = new Set<string>();
  readonly #timesByPower = new Map<number, number>();
  #listening = false;

  private constructor(options: IClientOptions, identity: { id: string; hmacSecret: string }) {
    this.#identity = identity;
    this.#client = connect(options);
    this.#client.on('connect', () => this.#listen());
    this.#client.on('close', () => {
      if (this.#listening) this.sessions.ended += 1;
      this.#listening = false;
    });
    this.#client.on('error', (error) => {
      if (error instanceof ErrorWithReasonCode) this.refusals.push(error.code);
    });
    this.#client.on('message', (_topic, payload) => this.#take(JSON.parse(payload.toString('utf8'))));
  }

  static async start(
    stack: TestStack,
    identity: { id: string; hmacSecret: string } = stack.credentials.gateway,
    { port = stack.bridge.ports.mqtts, comesBack = true }: DeviceOptions = {},
  ): Promise<Device> {
    const options: IClientOptions = {
      protocol: 'mqtts',
      host: 'localhost',
      port,
      ca: stack.ca,
      username: identity.id,
      password: await stack.deviceToken(identity.id),
      reconnectPeriod: comesBack ? 250 : 0,
      reconnectOnConnackError: comesBack,
      connectTimeout: 10_000,
    };
    return new Device(options, identity);
  }

  /** Whether the gateway is connected and subscribed. */
  get listening(): boolean {
    return this.#listening;
  }

  /** How often a charge of that power was executed. */
  times(powerKw: number): number {
    return this.#timesByPower.get(powerKw) ?? 0;
  }

  /** Drops its connection without a DISCONNECT. */
  vanish(): void {
    this.#client.stream.destroy();
  }

  async stop(): Promise<void> {
    await this.#client.endAsync(true);
  }

  #listen(): void {
    this.#client.subscribe(deviceTopic(this.#identity.id, 'commands'), { qos: 1 }, (error) => {
      if (error) return;
      this.#listening = true;
      this.sessions.opened += 1;
    });
  }

  #take({ cmdId, payload }: DeviceCommand): void {
    this.receivedIds.push(cmdId);
    if (!this.#done.has(cmdId)) {
      this.#done.add(cmdId);
      for (const { params } of payload.targets ?? []) {
        const powerKw = params?.powerKw ?? 0;
        this.#timesByPower.set(powerKw, this.times(powerKw) + 1);
      }
      this.#acknowledge(cmdId, 'RECEIVED');
    }
    this.#acknowledge(cmdId, 'COMPLETED');
  }

  #acknowledge(cmdId: string, status: DeviceAckStatus): void {
    const ts = Date.now();
    const { id, hmacSecret } = this.#identity;
    const sig = createHmac('sha256', hmacSecret)
      .update(ackSigningString(id, cmdId, ts, status))
      .digest('hex');
    // An acknowledgement that is cut off is sent again in the next session.
    this.#client.publish(
      deviceTopic(id, 'ack'),
      JSON.stringify({ cmdId, status, ts, sig }),
      { qos: 1 },
      () => {},
    );
  }
}
