/** A partner's client on one link, for tests of a vhost: requests with their answers, deliveries, settling. */
import { runInDurableObject } from 'cloudflare:test';
import { expect, vi } from 'vitest';
import { hmacHex } from '../../../durable-objects/secrets/hmac.ts';
import { compact } from '../../../protocol/compact-json.ts';
import type { Delivery, VhostLinkDown, VhostLinkUp } from '../../../protocol/link/vhost.ts';
import {
  type CommandFamily,
  commandRoutingKey,
  EXCHANGE,
  fullQueueName,
  type QueueName,
} from '../../../protocol/routing-keys.ts';
import { envelopeSigningString } from '../../../protocol/signing.ts';
import { connectPartner, type VhostTestLink } from './links.ts';
import { openIn } from './queues.ts';
import { type LogPage, readCommands } from './site-reads.ts';
import { type Key, type Organization, vhostOf } from './world.ts';

type WithoutSeq<Frame> = Frame extends { seq: number } ? Omit<Frame, 'seq'> : never;
type Question = WithoutSeq<VhostLinkUp>;
export type PublishQuestion = WithoutSeq<Extract<VhostLinkUp, { kind: 'publish' }>>;
type ConsumeOptions = Partial<
  Pick<
    Extract<VhostLinkUp, { kind: 'consume' }>,
    'channel' | 'tag' | 'noAck' | 'exclusive' | 'prefetch' | 'priority'
  >
>;
type Declaration = WithoutSeq<Extract<VhostLinkUp, { kind: 'declare' }>>;

export class Partner {
  readonly link: VhostTestLink;
  readonly organization: Organization;
  readonly key: Key;
  #seq = 1_000;

  constructor(link: VhostTestLink, organization: Organization, key: Key) {
    this.link = link;
    this.organization = organization;
    this.key = key;
  }

  static async connect(
    organization: Organization,
    key: Key,
    options: Parameters<typeof connectPartner>[1] = {},
  ): Promise<Partner> {
    return new Partner(await connectPartner(key, options), organization, key);
  }

  queueName(queue: QueueName): string {
    return fullQueueName(this.organization.slug, queue);
  }

