/** A Site of before the budgets, woken by this code: what it kept is there, counted, and still answers [rule 9]. */
import { describe, expect, it } from 'vitest';
import type { Submission } from '../../../durable-objects/rpc.ts';
import { boundSite, restoreBounds } from '../../support/workerd/site-bounds.ts';
import {
  HOUR,
  holdClock,
  MINUTE,
  passTime,
  SECOND,
  START_MS,
  setClock,
} from '../../support/workerd/site-clock.ts';
import { droppedOf, publish, rawTelemetry, sendTelemetry } from '../../support/workerd/site-devices.ts';
import { endOf, executionsOf, newPlannedSite, obey, planned, told } from '../../support/workerd/site-plan.ts';
import { readCommands } from '../../support/workerd/site-reads.ts';
import { evictSite, numberOf, rowsOf } from '../../support/workerd/site-rows.ts';
import { newListeningSite } from '../../support/workerd/site-scenes.ts';
import { charge, submission } from '../../support/workerd/site-submissions.ts';
import { siteOf } from '../../support/workerd/world.ts';

holdClock();
restoreBounds();

/** Brings the tables back to what they were at version 2, with all that is in them. */
async function setBack(siteId: string): Promise<void> {
  const statements = [
    'DROP TABLE schedule',
    ...['raw', '5m', '1h', '1d'].map((level) => `DROP TABLE telemetry_${level}`),
    'ALTER TABLE journal_block DROP COLUMN alerts',
    `UPDATE journal_block SET data = replace(data, '"*",{', '{')`,
    'UPDATE journal_block SET size = length(data)',
    "ALTER TABLE device ADD COLUMN secret_sealed TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE device ADD COLUMN secret_form TEXT NOT NULL DEFAULT 'text' CHECK (secret_form IN ('text', 'bytes'))",
    `UPDATE device SET secret_form = coalesce(form, 'text'), secret_sealed = sealed
       FROM device_secret WHERE device_secret.device_id = device.id`,
    ...['device_secret', 'recent_drop', 'recent_connect', 'failed_login', 'own_command', 'carried_nonce'].map(
      (table) => `DROP TABLE ${table}`,
    ),
    ...['proved_version', 'status_at_ms', 'suspend_reason', 'leaving', 'session_issued_at_ms'].map(
      (column) => `ALTER TABLE device DROP COLUMN ${column}`,
    ),
    'DROP TABLE plan_entry',
    'ALTER TABLE command DROP COLUMN decision',
    'ALTER TABLE journal_block DROP COLUMN starts_at',
    'ALTER TABLE command DROP COLUMN starts_at',
    'ALTER TABLE command DROP COLUMN size',
    'DROP INDEX command_publish',
    'ALTER TABLE command DROP COLUMN publish_id',
    'ALTER TABLE counters DROP COLUMN log_start',
    'ALTER TABLE counters DROP COLUMN emergency_sequence',
    `CREATE TABLE received_message (
       key_id TEXT NOT NULL, message_id TEXT NOT NULL, command_sequence INTEGER NOT NULL,
       acknowledgement TEXT NOT NULL, received_at_ms INTEGER NOT NULL, PRIMARY KEY (key_id, message_id)
     ) WITHOUT ROWID`,
    `INSERT INTO received_message
       SELECT key_id, message_id, command_sequence, acknowledgement, received_at_ms FROM message_id`,
    'DROP TABLE message_id',
    `DELETE FROM fact WHERE name IN ('snapshot', 'registryReadAt', 'plan', 'commanded', 'telemetry')`,
    'UPDATE schema_version SET version = 2, lowest = 1',
  ];
  for (const statement of statements) await rowsOf(siteId, statement);
  await evictSite(siteId);
}

/** A site with some past: readings, commands that were taken and refused, their messageIds; set back. */
async function newSiteOfBefore() {
  const scene = await newListeningSite();
  const { plant, link, gateway, partner } = scene;
  const sent: Submission[] = [
    charge(),
    submission('site-setpoint', { nonsense: 'x'.repeat(100) }),
    submission('site-setpoint', { nonsense: 'x'.repeat(20_000) }),
    submission('emergency', { type: 'STOP' }),
  ];
  await partner.submit(...sent);
  for (let minute = 0; minute < 12; minute += 4) {
    setClock(START_MS + minute * MINUTE);
    const data = `{"gridPowerKw":${minute},"filler":1}`;
    await publish(link, rawTelemetry(gateway, { data, nonce: `n-${minute}` }));
  }
  const acknowledgements = partner.events.filter((event) => event.kind === 'ack');
  await setBack(plant.id);
  return { ...scene, sent, acknowledgements };
}

/**
 * A site with two setpoints, each with the dispatch that older code gave it, set back: one has no end and is obeyed
 * since 20 s after the start, one waits for its time.
 */
