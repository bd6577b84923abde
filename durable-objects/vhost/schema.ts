/** The tables of one vhost. Instants are epoch milliseconds. */
import type { BodyEncoding, MessageProperties } from '../../protocol/link.ts';

export const VHOST_MIGRATIONS = [
  `
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
] as const;

/** Who holds a delivery. tag null: basic.get. */
export interface Owner {
  connectionId: string;
  channel: number;
  tag: string | null;
}

export interface Message {
  routingKey: string;
  properties: MessageProperties;
  body: string;
  encoding: BodyEncoding;
  createdAtMs: number;
}

export type MessageRow = {
  queue: string;
  position: number;
  routing_key: string;
  properties: string;
  body: string;
  encoding: BodyEncoding;
  bytes: number;
  created_at_ms: number;
  deliveries: number;
  lease: number | null;
  connection_id: string | null;
  channel: number | null;
  tag: string | null;
};

/** What of a message that was out counts at a wake. */
export type DeliveredMessageRow = Pick<
  MessageRow,
  'position' | 'bytes' | 'deliveries' | 'lease' | 'connection_id' | 'channel' | 'tag'
>;

export type ConnectionRow = {
  id: string;
  bridge_id: string;
  bridge_boot: string;
  address: string;
  connected_at_ms: number;
};

export type ConsumerRow = {
  connection_id: string;
  channel: number;
  tag: string;
  queue: string;
  no_ack: number;
  exclusive: number;
  prefetch: number;
};

export type QueueRow = { name: string; message_count: number; byte_count: number; dropped_count: number };

export type ChunkHead = {
  position: number;
  message_count: number;
  byte_count: number;
  leased_count: number;
  created_at_ms: number;
};

/** The API key that a vhost belongs to, as this object holds it: the authority over its clients (rule 6). */
export interface VhostKey {
  keyId: string;
  keyPrefix: string;
  slug: string;
  /** Its name to clients: `partner-<key_id>`, or `/` for a legacy key [C-5.3]. */
  vhost: string;
  organizationId: string;
  scopes: string[];
  allowedPlantIds: string[] | null;
  expiresAtMs: number | null;
  revokedAtMs: number | null;
  /** Queues start to fill at the key's first connection [C-6.1]. */
  firstConnectedAtMs: number | null;
  signingKeySealed: string;
}