  /** Sends all requests in one message, and returns their answers in the same order. */
  async askAll(...questions: Question[]): Promise<VhostLinkDown[]> {
    const frames = questions.map((question) => {
      this.#seq += 1;
      return { ...question, seq: this.#seq } as VhostLinkUp & { seq: number };
    });
    this.link.send(...frames);
    return await Promise.all(frames.map(({ seq }) => this.link.next((down) => isAnswer(down, seq))));
  }

  async ask(question: Question): Promise<VhostLinkDown> {
    const [answer] = await this.askAll(question);
    if (!answer) throw new Error('no answer');
    return answer;
  }

  async consume(queue: QueueName, options: ConsumeOptions = {}): Promise<VhostLinkDown> {
    return await this.consumeFrom(this.queueName(queue), { tag: queue, ...options });
  }

  /** From a queue by its full name. */
  async consumeFrom(queue: string, options: ConsumeOptions = {}): Promise<VhostLinkDown> {
    return await this.ask(consumption(queue, { tag: queue, ...options }));
  }

  async get(
    queue: QueueName,
    options: { channel?: number; noAck?: boolean } = {},
  ): Promise<Extract<VhostLinkDown, { kind: 'got' }>> {
    const question = { kind: 'get', queue: this.queueName(queue), channel: 1, noAck: false } as const;
    const answer = await this.ask({ ...question, ...options });
    if (answer.kind !== 'got') throw new Error(`basic.get was answered ${answer.kind}`);
    return answer;
  }

  async declare(queue: string, options: Partial<Declaration> = {}): Promise<VhostLinkDown> {
    const equal = { durable: true, exclusive: false, autoDelete: false, arguments: [] };
    return await this.ask({ kind: 'declare', queue, passive: false, ...equal, ...options });
  }

  /** Messages that wait for a consumer. */
  async readyCount(queue: QueueName): Promise<number> {
    return (await this.countOf(this.queueName(queue))) ?? 0;
  }

  /** The same of a queue by its full name; undefined if it does not exist. */
  async countOf(queue: string): Promise<number | undefined> {
    const answer = await this.declare(queue, { passive: true });
    return answer.kind === 'ok' ? answer.messageCount : undefined;
  }

  deliveries(tag?: string): Delivery[] {
    return this.link.received.flatMap((frame) =>
      frame.kind === 'deliver' && (tag === undefined || frame.tag === tag) ? [frame.delivery] : [],
    );
  }

  /** Waits for `count` deliveries and returns them. */
  async delivered(count: number, tag?: string): Promise<Delivery[]> {
    const isThere = () => this.deliveries(tag).length >= count;
    await this.link.next((frame) => frame === this.link.received.at(-1) && isThere());
    return this.deliveries(tag).slice(0, count);
  }

  /** Of deliveries that never came, none is settled. */
  settle(
    outcome: 'ack' | 'requeue' | 'discard',
    deliveries: readonly ({ lease: number } | null | undefined)[],
  ): void {
    const leases = deliveries.flatMap((one) => one?.lease ?? []);
    this.link.send({ kind: 'settle', outcome, leases });
  }

  /** Returns when all pending deliveries have arrived: what the first request causes precedes the second answer. */
  async quiet(): Promise<void> {
    await this.readyCount('event.alarm');
    await this.readyCount('event.alarm');
  }

  routingKey(family: CommandFamily): string {
    return commandRoutingKey(this.organization.slug, family);
  }

  /** A whole envelope with its payload, signed by default with the partner's own key. */
  command(
    siteId: string,
    family: CommandFamily,
    payload: unknown,
    options: { messageId?: string; correlationId?: string | null; signingKey?: string | null } = {},
  ): PublishQuestion {
    const { correlationId = crypto.randomUUID(), signingKey = this.key.signingKey } = options;
    const fields = { ...envelopeFields(siteId), messageId: options.messageId ?? crypto.randomUUID() };
    const whole = { ...fields, ...(correlationId === null ? {} : { correlationId }) };
    const routingKey = this.routingKey(family);
    const payloadText = JSON.stringify(payload);
    const signature = signingKey === null ? undefined : sign(signingKey, whole, routingKey, payloadText);
    return publishOf(routingKey, JSON.stringify({ ...whole, payload, signature }));
  }
}

function isAnswer(down: VhostLinkDown, seq: number): boolean {
  if ('seqs' in down) return down.seqs.includes(seq);
  return 'seq' in down && down.seq === seq;
}

/** A publish of any body, by default to our exchange. */
export function publishOf(
  routingKey: string,
  body: string,
  options: Partial<PublishQuestion> = {},
): PublishQuestion {
  const plain = { kind: 'publish', exchange: EXCHANGE, properties: '', encoding: 'utf8' } as const;
  return { ...plain, routingKey, body, ...options };
}

/** A basic.consume without limits, unless the options say otherwise. */
export function consumption(queue: string, options: ConsumeOptions = {}) {
  const defaults = { channel: 1, tag: 't', noAck: false, exclusive: false, prefetch: 0, priority: 0 };
  return { kind: 'consume', queue, ...defaults, ...options } as const;
}

/** A refusal that closes the channel. `text`: the whole text, or what it matches. */
export function refused(code: number, text: unknown) {
  return { kind: 'refused', severity: 'channel', code, text };
}

/** The refusal of a topic, an exchange or a queue to which a partner has no right. `why`: the end of the text. */
export function forbidden({ key, organization }: Partner, what: string, why = '') {
  const where = `in vhost 'partner-${key.id}'`;
  return refused(
    403,
    `ACCESS_REFUSED - access to ${what} ${where} refused for user '${organization.slug}'${why}`,
  );
}

/** The fields of a valid envelope, without its payload and signature. */
export function envelopeFields(siteId: string) {
  return {
    version: '1.1',
    messageId: crypto.randomUUID(),
    timestamp: new Date().toISOString(),
    source: 'partner',
    siteId,
  };
}

/** The signature over an envelope's fields, a routing key and a payload's text. */
export function sign(
  signingKey: string,
  fields: Parameters<typeof envelopeSigningString>[0],
  routingKey: string,
  payloadText: string,
): string {
  return hmacHex(signingKey, envelopeSigningString(fields, routingKey, compact(payloadText)) ?? '');
}

/** A setpoint that every site of these tests accepts. */
export function setpoint(targetValueKw = 10): Record<string, unknown> {
  return {
    type: 'POWER',
    targetValueKw,
    direction: 'IMPORT',
    includeConsumption: true,
    priority: 'NORMAL',
    validFrom: new Date(Date.now() - 1_000).toISOString(),
  };
}

/** The payload of a device command that charges the battery. */
export function charge(powerKw = 5): Record<string, unknown> {
  return {
    commands: [{ deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw } }],
  };
}

