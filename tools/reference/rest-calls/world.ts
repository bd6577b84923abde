/**
 * What happens around the calls of the REST reference: mails, a gateway over MQTT, commands over AMQP, and a receiver of
 * webhooks.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { CommandFamily } from '../../../protocol/routing-keys.ts';
import { renewalSigningString } from '../../../protocol/signing.ts';
import { Partner } from '../../partner.ts';
import { Gateway } from '../../simulator/gateway.ts';
import type { Stack } from '../../stack-file.ts';

/** What earlier calls have set, by name. */
export type Variables = Record<string, string>;

const WAIT_MS = 10_000;
const PAUSE_MS = 50;
const FULL_BATCH = 50;
/** The limits are of a minute: on a busy machine the requests of one may take as long. */
const FILL_MS = 120_000;
/** A call that shows a full limit must come before the count begins again. */
const LEAST_RESET_SECONDS = 5;

export interface Sent {
  headers?: Record<string, string>;
  body?: unknown;
}

export class World {
  readonly stack: Stack;
  readonly variables: Variables;
  #gateway: Gateway | undefined;
  #partner: Partner | undefined;
  #receiver: Server | undefined;

  constructor(stack: Stack, variables: Variables) {
    this.stack = stack;
    this.variables = variables;
  }

  /** The token in the newest mail to an address that `after` other mails to it came before. */
  async mailedToken(address: string, after: number): Promise<string> {
    return await until(() => this.#mailsTo(address)[after]?.match(/(?<![\w-])[\w-]{43}(?![\w-])/)?.[0]);
  }

  #mailsTo(address: string): string[] {
    const folder = this.stack.mail ?? '';
    return readdirSync(folder)
      .filter((name) => name.endsWith('.eml'))
      .sort()
      .map((name) => readFileSync(join(folder, name), 'utf8').replace(/=\r?\n/g, ''))
      .filter((text) => text.includes(`To: ${address}`));
  }

