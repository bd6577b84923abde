/**
 * Stores the command and the acknowledgement of each messageId that a submission reserved, so that a repeated
 * messageId has no second effect [C-7.3]. `retention.ts` deletes the rows by age and by bytes.
 */
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { sha256Hex } from '../../secrets/hmac.ts';
import { EMPTY, type Extent, type Trimmable } from '../retention.ts';

export type MessageIdRow = {
  command_id: string;
  command_sequence: number;
  /** See `publishDigest`. */
  digest: string;
  acknowledgement: string;
};

/** Bytes counted per row in addition to its acknowledgement. */
const ROW_BYTES = 200;

/**
 * Digest of routing key and payload. Two publishes with the same messageId and the same digest count as one
 * publish and its repeat.
 */
export function publishDigest(routingKey: string, compactPayload: string): string {
  return sha256Hex(`${routingKey}\n${compactPayload}`);
}

export class MessageIdRows implements Trimmable {
  readonly #sql: Sql;
  #extent: Extent | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  find(keyId: string, messageId: string): MessageIdRow | undefined {
    return this.#sql.one<MessageIdRow>(
      `SELECT command_id, command_sequence, digest, acknowledgement FROM message_id
       WHERE key_id = ? AND message_id = ?`,
      keyId,
      messageId,
    );
  }

  remember(turn: Turn, keyId: string, messageId: string, row: MessageIdRow): void {
    const extent = this.extent();
    const bytes = ROW_BYTES + row.acknowledgement.length;
    turn.undo(() => {
      this.#extent = extent;
    });
    turn.insert('message_id', {
      ...{ key_id: keyId, message_id: messageId, ...row },
      ...{ received_at_ms: turn.now, starts_at: extent.endsAt, size: bytes },
    });
    this.#extent = { ...extent, endsAt: extent.endsAt + bytes, oldestMs: extent.oldestMs ?? turn.now };
  }

  extent(): Extent {
    this.#extent ??= this.#readExtent();
    return this.#extent;
  }

  trim(turn: Turn, place: number, beforeMs: number, limit: number): number {
    this.#extent = undefined;
    turn.undo(() => {
      this.#extent = undefined;
    });
    return turn.write(
      `DELETE FROM message_id WHERE sequence IN (SELECT sequence FROM message_id ORDER BY sequence LIMIT ?)
         AND (starts_at < ? OR received_at_ms <= ?)`,
      limit,
      place,
      beforeMs,
    );
  }

  #readExtent(): Extent {
    const end = (order: 'ASC' | 'DESC') =>
      this.#sql.one<{ starts_at: number; size: number; received_at_ms: number }>(
        `SELECT starts_at, size, received_at_ms FROM message_id ORDER BY sequence ${order} LIMIT 1`,
      );
    const [oldest, newest] = [end('ASC'), end('DESC')];
    if (!oldest || !newest) return EMPTY;
    return {
      startsAt: oldest.starts_at,
      endsAt: newest.starts_at + newest.size,
      oldestMs: oldest.received_at_ms,
    };
  }
}
