/** The table of a site's schedules: one row each, its slots as JSON of `StoredSlot[]`. */
export const SCHEDULE_TABLES = `
    CREATE TABLE schedule (
      id TEXT PRIMARY KEY,
      command_sequence INTEGER NOT NULL,
      status TEXT NOT NULL,
      starts_at_ms INTEGER NOT NULL,
      ends_at_ms INTEGER NOT NULL,
      slot_ms INTEGER NOT NULL,
      slot_count INTEGER NOT NULL,
      -- The end of its last slot that no newer schedule has replaced.
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
