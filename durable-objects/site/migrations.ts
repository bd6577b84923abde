/** The numbered migrations of a site's tables. Instants are epoch milliseconds; JSON columns hold text that we wrote. */
import type { Migration } from '../object/migrate.ts';

export const SITE_MIGRATIONS: readonly Migration[] = [
  {
    lowest: 1,
    sql: `
    -- Named JSON facts: identity, registry (a copy of D1), config, modeOverride, presence, snapshot.
    CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

    -- Counters that must never go back, one row.
    CREATE TABLE counters (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      epoch INTEGER NOT NULL DEFAULT 0,
      -- Taken in advance, many at a time: every outbox row has a lower sequence.
      outbox_sequence INTEGER NOT NULL DEFAULT 0
    );
    INSERT INTO counters (id) VALUES (1);

    CREATE TABLE device (
      id TEXT PRIMARY KEY,
      type TEXT NOT NULL,
      status TEXT NOT NULL CHECK (status IN ('ACTIVE', 'SUSPENDED', 'DECOMMISSIONED')),
      secret_sealed TEXT NOT NULL,
      -- The form of the secret that the device last proved: its hex text, or the bytes it spells.
      secret_form TEXT NOT NULL DEFAULT 'text' CHECK (secret_form IN ('text', 'bytes')),
      reported_status TEXT,
      epoch INTEGER NOT NULL DEFAULT 0,
      connection_id TEXT,
      bridge_id TEXT,
      bridge_boot TEXT,
      connected_at_ms INTEGER,
      disconnected_at_ms INTEGER,
      session_expires_at_ms INTEGER
    ) WITHOUT ROWID;

    -- Connection ids seen lately: a bridge's proof opens a link once.
    CREATE TABLE seen_connection (id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID;

    CREATE TABLE dropped_message (
      device_id TEXT NOT NULL,
      reason TEXT NOT NULL,
      count INTEGER NOT NULL,
      last_at_ms INTEGER NOT NULL,
      PRIMARY KEY (device_id, reason)
    ) WITHOUT ROWID;

    -- Telemetry and status messages as they came, in blocks that also carry the nonces.
    CREATE TABLE journal_block (
      id INTEGER PRIMARY KEY,
      opened_at_ms INTEGER NOT NULL,
      last_at_ms INTEGER NOT NULL,
      size INTEGER NOT NULL,
      event_at_ms INTEGER NOT NULL,
      data TEXT NOT NULL
    );

    -- The command log. sequence is its order and has no gaps: rows only ever leave at the old end.
    CREATE TABLE command (
      sequence INTEGER PRIMARY KEY,
      id TEXT NOT NULL,
      key_id TEXT NOT NULL,
      key_prefix TEXT NOT NULL,
      message_id TEXT NOT NULL,
      correlation_id TEXT,
      command_type TEXT NOT NULL,
      routing_key TEXT NOT NULL,
      status TEXT NOT NULL,
      priority TEXT,
      target TEXT,
      payload TEXT NOT NULL,
      rejection_code TEXT,
      message TEXT,
      results TEXT,
      source TEXT NOT NULL,
      valid_from_ms INTEGER,
      valid_until_ms INTEGER,
      target_value_kw REAL,
      actual_value_kw REAL,
      deviation_kw REAL,
      reason TEXT,
      created_at_ms INTEGER NOT NULL,
      acked_at_ms INTEGER,
      dispatched_at_ms INTEGER,
      started_at_ms INTEGER,
      finished_at_ms INTEGER
    );

    -- One effect per messageId: the log row of a publish, and the acknowledgement it got.
    CREATE TABLE received_message (
      key_id TEXT NOT NULL,
      message_id TEXT NOT NULL,
      command_sequence INTEGER NOT NULL,
      acknowledgement TEXT NOT NULL,
      received_at_ms INTEGER NOT NULL,
      PRIMARY KEY (key_id, message_id)
    ) WITHOUT ROWID;

    -- One MQTT command per serving device and command type; gone when its command has ended, so what is open is in here.
    CREATE TABLE dispatch (
      cmd_id TEXT PRIMARY KEY,
      command_sequence INTEGER NOT NULL,
      device_id TEXT NOT NULL,
      action TEXT NOT NULL,
      payload TEXT NOT NULL,
      state TEXT NOT NULL CHECK (state IN ('WAITING', 'SENT', 'RECEIVED', 'IN_PROGRESS', 'COMPLETED', 'FAILED')),
      tries INTEGER NOT NULL DEFAULT 0,
      not_before_ms INTEGER NOT NULL,
      expires_at_ms INTEGER,
      due_at_ms INTEGER,
      reason TEXT
    ) WITHOUT ROWID;

    -- What must still reach a lane: a key's Vhost, or the registry.
    CREATE TABLE outbox (
      sequence INTEGER PRIMARY KEY,
      lane TEXT NOT NULL,
      kind TEXT NOT NULL,
      message_id TEXT NOT NULL,
      correlation_id TEXT,
      at_ms INTEGER NOT NULL,
      payload TEXT NOT NULL
    );
    `,
  },
  {
    // What is due is found without reading what waits: an index, which older code does not notice.
    lowest: 1,
    sql: `
    CREATE INDEX dispatch_due ON dispatch (due_at_ms) WHERE due_at_ms IS NOT NULL;
    `,
  },
];
