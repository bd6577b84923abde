/**
 * A gateway on the real MQTT: signed telemetry and status out, signed commands in, acks RECEIVED, IN_PROGRESS,
 * COMPLETED. It does each command once, however often it comes, and nothing that is not properly signed and fresh.
 */
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { connect, type MqttClient } from 'mqtt';
import { compact, sliceMembers } from '../../protocol/compact-json.ts';
import type { DeviceAckStatus } from '../../protocol/enums.ts';
import { LIMIT } from '../../protocol/limits.ts';
import {
  ackSigningString,
  commandSigningString,
  statusSigningString,
  telemetrySigningString,
} from '../../protocol/signing.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import type { SiteCommand } from './orders.ts';

export interface GatewayOptions {
  host: string;
  port: number;
  /** PEM text. */
  ca: string;
  deviceId: string;
  hmacSecret: string;
  token: string;
  /** A newer token that the platform sent; it is used from the next connect on. */
  onToken?: (token: string, expiresAt: string) => void;
  /** Another token, when the one that it has is refused. */
  renew?: () => Promise<string>;
  /** Its subscription stands, and the platform knows. */
  onListening?: () => void;
  /** How it acknowledges, asked each time; at once unless given. */
  manners?: () => Manners;
  /** Told of each verified command, acknowledgement and reading. */
  watch?: (word: GatewayWord) => void;
}

export interface Manners {
  /** false: takes commands without a word. */
  answers: boolean;
  /** How long each acknowledgement waits before it is made and sent. */
  ackDelayMs: number;
}

export type GatewayWord =
  | { kind: 'command'; cmdId: string; action: string; payload: Record<string, unknown> }
  | { kind: 'ack'; cmdId: string; status: DeviceAckStatus }
  | { kind: 'telemetry'; data: Readonly<Record<string, number>> };

/** Whether the plant obeyed; false makes the command FAILED. */
export type Obey = (command: SiteCommand) => boolean;

const MAX_REMEMBERED_COMMANDS = 10_000;
/** CONNACK: the token is refused. */
const REFUSED = 5;
/** How often it asks for another token at most. */
const RENEWAL_MS = 30_000;

export class Gateway {
  readonly #options: GatewayOptions;
  readonly #obey: Obey;
  readonly #client: MqttClient;
  /** What became of each command: a repeated one is acknowledged again, not done again. */
  readonly #outcomes = new Map<string, DeviceAckStatus>();
  #renewedAtMs = 0;

