/**
 * The storage of a Site is bounded in bytes and rows: the agenda deletes the oldest, and new data is never
 * rejected for it [rule 9].
 */
import { vi } from 'vitest';
import { type LinkedScene, RUNNING, setScene } from '#workerd/scene.ts';
import { boundSite } from '#workerd/site-bounds.ts';
import { alarmAt, DAY, HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  answerPings,
  connectListening,
  droppedOf,
  manySignals,
  nthCommand,
  publish,
  publishAll,
  rawTelemetry,
  sendAck,
  sendTelemetry,
} from '#workerd/site-devices.ts';
import { newestCommand, readCommands } from '#workerd/site-reads.ts';
import { breakWrites, columnOf, evictSite, numberOf, repair } from '#workerd/site-rows.ts';
import { charge, powerSetpoint, type Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { type Plant, siteOf } from '#workerd/world.ts';

const KIB = 1024;
const journalBytes = 'SELECT coalesce(sum(length(CAST(data AS BLOB))), 0) FROM journal_block';
const commandBytes =
  'SELECT coalesce(sum(length(CAST(payload AS BLOB)) + length(id) + length(message_id) + length(routing_key)), 0) FROM command';

const FILLER = manySignals(250);

/** Telemetry of several blocks, oldest first, marked by a value. */
async function fillJournal({ link, gateway }: LinkedScene, rounds: number, from = 0): Promise<void> {
  for (let round = from; round < from + rounds; round++) {
    setClock(START_MS + round * MINUTE);
    const messages = Array.from({ length: 10 }, () => rawTelemetry(gateway, { data: FILLER }));
    messages.push(rawTelemetry(gateway, { data: `{"gridPowerKw":${round}}` }));
    expect(await publishAll(link, messages)).toEqual(Array(11).fill(true));
  }
}

/** Runs the alarms of ten minutes, which delete all that exceeds the bounds. */
async function trim(plant: Plant): Promise<void> {
  for (let round = 0; round < 10; round++) await passTime(plant.id, MINUTE);
}

const refused = (index: number) => submission('site-setpoint', { nonsense: 'x'.repeat(3_000), index });

describe('the journal at its budget', () => {
  it('the journal deletes its oldest blocks by the agenda until it is within its budget [rule 9]', async () => {
    const { scene, plant } = await setScene({ gateway: 'connected' });
    await boundSite(plant.id, { journalBytes: 200 * KIB });
    await fillJournal(scene, 20);
    await trim(plant);
    const stored = await numberOf(plant.id, journalBytes);
    expect(stored).toBeLessThanOrEqual(200 * KIB);
    expect(stored).toBeGreaterThan(100 * KIB);
    const text = `SELECT count(*) FROM journal_block WHERE data LIKE '%"gridPowerKw":`;
    expect(await numberOf(plant.id, `${text}0}%'`)).toBe(0);
    expect(await numberOf(plant.id, `${text}19}%'`)).toBe(1);
    expect(await numberOf(plant.id, 'SELECT max(id) - min(id) + 1 - count(*) FROM journal_block')).toBe(0);
  });

  it('readings are stored in a transaction of their own, so that a failed deletion loses none [rule 9]', async () => {
    const { scene, plant, link, gateway } = await setScene({ gateway: 'connected' });
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    await answerPings(plant.id);
    await boundSite(plant.id, { journalBytes: 50 * KIB });
    await breakWrites(plant.id, 'DELETE ON journal_block');
    await fillJournal(scene, 10);
    await trim(plant);
    expect(await numberOf(plant.id, journalBytes)).toBeGreaterThan(200 * KIB);
    expect(link.closed).toBeUndefined();
    await repair(plant.id);
    expect(await sendTelemetry(link, gateway, { gridPowerKw: 99 })).toBe(true);
    await trim(plant);
    expect(await numberOf(plant.id, journalBytes)).toBeLessThanOrEqual(50 * KIB);
    expect((await siteOf(plant.id).readLatestTelemetry(plant.id)).payload.gridPowerKw).toBe(99);
  });

  it('after an eviction the journal counts all stored blocks again, and deletes those over its budget [rule 9]', async () => {
    const { scene, plant, link, gateway } = await setScene({ gateway: 'connected' });
    await fillJournal(scene, 20);
    await boundSite(plant.id, { journalBytes: 100 * KIB });
    await sendTelemetry(link, gateway, { gridPowerKw: 5 });
    await trim(plant);
    expect(await numberOf(plant.id, journalBytes)).toBeLessThanOrEqual(100 * KIB);
  });

  it('the journal keeps its open block and the nonces of the last ten minutes, whatever its budget [C-3.8]', async () => {
    const { scene, plant, link, gateway } = await setScene({ gateway: 'connected' });
    await answerPings(plant.id);
    await boundSite(plant.id, { journalBytes: 1 });
    const replayed = () => publish(link, rawTelemetry(gateway, { nonce: 'n', data: '{"gridPowerKw":666}' }));
    // A message dated ahead: its nonce counts for nine minutes.
    const ts = START_MS + 4 * MINUTE;
    await publish(link, rawTelemetry(gateway, { nonce: 'n', ts, data: '{"fvePowerKw":1}' }));
    await fillJournal(scene, 3);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM journal_block')).toBeGreaterThan(5);
    await passTime(plant.id, 7 * MINUTE - SECOND);
    await evictSite(plant.id);
    await replayed();
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ NONCE: 1 });
    expect((await siteOf(plant.id).readLatestTelemetry(plant.id)).payload.gridPowerKw).toBe(2);
    await trim(plant);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM journal_block')).toBe(1);
    await evictSite(plant.id);
    expect((await siteOf(plant.id).readLatestTelemetry(plant.id)).payload.gridPowerKw).toBe(2);
  });
});

