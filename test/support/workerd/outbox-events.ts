/** Events as a Site's outbox sends them to a Vhost. A number in their payload lets tests check the order. */
import type { OutboxEvent, PassingEvent, Receipt } from '../../../durable-objects/rpc.ts';
import type { Delivery } from '../../../protocol/link/vhost.ts';
import type { EventKind } from '../../../protocol/routing-keys.ts';
import type { Partner } from './partner.ts';
import { type Key, vhostOf } from './world.ts';

interface EventOptions {
  kind?: EventKind;
  /** Length of a filler in the payload. */
  chars?: number;
}

/** Events of one kind, numbered `from`, `from + 1`, … */
export function outboxEvents(from: number, count: number, options: EventOptions = {}): OutboxEvent[] {
  const { kind = 'ack', chars = 0 } = options;
  return Array.from({ length: count }, (_, index) => ({
    sequence: from + index,
    kind,
    messageId: crypto.randomUUID(),
    correlationId: null,
    atMs: Date.now(),
    payloadText: `{"n":${from + index},"filler":"${'x'.repeat(chars)}"}`,
  }));
}

/** Telemetry as a Site sends it that does not keep it. */
export function passingEvents(from: number, count: number, chars = 0): PassingEvent[] {
  return outboxEvents(from, count, { kind: 'telemetry', chars }).map(({ sequence: _, ...event }) => event);
}

/** Sends a Vhost the events `from`, `from + 1`, … of one site. */
export async function hand(
  key: Key,
  siteId: string,
  from: number,
  count: number,
  options: EventOptions = {},
): Promise<Receipt> {
  return await vhostOf(key.id).receive(siteId, outboxEvents(from, count, options));
}

/** The highest sequence that the Vhost has, stored or only in memory; `gone`: its key has ended. */
export function taken({ received, seen = received, gone }: Receipt): number | 'gone' {
  return gone ? 'gone' : seen;
}

/** The number that `outboxEvents` gave the event of a delivery. */
export function numberOf(delivery: Delivery): number {
  return JSON.parse(delivery.body).payload.n;
}

/** The numbers of the deliveries so far, in order. */
export function numbers(partner: Partner, tag?: string): number[] {
  return partner.deliveries(tag).map(numberOf);
}

/** The numbers of the deliveries so far, each with `*` if it is redelivered. */
export function markedNumbers(partner: Partner, tag?: string): string[] {
  return partner.deliveries(tag).map((delivery) => `${numberOf(delivery)}${delivery.redelivered ? '*' : ''}`);
}

/** `from`, `from + 1`, … */
export function range(from: number, count: number): number[] {
  return Array.from({ length: count }, (_, index) => from + index);
}
