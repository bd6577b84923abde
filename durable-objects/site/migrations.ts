/**
 * The numbered migrations of a site's tables: append-only from release 0.1.0 on. Instants are epoch milliseconds;
 * JSON columns contain only JSON that this code wrote, so reads do not validate it.
 */
import type { BackupKind } from '../object/backup.ts';
import type { Migration } from '../object/migrate.ts';
import { DEVICE_TABLES } from './device/tables.ts';
import { TELEMETRY_TABLES } from './telemetry/storage-levels.ts';

const COMMAND_TABLES = `
    -- The command log. sequence is its order and has no gaps at the new end: rows are deleted at the old end.
    CREATE TABLE command (
      sequence INTEGER PRIMARY KEY,
      id TEXT NOT NULL,
      key_id TEXT NOT NULL,
      key_prefix TEXT NOT NULL,
      -- Whose command it is, and its place among the commands of this partner: see LogPages.
      partner_id TEXT NOT NULL,
      partner_place INTEGER NOT NULL,
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
      decision TEXT,
      -- When the platform got the command, and when the device began to execute it: see DEVICE_STARTED.
      published_at_ms INTEGER,
      device_started_at_ms INTEGER,
      -- When the plant followed a setpoint, until its command ended. JSON of [from, to) pairs, epoch milliseconds.
      spans TEXT,
      -- JSON of JudgementInputs.
      inputs TEXT,
      -- For those who see all commands, where it differs: see sight.ts.
      full_reason TEXT,
      full_decision TEXT
    );
    CREATE INDEX command_partner ON command (partner_id);
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

    -- The plan history: one row for each change. sequence: the time in ms times 1000, or the next free number.
    CREATE TABLE plan_change (
      sequence INTEGER PRIMARY KEY,
      at_ms INTEGER NOT NULL,
      -- JSON of PlanFacts.
      facts TEXT NOT NULL,
      starts_at INTEGER NOT NULL,
      size INTEGER NOT NULL
    );
    `;

/** One row for each schedule; `slots` is JSON of `StoredSlot[]`. */
const SCHEDULE_TABLES = `
    CREATE TABLE schedule (
      -- The schedules of two partners may have the same id.
      partner_id TEXT NOT NULL,
      id TEXT NOT NULL,
      -- The id that the gateway knows.
      wire_id TEXT NOT NULL,
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
      slots TEXT NOT NULL,
      PRIMARY KEY (partner_id, id)
    ) WITHOUT ROWID;
    CREATE INDEX schedule_start ON schedule (starts_at_ms, command_sequence);
    CREATE INDEX schedule_wire ON schedule (wire_id);
    CREATE INDEX schedule_open ON schedule (command_sequence) WHERE ended_at_ms IS NULL;
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
