/**
 * The numbered migrations of a vhost's tables: append-only from release 0.1.0 on. Instants are epoch milliseconds.
 */
import type { BackupKind } from '../object/backup.ts';
import type { Migration } from '../object/migrate.ts';

export const VHOST_MIGRATIONS: readonly Migration[] = [
  {
    lowest: 1,
    sql: `
    -- Named JSON values, see VhostFact.
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
      priority INTEGER NOT NULL DEFAULT 0,
      PRIMARY KEY (connection_id, channel, tag)
    ) WITHOUT ROWID;

    -- The shared prefetch of a channel, where a client set one.
    CREATE TABLE channel_limit (
      connection_id TEXT NOT NULL,
      channel INTEGER NOT NULL,
      prefetch INTEGER NOT NULL,
      PRIMARY KEY (connection_id, channel)
    ) WITHOUT ROWID;

    -- How many messages each queue dropped, by reason.
    CREATE TABLE queue (
      name TEXT PRIMARY KEY,
      -- For its limits or its age; the age is also counted separately.
      dropped_count INTEGER NOT NULL DEFAULT 0,
      aged_count INTEGER NOT NULL DEFAULT 0,
      undelivered_count INTEGER NOT NULL DEFAULT 0,
      rejected_count INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;

    -- Many messages in a row: their lines are appended, and the state of each message is stored beside them.
    CREATE TABLE chunk (
      position INTEGER PRIMARY KEY,
      queue TEXT NOT NULL,
      created_at_ms INTEGER NOT NULL,
      event_count INTEGER NOT NULL,
      byte_count INTEGER NOT NULL,
      -- See ChunkState.
      state TEXT NOT NULL,
      data TEXT NOT NULL
    );

    -- Queues that the partner declared [C-6.6].
    CREATE TABLE partner_queue (
      name TEXT PRIMARY KEY,
      durable INTEGER NOT NULL,
      auto_delete INTEGER NOT NULL,
      -- The connection that the queue is exclusive to, and is deleted with; null for all others.
      owner_id TEXT,
      -- As declared: a JSON list of name, type and value.
      arguments TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE binding (
      queue TEXT NOT NULL,
      pattern TEXT NOT NULL,
      PRIMARY KEY (queue, pattern)
    ) WITHOUT ROWID;

    -- How far each site's outbox is stored here: repeats are dropped.
    CREATE TABLE received (site_id TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID;

    -- The event journal: consecutive events in a row. A restore leaves it and the webhooks, so they may be there.
    CREATE TABLE IF NOT EXISTS journal (
      -- The sequence of the first event.
      first INTEGER PRIMARY KEY,
      event_count INTEGER NOT NULL,
      -- Times of the newest and of the first event.
      latest_at_ms INTEGER NOT NULL,
      begun_at_ms INTEGER NOT NULL,
      byte_count INTEGER NOT NULL,
      bytes_before INTEGER NOT NULL,
      -- See JournalTail.
      sites TEXT NOT NULL,
      covered INTEGER NOT NULL,
      -- See marks.ts.
      marks TEXT NOT NULL,
      -- A line for each event, see line.ts.
      data TEXT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS journal_begun ON journal (begun_at_ms);
    -- After a crash: how far the outbox of a site is in the journal, where that is further than in 'received'.
    CREATE TABLE IF NOT EXISTS journaled (site_id TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID;

    -- How far the events are delivered to each webhook.
    CREATE TABLE IF NOT EXISTS webhook (
      id TEXT PRIMARY KEY,
      -- See EndpointState.
      state TEXT NOT NULL,
      -- JSON: the newest attempts.
      recent TEXT NOT NULL
    ) WITHOUT ROWID;
    -- Older attempts, many in a row.
    CREATE TABLE IF NOT EXISTS webhook_attempts (
      position INTEGER PRIMARY KEY,
      webhook_id TEXT NOT NULL,
      attempt_count INTEGER NOT NULL,
      data TEXT NOT NULL
    );
    `,
  },
];

/** The current key and registry data are valid, whatever the backup has. */
export const VHOST_BACKUP: BackupKind = {
  object: 'key',
  migrations: VHOST_MIGRATIONS,
  kept: [{ table: 'fact', key: 'name', names: ['key'] }],
  unrestored: ['registry', 'registryReadAt', 'revoked', 'ending', 'journal'],
  apart: ['journal', 'journaled', 'webhook', 'webhook_attempts'],
};
