/** Rows of consumers, and of the shared prefetch of channels. */
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

export type ConsumerRow = {
  connection_id: string;
  channel: number;
  tag: string;
  queue: string;
  no_ack: number;
  exclusive: number;
  prefetch: number;
  priority: number;
};

export type ChannelLimitRow = { connection_id: string; channel: number; prefetch: number };

export class ConsumerRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): ConsumerRow[] {
    return this.#sql.all<ConsumerRow>('SELECT * FROM consumer');
  }

  channelLimits(): ChannelLimitRow[] {
    return this.#sql.all<ChannelLimitRow>('SELECT * FROM channel_limit');
  }

  insert(turn: Turn, row: ConsumerRow): void {
    turn.insert('consumer', row);
  }

  delete(turn: Turn, connectionId: string, channel: number, tag: string): void {
    turn.write(
      'DELETE FROM consumer WHERE connection_id = ? AND channel = ? AND tag = ?',
      connectionId,
      channel,
      tag,
    );
  }

  setChannelLimit(turn: Turn, row: ChannelLimitRow): void {
    turn.replace('channel_limit', row);
  }

  /** Deletes a channel's shared prefetch and its consumers. */
  deleteChannel(turn: Turn, connectionId: string, channel: number): void {
    turn.write('DELETE FROM consumer WHERE connection_id = ? AND channel = ?', connectionId, channel);
    turn.write('DELETE FROM channel_limit WHERE connection_id = ? AND channel = ?', connectionId, channel);
  }

  deleteQueue(turn: Turn, queue: string): void {
    turn.write('DELETE FROM consumer WHERE queue = ?', queue);
  }

  deleteConnection(turn: Turn, connectionId: string): void {
    turn.write('DELETE FROM consumer WHERE connection_id = ?', connectionId);
    turn.write('DELETE FROM channel_limit WHERE connection_id = ?', connectionId);
  }
}
