/**
 * The statements of the baseline. Each is one transaction for a whole batch, prepared once per connection; the batch is
 * one JSON parameter, which PostgreSQL reads faster than arrays of texts.
 */
import type { Pool } from 'pg';
import type { Device, Plant } from './checks.ts';
import { MAX_CHARGE_KW } from './tables.ts';

/** A row of the outbox: a message that must be sent, and to which topic or with which routing key. */
export interface Outgoing {
  id: string;
  address: string;
  body: string;
}

export interface NewCommand {
  id: string;
  messageId: string;
  correlationId: string | null;
  siteId: string;
  routingKey: string;
  status: 'PENDING' | 'REJECTED';
  message: string | null;
  source: string;
  payloadText: string;
  createdAt: string;
  outgoing: readonly Outgoing[];
}

/** A command whose device has not answered yet. */
export interface OpenCommand {
  id: string;
  siteId: string;
  correlationId: string | null;
}

export interface EndedCommand {
  id: string;
  status: string;
  endedAt: string;
  outgoing: readonly Outgoing[];
}

/** The begin or the end of an alarm. */
export interface NewAlarm {
  id: string;
  siteId: string;
  deviceId: string;
  status: string;
  at: string;
  outgoing: readonly Outgoing[];
}

const OUTGOING = '(id uuid, address text, body text)';
const NEW_COMMAND = `(
  id uuid, "messageId" uuid, "correlationId" text, "siteId" uuid, "routingKey" text, status text, message text,
  source text, payload json, "createdAt" timestamptz, outgoing json
)`;

const STORE_COMMANDS = `
  WITH given AS MATERIALIZED (SELECT * FROM json_to_recordset($1) AS given ${NEW_COMMAND}),
  fresh AS (
    INSERT INTO message_id (message_id) SELECT "messageId" FROM given
    ON CONFLICT DO NOTHING RETURNING message_id
  ),
  logged AS (
    INSERT INTO command SELECT id, "messageId", "correlationId", "siteId", 'DEVICE_COMMAND', "routingKey", status,
      message, source, payload, "createdAt"
    FROM given JOIN fresh ON message_id = "messageId"
  ),
  sent AS (
    INSERT INTO outbox SELECT one.id, address, body
    FROM given JOIN fresh ON message_id = "messageId",
      json_to_recordset(outgoing) AS one ${OUTGOING}
  )
  SELECT message_id FROM fresh`;

/** The dispatch of a command has the id of the command. */
const END_COMMANDS = `
  WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1) AS given (id uuid, status text, "endedAt" timestamptz, outgoing json)
  ),
  ended AS (
    UPDATE command SET status = given.status, ended_at = "endedAt" FROM given
    WHERE command.id = given.id AND command.status = 'PENDING' RETURNING command.id
  ),
  dispatched AS (DELETE FROM outbox USING ended WHERE outbox.id = ended.id)
  INSERT INTO outbox SELECT one.id, address, body
    FROM given JOIN ended ON ended.id = given.id, json_to_recordset(outgoing) AS one ${OUTGOING}`;

const STORE_ALARMS = `
  WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($1)
      AS given (id uuid, "siteId" uuid, "deviceId" text, status text, at timestamptz, outgoing json)
  ),
  stored AS (INSERT INTO alarm SELECT id, "siteId", "deviceId", status, at FROM given)
  INSERT INTO outbox SELECT one.id, address, body FROM given, json_to_recordset(outgoing) AS one ${OUTGOING}`;

const STORE_READINGS = `
  INSERT INTO reading SELECT * FROM json_to_recordset($1) AS given (d uuid, t bigint, n text, v json)
  ON CONFLICT DO NOTHING`;

function commandRow({ payloadText, ...rest }: NewCommand): string {
  return `${JSON.stringify(rest).slice(0, -1)},"payload":${payloadText}}`;
}

export class Database {
  readonly pool: Pool;

  constructor(pool: Pool) {
    this.pool = pool;
  }

  /** Returns the messageIds that are new; the others are repeated and not stored again. */
  async storeCommands(commands: readonly NewCommand[]): Promise<Set<string>> {
    const { rows } = await this.pool.query<[string]>({
      ...{ name: 'store-commands', text: STORE_COMMANDS, rowMode: 'array' },
      values: [`[${commands.map(commandRow).join(',')}]`],
    });
    return new Set(rows.map(([messageId]) => messageId));
  }

  async endCommands(commands: readonly EndedCommand[]): Promise<void> {
    await this.pool.query({
      ...{ name: 'end-commands', text: END_COMMANDS, values: [JSON.stringify(commands)] },
    });
  }

  async storeAlarms(alarms: readonly NewAlarm[]): Promise<void> {
    await this.pool.query({ name: 'store-alarms', text: STORE_ALARMS, values: [JSON.stringify(alarms)] });
  }

  /** `rows`: the JSON text of each reading, with members d, t, n and v. Returns how many are new. */
  async storeReadings(rows: readonly string[]): Promise<number> {
    const { rowCount } = await this.pool.query({
      ...{ name: 'store-readings', text: STORE_READINGS, values: [`[${rows.join(',')}]`] },
    });
    return rowCount ?? 0;
  }

  async deleteOutgoing(ids: readonly string[]): Promise<void> {
    const text = 'DELETE FROM outbox WHERE id = ANY ($1::uuid[])';
    await this.pool.query({ name: 'delete-outgoing', text, values: [ids] });
  }

  async outgoing(): Promise<Outgoing[]> {
    return (await this.pool.query<Outgoing>('SELECT id, address, body FROM outbox')).rows;
  }

  async openCommands(): Promise<OpenCommand[]> {
    const text = `SELECT id, site_id AS "siteId", correlation_id AS "correlationId" FROM command
      WHERE status = 'PENDING'`;
    return (await this.pool.query<OpenCommand>(text)).rows;
  }

  async plants(): Promise<Map<string, Plant>> {
    const text = `SELECT site_id AS "siteId", device.id, hmac_secret AS "hmacSecret",
      (SELECT json_object_agg(external_id, asset_type) FROM sub_device WHERE site_id = device.site_id) AS types
      FROM device`;
    const { rows } = await this.pool.query<Device & { siteId: string; types: Record<string, string> }>(text);
    return new Map(
      rows.map(({ siteId, types, ...gateway }) => [
        siteId,
        {
          ...{ id: siteId, gateway, maxChargeKw: MAX_CHARGE_KW },
          subDevices: new Map(Object.entries(types)),
        },
      ]),
    );
  }
}
