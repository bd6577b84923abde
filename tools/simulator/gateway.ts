/**
 * A gateway that speaks real MQTT: it sends signed telemetry and status, receives signed commands, and
 * acknowledges them with RECEIVED, IN_PROGRESS, COMPLETED, or with RECEIVED, FAILED. It executes each command
 * once, however often it arrives, and ignores commands that are not correctly signed or not fresh.
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
  /** Called with a newer token from the platform; the gateway uses it from its next connect on. */
  onToken?: (token: string, expiresAt: string) => void;
  /** Gets another token when the platform rejects the current one. */
  renew?: () => Promise<string>;
  /** Called when the gateway has subscribed to its commands and the platform has stored its ONLINE status. */
  onListening?: () => void;
  /** Called for each acknowledgement: returns whether and when to send it; by default at once. */
  manners?: () => Manners;
  /** Called for each verified command, each acknowledgement and each reading. */
  watch?: (word: GatewayWord) => void;
}

export interface Manners {
  /** false: accepts commands without acknowledging them. */
  answers: boolean;
  /** Delay before each acknowledgement is signed and sent. */
  ackDelayMs: number;
}

export type GatewayWord =
  | { kind: 'command'; cmdId: string; action: string; payload: Record<string, unknown> }
  | { kind: 'ack'; cmdId: string; status: DeviceAckStatus }
  | { kind: 'telemetry'; data: Readonly<Record<string, number>> };

/** Returns whether the plant executed the command; false makes the command FAILED. */
export type Obey = (command: SiteCommand) => boolean;

const MAX_REMEMBERED_COMMANDS = 10_000;
/** CONNACK code: the token was rejected. */
const REFUSED = 5;
/** Minimum time between two requests for another token. */
const RENEWAL_MS = 30_000;

export class Gateway {
  readonly #options: GatewayOptions;
  readonly #obey: Obey;
  readonly #client: MqttClient;
  /** Outcome of each command by cmdId: a repeated command is acknowledged again, not executed again. */
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
      // CONNACK code 3 means "try again"; without this option the client gives up at the first one.
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

  /** Resolves at the PUBACK, when the platform has stored the reading, or dropped and counted it. */
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

  /** Returns the command if its signature and timestamp are valid; other messages are ignored. */
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
    // The gateway has disconnected in the meantime: the platform sends the command again in the next session.
    if (this.#client.disconnecting) return;
    this.#options.watch?.({ kind: 'ack', cmdId, status });
    const ts = Date.now();
    const sig = this.#sign(ackSigningString(this.#options.deviceId, cmdId, ts, status));
    this.#publish('ack', JSON.stringify({ cmdId, status, ts, sig })).catch((error: unknown) => {
      console.error(`gateway: failed to send the ack of ${cmdId}: ${String(error)}`);
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