  /** The gateway connects with its package; from then on it executes every command. */
  async connectGateway(): Promise<void> {
    const { host, port, ca } = this.stack.mqtt;
    const { DEVICE: deviceId = '', SECRET: hmacSecret = '', MQTT_TOKEN: token = '' } = this.variables;
    await new Promise<void>((resolve) => {
      this.#gateway = new Gateway(
        { host, port, ca: readFileSync(ca, 'utf8'), deviceId, hmacSecret, token, onListening: resolve },
        () => true,
      );
    });
  }

  async report(data: Readonly<Record<string, number>>): Promise<void> {
    await this.#gateway?.publishTelemetry(data);
  }

  /** Waits until the command of the device has ended. */
  async commandEnds(): Promise<void> {
    await until(async () => {
      const { DEVICE: device, COMMAND: command } = this.variables;
      const { status } = await this.#read<{ status: string }>(`/devices/${device}/commands/${command}`);
      return status === 'COMPLETED' ? true : undefined;
    });
  }

  /** Waits until an alert is open. */
  async alertOpens(): Promise<void> {
    await until(async () => {
      const { data } = await this.#read<{ data: unknown[] }>('/alerts?status=ACTIVE');
      return data.length > 0 ? true : undefined;
    });
  }

  /** The id of the session that the calls use. */
  async ownSession(): Promise<string> {
    const { data } = await this.#read<{ data: { id: string; current: boolean }[] }>('/auth/sessions');
    return data.find(({ current }) => current)?.id ?? '';
  }

  /** Sends a request that the reference does not show. */
  async send(method: string, path: string, { headers = {}, body }: Sent): Promise<Response> {
    return await fetch(`${this.stack.baseUrl}/api/v1${path}`, {
      method,
      headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  /** The same, of a user: returns the body of a successful answer, throws for any other. */
  async sendAs<Answer>(token: string, method: string, path: string, body?: unknown): Promise<Answer> {
    const headers = token === '' ? {} : { authorization: `Bearer ${token}` };
    const response = await this.send(method, path, { headers, body });
    if (!response.ok) throw new Error(`${method} ${path} answered ${await response.text()}`);
    return (await response.json()) as Answer;
  }

  /** Sends a request again and again until its limit refuses it. */
  async fillLimit(method: string, path: string, sent: Sent): Promise<void> {
    await until(async () => {
      const batch = Array.from({ length: FULL_BATCH }, () => this.send(method, path, sent));
      const answers = await Promise.all(batch);
      await Promise.all(answers.map((answer) => answer.arrayBuffer()));
      const isFull = answers.some(
        ({ status, headers }) => status === 429 && Number(headers.get('retry-after')) >= LEAST_RESET_SECONDS,
      );
      return isFull ? true : undefined;
    }, FILL_MS);
  }

  async #read<Answer>(path: string): Promise<Answer> {
    const { TOKEN: token = '', ORG: organization = '' } = this.variables;
    const headers = { authorization: `Bearer ${token}`, 'x-org-id': organization };
    return (await (await this.send('GET', path, { headers })).json()) as Answer;
  }

  /** Publishes a command with the key, and waits for its acknowledgement or for its end. */
  async publish(family: CommandFamily, payload: object, awaited: 'end' | 'acknowledgement'): Promise<void> {
    const {
      KEY: key = '',
      SIGNING_KEY: signingKey = '',
      VHOST: vhost = '',
      PLANT: siteId = '',
    } = this.variables;
    if (!this.#partner) {
      this.#partner = await Partner.connect({
        ...this.stack.amqp,
        slug: 'northwind',
        key,
        signingKey,
        vhost,
      });
      await this.#partner.watch('event.#');
    }
    const { correlationId } = await this.#partner.publish(family, siteId, payload);
    const ends = awaited === 'end' ? ['COMPLETED'] : ['ACCEPTED'];
    await this.#partner.waitFor(
      (event) => event.correlationId === correlationId && ends.includes(String(event.payload.status)),
    );
  }

  /** Publishes text that is no envelope, so that the key has a dead letter. */
  async publishBad(): Promise<void> {
    await this.#partner?.publishText('northwind.command.device', 'nonsense');
  }

  /** Starts a receiver of webhooks on this machine that consents and answers every message with 200, and returns its URL. */
  async startReceiver(): Promise<string> {
    const receiver = createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (part: string) => {
        body += part;
      });
      request.on('end', () => response.end(/"challenge":"([^"]+)"/.exec(body)?.[1] ?? 'thanks'));
    });
    this.#receiver = receiver;
    await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/sitewire`;
  }

  /** Waits until the receiver of the webhook has agreed, and the registry has its status. */
  async webhookIsEnabled(): Promise<void> {
    await until(async () => {
      const { data } = await this.#read<{ data: { status: string }[] }>('/partner/webhooks');
      return data.every(({ status }) => status === 'ENABLED') ? true : undefined;
    });
  }

  /** The fields of a request for a new token, signed with the secret of the device. */
  renewal(): Variables {
    const { DEVICE: deviceId = '', SECRET: secret = '' } = this.variables;
    const [ts, nonce] = [Date.now(), randomUUID()];
    const sig = createHmac('sha256', secret)
      .update(renewalSigningString(deviceId, ts, nonce))
      .digest('hex');
    return { TS: String(ts), NONCE: nonce, SIG: sig };
  }

  async close(): Promise<void> {
    await this.#gateway?.stop();
    await this.#partner?.close();
    this.#receiver?.closeAllConnections();
    this.#receiver?.close();
    this.#gateway = undefined;
    this.#partner = undefined;
    this.#receiver = undefined;
  }
}

/** Asks until the answer is there. */
export async function until<Value>(
  look: () => Value | undefined | Promise<Value | undefined>,
  mostMs = WAIT_MS,
): Promise<Value> {
  const endMs = Date.now() + mostMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > endMs) throw new Error(`not seen within ${mostMs} ms: ${look}`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
