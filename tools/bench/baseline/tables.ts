/** The baseline's tables in PostgreSQL, and the rows of a seeded plant. */
import type { Client } from 'pg';
import { sha256Hex } from '../../../durable-objects/secrets/hmac.ts';
import { CONSTRAINTS, type SeededPlant, SITE_CONFIG, SUB_DEVICES } from '../../seed.ts';

const TABLES = `
  CREATE TABLE site (
    id uuid PRIMARY KEY, name text NOT NULL, ean_cons text NOT NULL, ean_prod text NOT NULL, config json NOT NULL
  );
  CREATE TABLE device (id uuid PRIMARY KEY, site_id uuid NOT NULL REFERENCES site, hmac_secret text NOT NULL);
  CREATE TABLE sub_device (
    site_id uuid NOT NULL REFERENCES site, external_id text NOT NULL, asset_type text NOT NULL, name text NOT NULL,
    PRIMARY KEY (site_id, external_id)
  );
  CREATE TABLE api_key (hash text PRIMARY KEY, revoked_at timestamptz);
  CREATE TABLE message_id (message_id uuid PRIMARY KEY, seen_at timestamptz NOT NULL DEFAULT now());
  CREATE TABLE command (
    id uuid PRIMARY KEY, message_id uuid NOT NULL, correlation_id text, site_id uuid NOT NULL, type text NOT NULL,
    routing_key text NOT NULL, status text NOT NULL, message text, source text NOT NULL, payload json NOT NULL,
    created_at timestamptz NOT NULL, ended_at timestamptz
  );
  CREATE INDEX command_of_site ON command (site_id, created_at DESC, id DESC);
  CREATE INDEX command_open ON command (site_id) WHERE status = 'PENDING';
  CREATE TABLE outbox (id uuid PRIMARY KEY, address text NOT NULL, body text NOT NULL);
  CREATE TABLE alarm (
    id uuid PRIMARY KEY, site_id uuid NOT NULL, device_id text NOT NULL, status text NOT NULL, at timestamptz NOT NULL
  );
  -- The key refuses a replayed reading, because its timestamp and its nonce are signed.
  CREATE TABLE reading (
    device_id uuid NOT NULL, ts bigint NOT NULL, nonce text NOT NULL, data json NOT NULL,
    PRIMARY KEY (device_id, ts, nonce)
  );
`;

/** `restKey`: the API key of REST requests; only its hash is stored. */
export async function createTables(
  client: Client,
  plants: readonly SeededPlant[],
  restKey: string,
): Promise<void> {
  await client.query(TABLES);
  await client.query('INSERT INTO api_key VALUES ($1)', [sha256Hex(restKey)]);
  await client.query(
    `INSERT INTO site SELECT id, name, "eanCons", "eanProd", $2::json
       FROM json_to_recordset($1) AS given (id uuid, name text, "eanCons" text, "eanProd" text)`,
    [JSON.stringify(plants), JSON.stringify(SITE_CONFIG)],
  );
  const devices = plants.map(({ id, gateway }) => ({ site: id, ...gateway }));
  await client.query(
    `INSERT INTO device SELECT id, site, "hmacSecret"
       FROM json_to_recordset($1) AS given (id uuid, site uuid, "hmacSecret" text)`,
    [JSON.stringify(devices)],
  );
  await client.query(
    `INSERT INTO sub_device SELECT site.id, "deviceId", "assetType", given.name
       FROM site, json_to_recordset($1) AS given ("deviceId" text, "assetType" text, name text)`,
    [JSON.stringify(SUB_DEVICES)],
  );
}

/** The limit that the checks of a command use. */
export const MAX_CHARGE_KW = CONSTRAINTS.maxChargeKw;
