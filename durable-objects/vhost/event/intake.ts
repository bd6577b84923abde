/**
 * Adds events to a vhost's journal and queues: those of an outbox once each, by (site, sequence), and except for
 * `report` only events that the key may see [C-8.1]. The Site keeps an event in its outbox until the journal has
 * stored it, and the queues have stored it or a client has acknowledged it; so most are never stored in a queue.
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import { SOURCE, VCP_VERSION } from '../../../protocol/envelope.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import {
  EVENT_QUEUES,
  type EventKind,
  eventRoutingKey,
  type QueueName,
} from '../../../protocol/routing-keys.ts';
import { envelopeSigningString } from '../../../protocol/signing.ts';
import { earliest } from '../../object/agenda.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { OutboxEvent, PassingEvent } from '../../rpc.ts';
import { hmacHex } from '../../secrets/hmac.ts';
import type { Key } from '../key/key.ts';
import type { Message, Safety } from '../queue/rows.ts';

export interface IntakeQueues {
  push(turn: Turn, queue: QueueName, message: Message, safety: Safety | undefined): void;
  /** The sequence of a site's first event that is only in memory. */
  firstKept(siteId: string): number | undefined;
}

export interface IntakeJournal {
  add(
    turn: Turn,
    event: { kind: EventKind; siteId: string; body: string },
    safety: Safety | undefined,
    isAtOnce: boolean,
  ): void;
  /** The sequence of a site's first event that is only in memory. */
  firstPending(siteId: string): number | undefined;
}

export class EventIntake {
  readonly #rows: ReceivedRows;
  readonly #key: Key;
  readonly #queues: IntakeQueues;
  readonly #journal: IntakeJournal;
  #seen: Map<string, number>;
  /** Sites whose stored sequence is out of date. */
  readonly #unstored = new Set<string>();

  constructor(sql: Sql, key: Key, queues: IntakeQueues, journal: IntakeJournal) {
    this.#rows = new ReceivedRows(sql);
    this.#key = key;
    this.#queues = queues;
    this.#journal = journal;
    this.#seen = this.#rows.all();
  }

  /** The last sequence received from a site, at least in memory. */
  seenFrom(siteId: string): number {
    return this.#seen.get(siteId) ?? 0;
  }

  /**
   * The last sequence that a site may delete from its outbox: the one before the first event that is only in
   * memory.
   */
  receivedFrom(siteId: string): number {
    const kept = earliest([this.#queues.firstKept(siteId), this.#journal.firstPending(siteId)]);
    return kept === undefined ? this.seenFrom(siteId) : kept - 1;
  }

  /** Adds the new events of a site's outbox; drops those received before. */
  store(turn: Turn, siteId: string, events: readonly OutboxEvent[]): void {
    const before = this.seenFrom(siteId);
    let last = before;
    for (const event of events) {
      if (event.sequence <= last) continue;
      this.pass(turn, siteId, event, event.sequence);
      last = event.sequence;
    }
    if (last === before) return;
    turn.undo(() => this.#seen.set(siteId, before));
    this.#seen.set(siteId, last);
    this.#unstored.add(siteId);
  }

  /**
   * Adds an event if the key may see its site. Queues start to fill at the key's first connection [C-6.1], the journal
   * at once. `sequence`: position in the site's outbox, if the site keeps the event; telemetry is not kept.
   */
  pass(turn: Turn, siteId: string, event: PassingEvent, sequence?: number): void {
    const key = this.#key.record;
    if (!key) return;
    if (key.allowedPlantIds && !key.allowedPlantIds.includes(siteId)) return;
    this.#push(turn, siteId, event, sequence === undefined ? 'passing' : { siteId, sequence });
  }

  /** Adds an event for a site id that the partner sent, without checking that the key may see it. */
  report(turn: Turn, siteId: string, event: PassingEvent): void {
    this.#push(turn, siteId, event);
  }

  /**
   * Whether a stored sequence is older than the one in memory. After a crash the site would then send some
   * events again.
   */
  get hasUnstored(): boolean {
    return this.#unstored.size > 0;
  }

  /** Stores the sequences. The caller must store all events that are only in memory in the same turn. */
  save(turn: Turn): void {
    for (const siteId of this.#unstored) {
      turn.undo(() => this.#unstored.add(siteId));
      this.#unstored.delete(siteId);
      this.#rows.set(turn, siteId, this.seenFrom(siteId));
    }
  }

  /** Reads the sequences from storage after events in memory were lost; their sites send them again. */
  reload(): void {
    this.#unstored.clear();
    this.#seen = this.#rows.all();
  }

  /** Deletes all sequences when the key has ended. */
  clear(turn: Turn): void {
    this.#rows.deleteAll(turn);
    this.#unstored.clear();
    turn.remember(() => {
      this.#seen = new Map();
    });
  }

  #push(turn: Turn, siteId: string, event: PassingEvent, safety?: Safety): void {
    const { slug } = this.#key.names;
    const message = eventMessage(slug, this.#key.signingKey, siteId, event);
    const isQueued = this.#key.record?.firstConnectedAtMs != null;
    // Without a queue nothing else stores the event, and no client is about to acknowledge it.
    this.#journal.add(turn, { kind: event.kind, siteId, body: message.body }, safety, !isQueued);
    if (!isQueued) return;
    this.#queues.push(turn, EVENT_QUEUES[event.kind], message, safety);
  }
}

/** The last sequence stored from each site's outbox; events up to it are dropped as duplicates. */
class ReceivedRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Last stored sequence by site id. */
  all(): Map<string, number> {
    const rows = this.#sql.all<{ site_id: string; sequence: number }>(
      'SELECT site_id, sequence FROM received',
    );
    return new Map(rows.map((row) => [row.site_id, row.sequence]));
  }

  set(turn: Turn, siteId: string, sequence: number): void {
    turn.replace('received', { site_id: siteId, sequence });
  }

  deleteAll(turn: Turn): void {
    turn.write('DELETE FROM received');
  }
}

/** Builds the message for a partner from an event of a Site: with an envelope, signed with the key's signing key. */
function eventMessage(slug: string, signingKey: string, siteId: string, event: PassingEvent): Message {
  const routingKey = eventRoutingKey(slug, event.kind);
  const envelope = {
    version: VCP_VERSION,
    messageId: event.messageId,
    ...(event.correlationId === null ? {} : { correlationId: event.correlationId }),
    timestamp: formatInstant(event.atMs),
    source: SOURCE,
    siteId,
  };
  const signingString = envelopeSigningString(envelope, routingKey, event.payloadText);
  // A correlationId that contains the separator cannot be signed; the event is then sent without a signature.
  const signature = signingString === undefined ? '' : `,"signature":"${hmacHex(signingKey, signingString)}"`;
  const body = `${signableJson(envelope).slice(0, -1)},"payload":${event.payloadText}${signature}}`;
  return {
    routingKey,
    properties: {
      contentType: 'application/json',
      messageId: event.messageId,
      timestampMs: event.atMs,
      ...(event.correlationId === null ? {} : { correlationId: event.correlationId }),
    },
    body,
    encoding: 'utf8',
    createdAtMs: event.atMs,
  };
}
