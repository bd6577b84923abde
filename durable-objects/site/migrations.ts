/** The numbered migrations of a site's tables. Instants are epoch milliseconds; JSON columns hold text that we wrote. */
import type { Migration } from '../object/migrate.ts';
import { DEVICE_TABLES } from './device/tables.ts';
import { SCHEDULE_TABLES } from './schedule/tables.ts';
import { TELEMETRY_TABLES } from './telemetry/tables.ts';

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
  {
    // Each row of the log, of the journal and of messageIds says where its bytes begin: two ends tell how much there
    // is. A messageId knows by itself what it was, so it outlives its log row.
    lowest: 3,
    sql: `
    ALTER TABLE journal_block ADD COLUMN starts_at INTEGER NOT NULL DEFAULT 0;
    UPDATE journal_block SET starts_at = place.at FROM
      (SELECT id, sum(size) OVER (ORDER BY id) - size AS at FROM journal_block) AS place
      WHERE place.id = journal_block.id;

    ALTER TABLE command ADD COLUMN starts_at INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE command ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
    -- The publish of a rejection that binds no messageId: a lane that hands it over again is answered from its row.
    ALTER TABLE command ADD COLUMN publish_id TEXT;
    CREATE INDEX command_publish ON command (publish_id) WHERE publish_id IS NOT NULL;
    -- From where on the log has no gaps; and the last emergency, behind which nothing older is told again.
    ALTER TABLE counters ADD COLUMN log_start INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE counters ADD COLUMN emergency_sequence INTEGER NOT NULL DEFAULT 0;
    UPDATE command SET size = 400 + length(payload) + coalesce(length(results), 0) + length(source);
    UPDATE command SET starts_at = place.at FROM
      (SELECT sequence, sum(size) OVER (ORDER BY sequence) - size AS at FROM command) AS place
      WHERE place.sequence = command.sequence;

    CREATE TABLE message_id (
      sequence INTEGER PRIMARY KEY,
      key_id TEXT NOT NULL,
      message_id TEXT NOT NULL,
      command_id TEXT NOT NULL,
      command_sequence INTEGER NOT NULL,
      -- Of routing key and payload; empty in rows from before: their log row tells.
      digest TEXT NOT NULL,
      acknowledgement TEXT NOT NULL,
      received_at_ms INTEGER NOT NULL,
      starts_at INTEGER NOT NULL,
      size INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX message_id_key ON message_id (key_id, message_id);
    INSERT INTO message_id (key_id, message_id, command_id, command_sequence, digest, acknowledgement,
        received_at_ms, starts_at, size)
      SELECT key_id, message_id, id, command_sequence, '', acknowledgement, received_at_ms,
        sum(size) OVER (ORDER BY command_sequence) - size, size
      FROM (SELECT received_message.*, command.id, 200 + length(acknowledgement) AS size FROM received_message
        JOIN command ON command.sequence = received_message.command_sequence) ORDER BY command_sequence;
    DROP TABLE received_message;
    `,
  },
  {
    // Setpoints stand in the plan, whatever has become of their commands. Those that are open get their entries: what
    // the plant was told of them is told anew.
    lowest: 4,
    sql: `
    ALTER TABLE command ADD COLUMN decision TEXT;
    CREATE TABLE plan_entry (
      command_sequence INTEGER PRIMARY KEY,
      level TEXT NOT NULL,
      starts_at_ms INTEGER NOT NULL,
      ends_at_ms INTEGER,
      verdict_at_ms INTEGER,
      obeyed_since_ms INTEGER,
      -- JSON of [from, to) pairs, epoch milliseconds.
      spans TEXT NOT NULL DEFAULT '[]'
    );
    INSERT INTO plan_entry (command_sequence, level, starts_at_ms, ends_at_ms, verdict_at_ms)
      SELECT sequence, priority, max(valid_from_ms, created_at_ms), valid_until_ms,
        CASE status WHEN 'EXECUTING' THEN coalesce(valid_until_ms, started_at_ms + 300000) END
      FROM command WHERE command_type = 'SITE_SETPOINT' AND status IN ('PENDING', 'EXECUTING')
        AND sequence IN (SELECT command_sequence FROM dispatch);
    DELETE FROM dispatch WHERE command_sequence IN (SELECT command_sequence FROM plan_entry);
    `,
  },
  {
    // Secrets are rows of their own, a newer and while its grace lasts an older one. What a device was refused for, who
    // logged in or tried, what it was told over REST: each bounded per device.
    lowest: 5,
    sql: DEVICE_TABLES,
  },
  {
    // Telemetry for good. Older code cannot read the journal since: messages carry what their bare signal names meant.
    lowest: 6,
    sql: TELEMETRY_TABLES,
  },
  {
    // Older code neither follows a schedule nor knows what the plant was told by one.
    lowest: 7,
    sql: SCHEDULE_TABLES,
  },
];