/** The event in a delivery. */
export function eventOf(delivery: Delivery) {
  return JSON.parse(delivery.body) as {
    version: string;
    messageId: string;
    correlationId?: string;
    timestamp: string;
    source: string;
    siteId: string;
    signature?: string;
    payload: Record<string, unknown>;
  };
}

/** The command log of a site, newest first. */
export async function commandLog(siteId: string): Promise<LogPage> {
  return await readCommands(siteId, 1, 100);
}

/** Rows of a vhost's own tables, read inside it. */
export async function vhostRows<Row extends Record<string, SqlStorageValue>>(
  key: Key,
  sql: string,
): Promise<Row[]> {
  return await runInDurableObject(vhostOf(key.id), (_vhost, state) =>
    state.storage.sql.exec<Row>(sql).toArray(),
  );
}

/** The number of stored messages. A message that a client holds is stored within a second. */
export async function storedMessages(key: Key): Promise<number> {
  const rows = await vhostRows<{ state: string }>(key, 'SELECT state FROM chunk');
  return openIn(rows.map(({ state }) => state));
}

export async function untilStored(key: Key, count: number): Promise<void> {
  await vi.waitFor(async () => expect(await storedMessages(key)).toBe(count), 10_000);
}

/** Publishes one message and returns the event that acknowledges it. The partner consumes `event.status`. */
export async function eventOfAck(partner: Partner, question: PublishQuestion) {
  const before = partner.deliveries('event.status').length;
  expect(await partner.ask(question)).toMatchObject({ kind: 'stored' });
  const ack = (await partner.delivered(before + 1, 'event.status')).at(-1);
  if (!ack) throw new Error('no acknowledgement');
  return eventOf(ack);
}

/** The payload of that event. */
export async function ackOf(partner: Partner, question: PublishQuestion): Promise<Record<string, unknown>> {
  return (await eventOfAck(partner, question)).payload;
}

/** Makes some writes to a table of a vhost fail, as a full disk would; the returned function mends it. */
export async function breakWrites(
  key: Key,
  table: string,
  options: { writes?: readonly ('INSERT' | 'UPDATE' | 'DELETE')[]; when?: string } = {},
): Promise<() => Promise<void>> {
  const { writes = ['INSERT'], when = 'true' } = options;
  for (const write of writes) {
    const trigger = `CREATE TRIGGER broken_${write} BEFORE ${write} ON ${table} WHEN ${when}`;
    await vhostRows(key, `${trigger} BEGIN SELECT RAISE(ABORT, 'broken'); END`);
  }
  return async () => {
    for (const write of writes) await vhostRows(key, `DROP TRIGGER broken_${write}`);
  };
}
