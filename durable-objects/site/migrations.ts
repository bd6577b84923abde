/**
 * The numbered migrations of a site's tables: append-only once released. Instants are epoch milliseconds;
 * JSON columns contain only JSON that this code wrote, so reads do not validate it.
 */
import type { BackupKind } from '../object/backup.ts';
import type { Migration } from '../object/migrate.ts';
import { TELEMETRY_TABLES } from './telemetry/storage-levels.ts';

const COMMAND_TABLES = `
    -- The command log. sequence is its order and has no gaps at the new end: rows are deleted at the old end.
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
      finished_at_ms INTEGER,
      -- Where the row's bytes begin, and how many they are: the two ends of the table give its size.
      starts_at INTEGER NOT NULL,
      size INTEGER NOT NULL,
      -- The publish of a rejection that binds no messageId: a repeated publish gets this row's answer.
      publish_id TEXT,
      decision TEXT
    );
    CREATE INDEX command_publish ON command (publish_id) WHERE publish_id IS NOT NULL;

    -- One effect per messageId: its command, and the acknowledgement. It may outlive its log row.
    CREATE TABLE message_id (
      sequence INTEGER PRIMARY KEY,
      key_id TEXT NOT NULL,
      message_id TEXT NOT NULL,
      command_id TEXT NOT NULL,
      command_sequence INTEGER NOT NULL,
      -- Of routing key and payload.
      digest TEXT NOT NULL,
      acknowledgement TEXT NOT NULL,
      received_at_ms INTEGER NOT NULL,
      starts_at INTEGER NOT NULL,
      size INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX message_id_key ON message_id (key_id, message_id);

    -- One MQTT command for one device; deleted when it or its command has ended. A row that has ended stays only while
    -- another dispatch of its command is open.
    CREATE TABLE dispatch (
      cmd_id TEXT PRIMARY KEY,
      owner TEXT NOT NULL,
      -- Null where the owner is no command.
      command_sequence INTEGER,
      device_id TEXT NOT NULL,
      action TEXT NOT NULL,
      state TEXT NOT NULL CHECK (state IN ('WAITING', 'SENT', 'RECEIVED', 'IN_PROGRESS', 'COMPLETED', 'FAILED')),
      tries INTEGER NOT NULL DEFAULT 0,
      not_before_ms INTEGER NOT NULL,
      expires_at_ms INTEGER,
      -- Not indexed, see DispatchRows.
      due_at_ms INTEGER,
      reason TEXT,
      -- Last, because it may be long: a search by the other columns does not read it.
      payload TEXT NOT NULL
    ) WITHOUT ROWID;

    -- The setpoints of the plan, whatever the status of their commands.
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
    `;

/** One row for each schedule; `slots` is JSON of `StoredSlot[]`. */
const SCHEDULE_TABLES = `
    CREATE TABLE schedule (
      id TEXT PRIMARY KEY,
      command_sequence INTEGER NOT NULL,
      status TEXT NOT NULL,
      starts_at_ms INTEGER NOT NULL,
      ends_at_ms INTEGER NOT NULL,
      slot_ms INTEGER NOT NULL,
      slot_count INTEGER NOT NULL,
      -- The end of its last slot that was not replaced or skipped completely.
      last_ms INTEGER NOT NULL,
      -- 1 once the plant has accepted a slot.
      has_taken_slot INTEGER NOT NULL DEFAULT 0,
      created_at_ms INTEGER NOT NULL,
      ended_at_ms INTEGER,
      slots TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX schedule_start ON schedule (starts_at_ms, command_sequence);
    CREATE INDEX schedule_open ON schedule (command_sequence) WHERE ended_at_ms IS NULL;
    `;