describe('the command log at its budget', () => {
  async function fillLog(partner: Submitter, count: number): Promise<void> {
    for (let at = 0; at < count; at += 50) {
      const length = Math.min(50, count - at);
      await partner.submit(...Array.from({ length }, (_none, index) => refused(at + index)));
    }
  }

  it('the command log deletes its oldest rows, and its pages and total stay correct [C-4.3]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await boundSite(plant.id, { commandLogBytes: 200 * KIB });
    await fillLog(partner, 300);
    await trim(plant);
    expect(await numberOf(plant.id, commandBytes)).toBeLessThanOrEqual(200 * KIB);
    const { items, total } = await readCommands(plant.id, 1, 500);
    expect(items.length).toBe(total);
    expect(total).toBeGreaterThan(20);
    const newest = Array.from({ length: total }, (_none, index) => 299 - index);
    expect(items.map((row) => row.payload.index)).toEqual(newest);
    await partner.submit(charge());
    expect((await readCommands(plant.id)).total).toBe(total + 1);
  });

  it('the command log keeps an open command, even the oldest, and its end is reported and logged [C-7.8]', async () => {
    const { plant, listener, partner, link } = await setScene(RUNNING);
    await answerPings(plant.id);
    await boundSite(plant.id, { commandLogBytes: 50 * KIB });
    await partner.submit(charge());
    const open = await newestCommand(plant.id);
    await passTime(plant.id, 1);
    await fillLog(partner, 100);
    await passTime(plant.id, SECOND);
    expect(await numberOf(plant.id, 'SELECT log_start FROM counters')).toBeGreaterThan(1);
    const begun = await readCommands(plant.id, 1, 500, Date.parse(String(open.createdAt)));
    expect(begun).toMatchObject({ items: [{ id: open.id }], total: 1 });
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    await passTime(plant.id, 20 * SECOND);
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'COMPLETED');
    await listener.event('execution', 'COMPLETED');
    expect(listener.statuses('execution')).toEqual(['EXECUTING', 'COMPLETED']);
    const ended = await columnOf(plant.id, `SELECT status FROM command WHERE id = '${open.id}'`);
    expect(ended).toEqual(['COMPLETED']);
    const stored = await numberOf(plant.id, 'SELECT count(*) FROM command');
    expect((await readCommands(plant.id, 1, 500)).total).toBe(stored);
  });

  it('an emergency and an EMERGENCY setpoint are executed as usual while log rows cannot be deleted [rule 9]', async () => {
    const { plant, link, partner } = await setScene({ gateway: 'listening' });
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    const least = { journalBytes: 1, messageIdBytes: 1, outboxRows: 1 };
    await boundSite(plant.id, { commandLogBytes: 10 * KIB, ...least });
    await breakWrites(plant.id, 'DELETE ON command');
    await fillLog(partner, 100);
    await passTime(plant.id, SECOND);
    const passing = submission('site-setpoint', powerSetpoint(5, { priority: 'EMERGENCY' }));
    for (const one of [submission('emergency', { type: 'STOP' }), passing])
      expect(await partner.acknowledge(one)).toMatchObject({ status: 'ACCEPTED' });
    const [stop, setpoint] = [await nthCommand(link, 1), await nthCommand(link, 2)];
    expect(await sendAck(link, plant.gateway, stop.cmdId, 'COMPLETED')).toBe(true);
    expect(await sendAck(link, plant.gateway, setpoint.cmdId, 'RECEIVED')).toBe(true);
    await passTime(plant.id, 5 * MINUTE);
    const { items } = await readCommands(plant.id, 1, 2);
    expect(items.map((row) => row.status)).toEqual(['COMPLETED', 'COMPLETED']);
  });

  it('the command log deletes its rows in steps of at most 1 000 [rule 9]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await fillLog(partner, 2_000);
    await boundSite(plant.id, { commandLogBytes: 100 * KIB });
    const total = async () => (await readCommands(plant.id)).total;
    let before = await total();
    let largest = 0;
    for (let runs = 0; runs < 200 && (await alarmAt(plant.id)) !== null; runs++) {
      await passTime(plant.id, 1);
      const now = await total();
      largest = Math.max(largest, before - now);
      if (now === before) await passTime(plant.id, MINUTE);
      before = await total();
    }
    expect(await numberOf(plant.id, commandBytes)).toBeLessThanOrEqual(100 * KIB);
    expect(largest).toBeLessThanOrEqual(1_000);
  });
});

