/** The tables of devices, their secrets, dropped messages, logins and REST commands. */
export const DEVICE_TABLES = `
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

    -- Logins that took the place of a live session: JSON of a Takeovers.
    CREATE TABLE takeover (device_id TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID;

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