/** Devices, their secrets, dropped messages, logins and REST commands. */
const DEVICE_TABLES = `
    CREATE TABLE device (
      id TEXT PRIMARY KEY,
      type TEXT NOT NULL,
      status TEXT NOT NULL CHECK (status IN ('ACTIVE', 'SUSPENDED', 'DECOMMISSIONED')),
      -- When the status was set: of two updates of the registry the later one counts.
      status_at_ms INTEGER NOT NULL DEFAULT 0,
      suspend_reason TEXT,
      reported_status TEXT,
      -- The version of the secret that verified the last valid signature.
      last_key_version INTEGER,
      -- The object that the device is moving to; null while it belongs here.
      leaving TEXT,
      epoch INTEGER NOT NULL DEFAULT 0,
      connection_id TEXT,
      bridge_id TEXT,
      bridge_boot TEXT,
      connected_at_ms INTEGER,
      disconnected_at_ms INTEGER,
      session_expires_at_ms INTEGER,
      -- When the token of the session was issued; null for a certificate.
      session_issued_at_ms INTEGER,
      -- The version of the secret that verified the last message of the session; null before the first one.
      session_key_version INTEGER,
      -- Tokens that were issued earlier are refused.
      tokens_not_before_ms INTEGER NOT NULL DEFAULT 0,
      -- After a rotation of the secret: the same, from the end of the grace period on.
      next_tokens_not_before_ms INTEGER,
      next_tokens_from_ms INTEGER
    ) WITHOUT ROWID;

    CREATE TABLE dropped_message (
      device_id TEXT NOT NULL,
      reason TEXT NOT NULL,
      count INTEGER NOT NULL,
      last_at_ms INTEGER NOT NULL,
      PRIMARY KEY (device_id, reason)
    ) WITHOUT ROWID;

    CREATE TABLE device_secret (
      device_id TEXT NOT NULL,
      -- Increases; the creation time in epoch ms.
      version INTEGER NOT NULL,
      sealed TEXT NOT NULL,
      -- The form in which the device last used it, hex text or the bytes it encodes; null: not used yet.
      form TEXT CHECK (form IN ('text', 'bytes')),
      -- The end of its grace period; null for the newest.
      valid_until_ms INTEGER,
      PRIMARY KEY (device_id, version)
    ) WITHOUT ROWID;

    -- The latest dropped messages, in a ring: slot = sequence modulo the ring's length.
    CREATE TABLE recent_drop (
      device_id TEXT NOT NULL,
      slot INTEGER NOT NULL,
      sequence INTEGER NOT NULL,
      at_ms INTEGER NOT NULL,
      topic TEXT NOT NULL,
      reason TEXT NOT NULL,
      detail TEXT NOT NULL,
      expected TEXT,
      PRIMARY KEY (device_id, slot)
    ) WITHOUT ROWID;

    -- The latest logins, accepted and refused, in a ring.
    CREATE TABLE recent_connect (
      device_id TEXT NOT NULL,
      slot INTEGER NOT NULL,
      sequence INTEGER NOT NULL,
      at_ms INTEGER NOT NULL,
      address TEXT NOT NULL,
      outcome TEXT NOT NULL,
      reason TEXT,
      PRIMARY KEY (device_id, slot)
    ) WITHOUT ROWID;

    -- Failed logins that count toward suspension; a separate ring, so that other logins do not displace them.
    CREATE TABLE failed_login (
      device_id TEXT NOT NULL,
      slot INTEGER NOT NULL,
      sequence INTEGER NOT NULL,
      at_ms INTEGER NOT NULL,
      address TEXT NOT NULL,
      PRIMARY KEY (device_id, slot)
    ) WITHOUT ROWID;

    -- REST commands. While one is open, its state is in the dispatch with the same cmd_id.
    CREATE TABLE rest_command (
      sequence INTEGER PRIMARY KEY,
      cmd_id TEXT NOT NULL,
      device_id TEXT NOT NULL,
      action TEXT NOT NULL,
      -- Null while it is open.
      status TEXT,
      reason TEXT,
      idempotency_key TEXT,
      -- Digest of action, payload and window: a repeated idempotency key must have the same.
      digest TEXT NOT NULL,
      created_at_ms INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX rest_command_id ON rest_command (cmd_id);
    CREATE INDEX rest_command_device ON rest_command (device_id, sequence);

    -- Nonces that are not in the journal: of devices moved from another object, and of token requests.
    CREATE TABLE moved_nonce (
      id INTEGER PRIMARY KEY,
      until_ms INTEGER NOT NULL,
      -- JSON: {deviceId, nonce, digest, ts, receivedMs}[].
      data TEXT NOT NULL
    );
    `;

export const SITE_MIGRATIONS: readonly Migration[] = [
  {
    lowest: 1,
    sql: `
    -- Named JSON values, see SiteFact.
    CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

    -- Counters that never decrease; one row.
    CREATE TABLE counters (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      epoch INTEGER NOT NULL DEFAULT 0,
      -- Reserved in advance, many at a time: no outbox row has a higher sequence.
      outbox_sequence INTEGER NOT NULL DEFAULT 0,
      -- The first sequence from which the command log has no gaps.
      log_start INTEGER NOT NULL DEFAULT 0,
      -- The last emergency: of older commands only those that survive it are sent again.
      emergency_sequence INTEGER NOT NULL DEFAULT 0
    );
    INSERT INTO counters (id) VALUES (1);

    -- Recent connection ids: a bridge proof may open only one link.
    CREATE TABLE seen_connection (id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID;

    -- Events and changes still to be delivered to a key's Vhost or the registry.
    CREATE TABLE outbox (
      sequence INTEGER PRIMARY KEY,
      lane TEXT NOT NULL,
      kind TEXT NOT NULL,
      message_id TEXT NOT NULL,
      correlation_id TEXT,
      at_ms INTEGER NOT NULL,
      payload TEXT NOT NULL
    );
    ${COMMAND_TABLES}${SCHEDULE_TABLES}${DEVICE_TABLES}${TELEMETRY_TABLES}`,
  },
  {
    lowest: 1,
    sql: `
    -- When the platform got the command, and when the device began to execute it: see DEVICE_STARTED.
    ALTER TABLE command ADD COLUMN published_at_ms INTEGER;
    ALTER TABLE command ADD COLUMN device_started_at_ms INTEGER;
    -- When the plant followed a setpoint, until its command ended. JSON of [from, to) pairs, epoch milliseconds.
    ALTER TABLE command ADD COLUMN spans TEXT;
    ALTER TABLE command ADD COLUMN inputs TEXT; -- JSON of JudgementInputs.
    CREATE INDEX command_id ON command (id);

    -- The plan journal: one row for each change. sequence: the time in ms times 1000, or the next free number.
    CREATE TABLE plan_change (
      sequence INTEGER PRIMARY KEY,
      at_ms INTEGER NOT NULL,
      -- JSON of PlanFacts.
      facts TEXT NOT NULL,
      starts_at INTEGER NOT NULL,
      size INTEGER NOT NULL
    );`,
  },
];

/** The current devices, secrets and registry data are valid, whatever the backup has. */
export const SITE_BACKUP: BackupKind = {
  object: 'plant',
  migrations: SITE_MIGRATIONS,
  kept: [
    { table: 'device', key: 'id' },
    { table: 'device_secret', key: 'device_id' },
  ],
  unrestored: ['registry', 'registryReadAt'],
  apart: [],
};
