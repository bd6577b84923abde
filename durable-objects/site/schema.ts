/** The tables of one site. Instants are epoch milliseconds; JSON columns hold text that we wrote. */
import type {
  AssetType,
  CommandStatus,
  CommandType,
  DeviceReportedStatus,
  DeviceType,
} from '../../protocol/enums.ts';
import type { EventKind } from '../../protocol/routing-keys.ts';

export const SITE_MIGRATIONS = [
  `
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
] as const;

export type DeviceRow = {
  id: string;
  type: DeviceType;
  status: 'ACTIVE' | 'SUSPENDED' | 'DECOMMISSIONED';
  secret_sealed: string;
  secret_form: 'text' | 'bytes';
  reported_status: DeviceReportedStatus | null;
  epoch: number;
  connection_id: string | null;
  bridge_id: string | null;
  bridge_boot: string | null;
  connected_at_ms: number | null;
  disconnected_at_ms: number | null;
  session_expires_at_ms: number | null;
};

export type CommandRow = {
  sequence: number;
  id: string;
  key_id: string;
  key_prefix: string;
  message_id: string;
  correlation_id: string | null;
  command_type: CommandType;
  routing_key: string;
  status: CommandStatus;
  priority: string | null;
  target: string | null;
  payload: string;
  rejection_code: string | null;
  message: string | null;
  results: string | null;
  source: string;
  valid_from_ms: number | null;
  valid_until_ms: number | null;
  target_value_kw: number | null;
  actual_value_kw: number | null;
  deviation_kw: number | null;
  reason: string | null;
  created_at_ms: number;
  acked_at_ms: number | null;
  dispatched_at_ms: number | null;
  started_at_ms: number | null;
  finished_at_ms: number | null;
};

export type DispatchState = 'WAITING' | 'SENT' | 'RECEIVED' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED';

export type DispatchRow = {
  cmd_id: string;
  command_sequence: number;
  device_id: string;
  action: string;
  payload: string;
  state: DispatchState;
  tries: number;
  not_before_ms: number;
  expires_at_ms: number | null;
  due_at_ms: number | null;
  reason: string | null;
};

export type OutboxRow = {
  sequence: number;
  lane: string;
  kind: EventKind | 'device' | 'plant' | 'sub-device';
  message_id: string;
  correlation_id: string | null;
  at_ms: number;
  payload: string;
};

export type JournalBlockRow = {
  id: number;
  opened_at_ms: number;
  last_at_ms: number;
  size: number;
  event_at_ms: number;
  data: string;
};

export type ReceivedMessageRow = {
  command_sequence: number;
  acknowledgement: string;
};

/** A sub-device as the registry lists it. */
export interface SubDevice {
  id: string;
  externalId: string;
  assetType: AssetType;
  name: string;
  linkedDeviceId: string | null;
  ratedPowerKw: number | null;
  capacityKwh: number | null;
  meterRole: string | null;
}
