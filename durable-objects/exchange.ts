/** What Site and Vhost say to each other over RPC. Both sides of a deploy run at once: add fields, never re-mean one. */
import type { CommandFamily, EventKind } from '../protocol/routing-keys.ts';

/** What the Vhost found of a publish's signature [C-7.2]. */
export type SignatureVerdict = 'valid' | 'not-needed' | 'missing' | 'mismatch';

/** One authorized publish, as the Vhost hands it to the Site. */
export interface Submission {
  messageId: string;
  correlationId: string | null;
  source: string;
  /** The envelope's own timestamp. */
  timestampMs: number;
  routingKey: string;
  family: CommandFamily;
  payloadText: string;
  signature: SignatureVerdict;
}

export interface SubmissionBatch {
  siteId: string;
  keyId: string;
  keyPrefix: string;
  /** The last outbox sequence of this Site that the Vhost has stored. */
  received: number;
  submissions: Submission[];
}

/** One event out of a Site's outbox. `sequence` only grows; the Vhost drops what it has seen. */
export interface OutboxEvent {
  sequence: number;
  kind: EventKind;
  messageId: string;
  correlationId: string | null;
  atMs: number;
  payloadText: string;
}

/** An event that a crash may lose: it has no place in the outbox (telemetry). */
export type PassingEvent = Omit<OutboxEvent, 'sequence'>;

/** What a Vhost answers to events: how far it has stored, or that the key is no more. */
export interface Receipt {
  received: number;
  gone: boolean;
}