  constructor(options: GatewayOptions, obey: Obey) {
    this.#options = options;
    this.#obey = obey;
    this.#client = connect({
      protocol: 'mqtts',
      host: options.host,
      port: options.port,
      ca: options.ca,
      clientId: options.deviceId,
      username: options.deviceId,
      password: options.token,
      clean: true,
      keepalive: 60,
      reconnectPeriod: 500,
      // A CONNACK of 3 means "try again"; without this the client would give up at the first.
      reconnectOnConnackError: true,
      queueQoSZero: false,
    });
    this.#client.on('connect', () => void this.#onConnect());
    this.#client.on('message', (_topic, payload) => this.#onCommand(payload.toString('utf8')));
    this.#client.on('error', (error) => {
      if (!this.#client.disconnecting) console.error(`gateway: ${error.message}`);
      if ('code' in error && error.code === REFUSED) void this.#renew();
    });
  }

  async #renew(): Promise<void> {
    const { renew } = this.#options;
    if (!renew || Date.now() - this.#renewedAtMs < RENEWAL_MS) return;
    this.#renewedAtMs = Date.now();
    try {
      this.#client.options.password = await renew();
    } catch (error) {
      console.error(`gateway: ${String(error)}`);
    }
  }

  get connected(): boolean {
    return this.#client.connected;
  }

  /** Resolves when the platform has stored it. */
  async publishTelemetry(data: Readonly<Record<string, number>>): Promise<void> {
    const ts = Date.now();
    const nonce = randomUUID();
    const dataText = JSON.stringify(data);
    const sig = this.#sign(telemetrySigningString(this.#options.deviceId, ts, nonce, dataText));
    this.#options.watch?.({ kind: 'telemetry', data });
    await this.#publish('telemetry', `{"ts":${ts},"nonce":"${nonce}","data":${dataText},"sig":"${sig}"}`);
  }

  async stop(): Promise<void> {
    await this.#client.endAsync();
  }

  async #onConnect(): Promise<void> {
    const ts = Date.now();
    const nonce = randomUUID();
    const sig = this.#sign(statusSigningString(this.#options.deviceId, ts, nonce, 'ONLINE'));
    await this.#client.subscribeAsync(deviceTopic(this.#options.deviceId, 'commands'), { qos: 1 });
    await this.#publish('status', JSON.stringify({ ts, nonce, status: 'ONLINE', sig }));
    this.#options.onListening?.();
  }

  #onCommand(text: string): void {
    const command = this.#verify(text);
    if (!command) return;
    this.#options.watch?.({ kind: 'command', ...command });
    const known = this.#outcomes.get(command.cmdId);
    if (known) {
      this.#ack(command.cmdId, known);
      return;
    }
    this.#ack(command.cmdId, 'RECEIVED');
    const obeyed = command.action === 'TOKEN_REFRESH' ? this.#takeToken(command) : this.#obey(command);
    if (obeyed) this.#ack(command.cmdId, 'IN_PROGRESS');
    const outcome = obeyed ? 'COMPLETED' : 'FAILED';
    this.#remember(command.cmdId, outcome);
    this.#ack(command.cmdId, outcome);
  }

  #takeToken({ payload }: SiteCommand): boolean {
    const { token, expiresAt } = payload;
    if (typeof token !== 'string' || typeof expiresAt !== 'string') return false;
    this.#client.options.password = token;
    this.#options.onToken?.(token, expiresAt);
    return true;
  }

  /** The command, when its signature and time hold; anything else is ignored. */
  #verify(text: string): (SiteCommand & { cmdId: string }) | undefined {
    const members = sliceMembers(text);
    if (!members.ok) return undefined;
    const { cmdId, ts, action, payload, sig } = JSON.parse(text) as {
      cmdId: string;
      ts: number;
      action: string;
      payload: Record<string, unknown>;
      sig: string;
    };
    const payloadText = compact(members.value.get('payload') ?? '');
    const expected = this.#sign(commandSigningString(this.#options.deviceId, cmdId, ts, action, payloadText));
    if (sig.length !== expected.length || !timingSafeEqual(Buffer.from(sig), Buffer.from(expected)))
      return undefined;
    return Math.abs(Date.now() - ts) <= LIMIT.timestampToleranceMs ? { cmdId, action, payload } : undefined;
  }

  #ack(cmdId: string, status: DeviceAckStatus): void {
    const { answers, ackDelayMs } = this.#options.manners?.() ?? { answers: true, ackDelayMs: 0 };
    if (!answers) return;
    if (ackDelayMs > 0) setTimeout(() => this.#sendAck(cmdId, status), ackDelayMs).unref();
    else this.#sendAck(cmdId, status);
  }

  #sendAck(cmdId: string, status: DeviceAckStatus): void {
    // It has left meanwhile: what it was told comes again at its next session.
    if (this.#client.disconnecting) return;
    this.#options.watch?.({ kind: 'ack', cmdId, status });
    const ts = Date.now();
    const sig = this.#sign(ackSigningString(this.#options.deviceId, cmdId, ts, status));
    this.#publish('ack', JSON.stringify({ cmdId, status, ts, sig })).catch((error: unknown) => {
      console.error(`gateway: ack of ${cmdId} not stored: ${String(error)}`);
    });
  }

  #remember(cmdId: string, outcome: DeviceAckStatus): void {
    this.#outcomes.set(cmdId, outcome);
    const [oldest] = this.#outcomes.keys();
    if (this.#outcomes.size > MAX_REMEMBERED_COMMANDS && oldest) this.#outcomes.delete(oldest);
  }

  async #publish(name: 'telemetry' | 'status' | 'ack', payload: string): Promise<void> {
    await this.#client.publishAsync(deviceTopic(this.#options.deviceId, name), payload, { qos: 1 });
  }

  #sign(text: string): string {
    return createHmac('sha256', this.#options.hmacSecret).update(text).digest('hex');
  }
}
