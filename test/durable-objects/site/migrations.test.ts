/** A Site of before the budgets, woken by this code: what it kept is there, counted, and still answers [rule 9]. */
import { describe, expect, it } from 'vitest';
import type { Submission } from '../../../durable-objects/rpc.ts';
import { boundSite, restoreBounds } from '../../support/workerd/site-bounds.ts';
import { holdClock, MINUTE, passTime, START_MS, setClock } from '../../support/workerd/site-clock.ts';
import { droppedOf, publish, rawTelemetry, sendTelemetry } from '../../support/workerd/site-devices.ts';
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
    `DELETE FROM fact WHERE name IN ('snapshot', 'registryReadAt', 'plan', 'commanded')`,
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
    await passTime(plant.id, MINUTE);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM journal_block')).toBe(1);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM message_id')).toBeLessThan(5);
  });
});
