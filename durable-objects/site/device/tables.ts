/** The tables of a site's devices: their secrets, what they were refused for, who logged in, what they were told over REST. */
export const DEVICE_TABLES = `
    CREATE TABLE device_secret (
      device_id TEXT NOT NULL,
      -- Grows; the moment at which it was made.
      version INTEGER NOT NULL,
      sealed TEXT NOT NULL,
      -- The form in which the device last proved it, its hex text or the bytes that it spells; null: not yet.
      form TEXT CHECK (form IN ('text', 'bytes')),
      -- The end of its grace; null for the newest.
      valid_until_ms INTEGER,
      PRIMARY KEY (device_id, version)
    ) WITHOUT ROWID;
    INSERT INTO device_secret (device_id, version, sealed, form)
      SELECT id, 1, secret_sealed, secret_form FROM device WHERE secret_sealed <> '';
    ALTER TABLE device DROP COLUMN secret_sealed;
    ALTER TABLE device DROP COLUMN secret_form;
    -- Of the secret that the device last signed with.
    ALTER TABLE device ADD COLUMN proved_version INTEGER;
    -- When its status became what it is: of two that tell the registry, the later one counts.
    ALTER TABLE device ADD COLUMN status_at_ms INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE device ADD COLUMN suspend_reason TEXT;
    -- The move that takes it to another object: nothing of it happens here any more.
    ALTER TABLE device ADD COLUMN leaving TEXT;
    -- When the token of its session was issued; null without one.
    ALTER TABLE device ADD COLUMN session_issued_at_ms INTEGER;

    -- The last messages that were dropped, in a ring: a slot is the sequence by its length.
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

    -- The last logins, accepted and refused, in such a ring.
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

    -- Those of them that count toward the suspension, as many as suspend: nothing else pushes them out.
    CREATE TABLE failed_login (
      device_id TEXT NOT NULL,
      slot INTEGER NOT NULL,
      sequence INTEGER NOT NULL,
      at_ms INTEGER NOT NULL,
      address TEXT NOT NULL,
      PRIMARY KEY (device_id, slot)
    ) WITHOUT ROWID;

    -- Commands over REST. What is open of one is its dispatch, of the same cmd_id.
    CREATE TABLE own_command (
      sequence INTEGER PRIMARY KEY,
      cmd_id TEXT NOT NULL,
      device_id TEXT NOT NULL,
      action TEXT NOT NULL,
      -- Null while it is open: its dispatch says.
      status TEXT,
      reason TEXT,
      idempotency_key TEXT,
      -- Of action, payload and window: what the same key must come with again.
      digest TEXT NOT NULL,
      created_at_ms INTEGER NOT NULL
    );
    CREATE UNIQUE INDEX own_command_id ON own_command (cmd_id);
    CREATE INDEX own_command_device ON own_command (device_id, sequence);

    -- Nonces that no journal entry has: of devices that came from another object, of tokens that they asked for.
    CREATE TABLE carried_nonce (
      id INTEGER PRIMARY KEY,
      until_ms INTEGER NOT NULL,
      -- JSON: {deviceId, nonce, digest, ts, receivedMs}[].
      data TEXT NOT NULL
    );
    `;
