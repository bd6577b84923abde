/** The numbered migrations of a vhost's tables. Instants are epoch milliseconds. */
import type { Migration } from '../object/migrate.ts';

export const VHOST_MIGRATIONS: readonly Migration[] = [
  {
    lowest: 1,
    sql: `
    -- Named JSON facts: key, directory.
    CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

    -- Live connections of the key's clients.
    CREATE TABLE connection (
      id TEXT PRIMARY KEY,
      bridge_id TEXT NOT NULL,
      bridge_boot TEXT NOT NULL,
      address TEXT NOT NULL,
      connected_at_ms INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE seen_connection (id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID;

    CREATE TABLE consumer (
      connection_id TEXT NOT NULL,
      channel INTEGER NOT NULL,
      tag TEXT NOT NULL,
      queue TEXT NOT NULL,
      no_ack INTEGER NOT NULL,
      exclusive INTEGER NOT NULL,
      prefetch INTEGER NOT NULL,
      PRIMARY KEY (connection_id, channel, tag)
    ) WITHOUT ROWID;

    -- The shared prefetch of a channel, where a client set one.
    CREATE TABLE channel_limit (
      connection_id TEXT NOT NULL,
      channel INTEGER NOT NULL,
      prefetch INTEGER NOT NULL,
      PRIMARY KEY (connection_id, channel)
    ) WITHOUT ROWID;

    CREATE TABLE queue (
      name TEXT PRIMARY KEY,
      message_count INTEGER NOT NULL DEFAULT 0,
      byte_count INTEGER NOT NULL DEFAULT 0,
      dropped_count INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;

    -- Messages in order. deliveries > 0 means that it was out at least once; those come before all that never were.
    CREATE TABLE message (
      queue TEXT NOT NULL,
      position INTEGER NOT NULL,
      routing_key TEXT NOT NULL,
      properties TEXT NOT NULL,
      body TEXT NOT NULL,
      encoding TEXT NOT NULL,
      -- What it counts as: SQLite's length() stops at NUL.
      bytes INTEGER NOT NULL,
      created_at_ms INTEGER NOT NULL,
      deliveries INTEGER NOT NULL DEFAULT 0,
      lease INTEGER,
      connection_id TEXT,
      channel INTEGER,
      tag TEXT,
      PRIMARY KEY (queue, position)
    ) WITHOUT ROWID;

    -- Telemetry, many events to a row; data is what was unsettled when the row was written.
    CREATE TABLE chunk (
      position INTEGER PRIMARY KEY,
      message_count INTEGER NOT NULL,
      byte_count INTEGER NOT NULL,
      leased_count INTEGER NOT NULL,
      created_at_ms INTEGER NOT NULL,
      data TEXT NOT NULL
    );

    -- How far each site's outbox has been stored: what comes again is dropped.
    CREATE TABLE received (site_id TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID;
    `,
  },
  {
    // The copy of D1 goes by one name in both objects. Older code reads it anew.
    lowest: 1,
    sql: `
    UPDATE fact SET name = 'registry' WHERE name = 'directory';
    `,
  },
  {
    // What a client requeued counts toward the delivery limit, not what sat in its buffer. Lines of telemetry are
    // appended; what became of the events is small and stands beside them.
    lowest: 3,
    sql: `
    ALTER TABLE message ADD COLUMN requeues INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE telemetry_chunk (
      position INTEGER PRIMARY KEY,
      created_at_ms INTEGER NOT NULL,
      event_count INTEGER NOT NULL,
      byte_count INTEGER NOT NULL,
      -- What became of its events: see ChunkState. Null while all of them wait.
      state TEXT,
      data TEXT NOT NULL
    );
    INSERT INTO telemetry_chunk (position, created_at_ms, event_count, byte_count, state, data)
      SELECT position, created_at_ms, message_count, byte_count,
        json_object('owners', json('[]'), 'runs',
          (SELECT json_group_array(json_array(1, 0, -1, min(1, json_extract(value, '$.deliveries')), 0))
           FROM json_each(chunk.data))),
        (SELECT group_concat(json_extract(value, '$.message'), char(10)) FROM json_each(chunk.data)) || char(10)
      FROM chunk WHERE message_count > 0;
    DROP TABLE chunk;
    `,
  },
  {
    // Queues of the partner's own [C-6.6]: chunks of all queues in one table, told apart by their queue.
    lowest: 4,
    sql: `
    ALTER TABLE telemetry_chunk RENAME TO chunk;
    ALTER TABLE chunk ADD COLUMN queue TEXT NOT NULL DEFAULT 'event.telemetry';
    ALTER TABLE consumer ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;

    CREATE TABLE own_queue (
      name TEXT PRIMARY KEY,
      durable INTEGER NOT NULL,
      auto_delete INTEGER NOT NULL,
      -- Of the connection that it is exclusive to, and goes with; null for all others.
      owner_id TEXT,
      -- As they were declared: a JSON list of name, type and value.
      arguments TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE binding (
      queue TEXT NOT NULL,
      pattern TEXT NOT NULL,
      PRIMARY KEY (queue, pattern)
    ) WITHOUT ROWID;
    `,
  },
  {
    // Drops by reason, for the figures; those from before count as for a limit. Older code begins to count anew.
    lowest: 4,
    sql: `
    ALTER TABLE queue ADD COLUMN aged_count INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE queue ADD COLUMN undelivered_count INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE queue ADD COLUMN rejected_count INTEGER NOT NULL DEFAULT 0;
    `,
  },
];