async function newPlannedSiteOfBefore() {
  const scene = await newPlannedSite();
  const { plant, partner } = scene;
  const executing = planned(5, 'NORMAL', { inMs: -MINUTE });
  const pending = planned(9, 'HIGH', { inMs: 10 * MINUTE, forMs: HOUR });
  await partner.submit(executing, pending);
  setClock(START_MS + 20 * SECOND);
  const { cmdId } = await obey(scene, 1);
  await rowsOf(plant.id, 'DELETE FROM dispatch');
  await rowsOf(
    plant.id,
    `INSERT INTO dispatch (cmd_id, command_sequence, device_id, action, payload, state, tries, not_before_ms,
         expires_at_ms, due_at_ms)
       SELECT CASE status WHEN 'EXECUTING' THEN '${cmdId}' ELSE 'waits' END, sequence, '${plant.gateway.id}',
         'SITE_SETPOINT', json_set(payload, '$.targetSignedKw', target_value_kw),
         CASE status WHEN 'EXECUTING' THEN 'RECEIVED' ELSE 'WAITING' END, status = 'EXECUTING', valid_from_ms,
         valid_until_ms, CASE status WHEN 'EXECUTING' THEN started_at_ms + ${5 * MINUTE} ELSE valid_from_ms END
       FROM command WHERE status IN ('PENDING', 'EXECUTING')`,
  );
  expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(2);
  await setBack(plant.id);
  return { ...scene, executing, pending, cmdId };
}

describe('a site that older code wrote', () => {
  it('still knows each messageId: the same publish is the same answer, another is refused [C-7.3]', async () => {
    const { plant, partner, sent, acknowledgements } = await newSiteOfBefore();
    for (const [index, one] of sent.entries()) {
      const again = await partner.acknowledgeEvent(one);
      expect([index, again.payloadText]).toEqual([index, acknowledgements[index]?.payloadText]);
    }
    const other = charge(6, { messageId: sent[0]?.messageId ?? '' });
    expect(await partner.acknowledge(other)).toMatchObject({ message: 'messageId reused' });
    expect((await readCommands(plant.id)).total).toBe(sent.length + 1);
  });

  it('still knows its nonces and its latest values [C-3.8]', async () => {
    const { plant, link, gateway } = await newSiteOfBefore();
    expect((await siteOf(plant.id).readLatestTelemetry(plant.id)).payload.gridPowerKw).toBe(8);
    await publish(link, rawTelemetry(gateway, { data: '{"gridPowerKw":666}', nonce: 'n-8' }));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ NONCE: 1 });
    await sendTelemetry(link, gateway, { gridPowerKw: 9 });
    expect((await siteOf(plant.id).readLatestTelemetry(plant.id)).payload.gridPowerKw).toBe(9);
  });

  it('has its open setpoints in the plan: window, level and verdict, and no dispatch of before [C-7.7]', async () => {
    const { plant } = await newPlannedSiteOfBefore();
    expect(await rowsOf(plant.id, 'SELECT * FROM plan_entry ORDER BY command_sequence')).toEqual([
      {
        command_sequence: 1,
        level: 'NORMAL',
        // Its window had begun before it came.
        starts_at_ms: START_MS,
        ends_at_ms: null,
        verdict_at_ms: START_MS + 20 * SECOND + 5 * MINUTE,
        obeyed_since_ms: null,
        spans: '[]',
      },
      {
        command_sequence: 2,
        level: 'HIGH',
        starts_at_ms: START_MS + 10 * MINUTE,
        ends_at_ms: START_MS + 70 * MINUTE,
        verdict_at_ms: null,
        obeyed_since_ms: null,
        spans: '[]',
      },
    ]);
    expect(await rowsOf(plant.id, 'SELECT * FROM dispatch')).toEqual([]);
  });

  it('tells its gateway anew what stands, follows the plan, and ends each setpoint once [C-7.8]', async () => {
    const scene = await newPlannedSiteOfBefore();
    const { plant, link, executing, pending, cmdId } = scene;
    await passTime(plant.id, 0);
    expect(await told(link, plant)).toEqual([5, 5]);
    expect((await obey(scene, 2)).cmdId).not.toBe(cmdId);
    await passTime(plant.id, 5 * MINUTE - 1);
    expect(await endOf(plant, executing)).toBe('EXECUTING');
    await passTime(plant.id, 1);
    expect(await endOf(plant, executing)).toBe('COMPLETED unmeasured');
    expect(await endOf(plant, pending)).toBe('PENDING');
    await passTime(plant.id, 5 * MINUTE);
    await obey(scene, 3);
    await passTime(plant.id, HOUR);
    expect(await told(link, plant)).toEqual([5, 5, 9, 5]);
    expect(await endOf(plant, pending)).toBe('COMPLETED unmeasured');
    for (const one of [executing, pending]) {
      const statuses = (await executionsOf(scene, one)).map(({ status }) => status);
      expect(statuses).toEqual(['EXECUTING', 'COMPLETED']);
    }
  });

  it('counts what it had: places follow each other, and a budget trims the oldest [rule 9]', async () => {
    const { plant, partner } = await newSiteOfBefore();
    await partner.submit(charge());
    for (const [table, order] of [
      ['journal_block', 'id'],
      ['command', 'sequence'],
      ['message_id', 'sequence'],
    ]) {
      const rows = await rowsOf<{ starts_at: number; size: number }>(
        plant.id,
        `SELECT starts_at, size FROM ${table} ORDER BY ${order}`,
      );
      expect(rows.length).toBeGreaterThan(1);
      for (const [index, { starts_at }] of rows.slice(1).entries()) {
        const before = rows[index] ?? { starts_at: 0, size: 0 };
        expect([table, starts_at]).toEqual([table, before.starts_at + before.size]);
      }
    }
    await boundSite(plant.id, { journalBytes: 1, messageIdBytes: 1_000 });
    // Blocks whose nonces count stay.
    await passTime(plant.id, 12 * MINUTE);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM journal_block')).toBe(1);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM message_id')).toBeLessThan(5);
  });
});