describe('messageIds', () => {
  const known = 'SELECT count(*) FROM message_id';

  it('are deleted after seven days by the alarm, even without telemetry [C-7.3]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(charge(), submission('site-setpoint', { nonsense: true }));
    await passTime(plant.id, 7 * DAY - MINUTE);
    await partner.submit(charge());
    expect(await numberOf(plant.id, known)).toBe(3);
    await passTime(plant.id, HOUR);
    expect(await numberOf(plant.id, known)).toBe(1);
    await evictSite(plant.id);
    await passTime(plant.id, 8 * DAY);
    expect(await numberOf(plant.id, known)).toBe(0);
    expect(await alarmAt(plant.id)).toBeNull();
  });

  it('over their budget are deleted too, the oldest first [rule 9]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const sent = Array.from({ length: 600 }, (_none, index) => refused(index));
    for (let at = 0; at < sent.length; at += 50) {
      setClock(START_MS + at * SECOND);
      await partner.submit(...sent.slice(at, at + 50));
    }
    const bytes = 'SELECT sum(length(key_id) + length(message_id) + length(acknowledgement)) FROM message_id';
    const budget = Math.floor((await numberOf(plant.id, bytes)) / 3);
    await boundSite(plant.id, { messageIdBytes: budget });
    await partner.submit(charge());
    await trim(plant);
    expect(await numberOf(plant.id, bytes)).toBeLessThanOrEqual(budget);
    const stored = await numberOf(plant.id, known);
    expect(stored).toBeGreaterThan(20);
    const newest = sent.slice(-20).map((one) => `'${one.messageId}'`);
    expect(await numberOf(plant.id, `${known} WHERE message_id IN (${newest})`)).toBe(20);
  });
});

describe('the outbox of a key whose Vhost stores nothing', () => {
  it('keeps the newest events within its budget, and the site still stores telemetry and sends commands [rule 9]', async () => {
    const { plant, link, partner } = await setScene({ gateway: 'listening' });
    const { Vhost } = await import('../../../durable-objects/vhost.ts');
    vi.spyOn(console, 'warn').mockReturnValue(undefined);
    vi.spyOn(Vhost.prototype, 'receive').mockResolvedValue({ received: 0, gone: false });
    await answerPings(plant.id);
    await boundSite(plant.id, { outboxRows: 100 });
    const sent = Array.from({ length: 500 }, (_none, index) => refused(index));
    for (let at = 0; at < sent.length; at += 50)
      await siteOf(plant.id).submit({ ...partner.batchOf(sent.slice(at, at + 50)), received: 0 });
    await trim(plant);
    const acks = `FROM outbox WHERE lane = '${partner.keyId}' AND kind = 'ack'`;
    const left = await columnOf(plant.id, `SELECT correlation_id ${acks} ORDER BY sequence`);
    expect(left.length).toBeLessThanOrEqual(100);
    expect(left.length).toBeGreaterThan(50);
    expect(left).toEqual(sent.slice(-left.length).map(({ messageId }) => messageId));
    expect(await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 })).toBe(true);
    const again = await connectListening(plant);
    await partner.submit(charge());
    await nthCommand(again, 1);
  });
});
