/** One failure among valid work: a frame that cannot be judged, or a write that fails. */
import { beforeEach, vi } from 'vitest';
import { type DeviceTestLink, telemetryMessage } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { START_MS, setClock } from '#workerd/site-clock.ts';
import {
  commandsOf,
  connectListening,
  nthCommand,
  publish,
  publishAll,
  sendAck,
} from '#workerd/site-devices.ts';
import { gridPowerKw, readConfig } from '#workerd/site-reads.ts';
import { breakWrites, evictSite, numberOf, repair, rowsOf } from '#workerd/site-rows.ts';
import { batch, batteryCommand, powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { type Plant, siteOf } from '#workerd/world.ts';
import { DEFAULT_SITE_CONFIG } from '../../../../protocol/site-config.ts';

beforeEach(() => {
  vi.spyOn(console, 'error').mockReturnValue(undefined);
});

/**
 * Makes the judge throw on a message with exactly this data, whose text it parses a second time after slicing
 * it.
 */
function poison(dataText: string): void {
  const parse = JSON.parse;
  vi.spyOn(JSON, 'parse').mockImplementation((text: string, reviver?: Parameters<typeof parse>[1]) => {
    if (text === dataText) throw new Error('poison');
    return parse(text, reviver) as unknown;
  });
}

async function journalLines(plant: Plant, text: string): Promise<number> {
  const removed = `sum(length(data) - length(replace(data, '${text}', '')))`;
  return (await numberOf(plant.id, `SELECT ${removed} FROM journal_block`)) / text.length;
}

describe('one frame that fails among valid ones', () => {
  it('only the failing frame of ten is rejected, the others are stored and the link stays open [rule 3]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'listening' });
    const bad = '{"poison":1}';
    poison(bad);
    const messages = Array.from({ length: 10 }, (_none, index) =>
      telemetryMessage(gateway, index === 4 ? bad : `{"gridPowerKw":${index}}`),
    );
    const answers = await publishAll(link, messages);
    expect(answers.map((stored, index) => (stored ? -1 : index)).filter((index) => index >= 0)).toEqual([4]);
    expect(await gridPowerKw(plant)).toBe(9);
    expect(await journalLines(plant, '"gridPowerKw"')).toBe(9);
    expect(await journalLines(plant, 'poison')).toBe(0);

    expect(link.closed).toBeUndefined();
    expect(await publish(link, telemetryMessage(gateway, '{"gridPowerKw":11}'))).toBe(true);
    vi.mocked(JSON.parse).mockRestore();
    expect(await publish(link, messages[4] ?? '')).toBe(true);
    expect(await journalLines(plant, 'poison')).toBe(1);
  });
});

describe('an acknowledgement whose effect cannot be written', () => {
  it('is rejected if its dispatch cannot be updated; telemetry after it is stored, and a retry succeeds [rule 3]', async () => {
    const { plant, link, gateway, partner } = await setScene({ gateway: 'listening' });
    await partner.submit(submission('device', batch(batteryCommand(5))));
    const { cmdId } = await nthCommand(link, 1);
    await breakWrites(plant.id, 'UPDATE ON dispatch');
    expect(await sendAck(link, gateway, cmdId, 'RECEIVED')).toBe(false);
    expect(await publish(link, telemetryMessage(gateway, '{"gridPowerKw":1}'))).toBe(true);
    expect(await numberOf(plant.id, `SELECT count(*) FROM command WHERE status = 'PENDING'`)).toBe(1);
    await repair(plant.id);
    expect(await sendAck(link, gateway, cmdId, 'RECEIVED')).toBe(true);
    expect(await numberOf(plant.id, `SELECT count(*) FROM command WHERE status = 'EXECUTING'`)).toBe(1);
  });

  it('leaves the mode unchanged, in memory too, and changes it on retry [rule 3]', async () => {
    const { plant, link, gateway, partner } = await setScene({ gateway: 'listening' });
    await partner.submit(submission('mode', { mode: 'MAX_EXPORT' }));
    const { cmdId } = await nthCommand(link, 1);
    await breakWrites(plant.id, 'UPDATE ON command');
    expect(await sendAck(link, gateway, cmdId, 'RECEIVED')).toBe(false);
    expect((await readConfig(plant.id)).operatingMode).toBe('STANDARD');
    await repair(plant.id);
    expect(await sendAck(link, gateway, cmdId, 'RECEIVED')).toBe(true);
    expect((await readConfig(plant.id)).operatingMode).toBe('MAX_EXPORT');
  });
});

describe('a submission whose rows cannot be written', () => {
  it('only the failing submission of ten fails, it leaves no rows, and is accepted on retry [rule 3]', async () => {
    const { plant, link, partner } = await setScene({ gateway: 'listening' });
    const submissions = Array.from({ length: 10 }, () => submission('device', batch(batteryCommand(5))));
    const bad = submissions[3];
    if (!bad) throw new Error('ten submissions');
    await breakWrites(
      plant.id,
      'INSERT ON dispatch',
      `(SELECT message_id FROM command
      WHERE sequence = NEW.command_sequence) = '${bad.messageId}'`,
    );
    const { outcomes } = await partner.submit(...submissions);
    expect(outcomes.filter((outcome) => outcome === 'recorded')).toHaveLength(9);
    expect(outcomes[3]).toBe('failed');
    expect(await numberOf(plant.id, 'SELECT count(*) FROM command')).toBe(9);
    expect(await numberOf(plant.id, 'SELECT max(sequence) FROM command')).toBe(9);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM message_id')).toBe(9);
    expect(partner.events.filter((event) => event.kind === 'ack')).toHaveLength(9);
    await nthCommand(link, 9);

    await repair(plant.id);
    expect(await partner.acknowledge(bad)).toMatchObject({ status: 'ACCEPTED' });
    await nthCommand(link, 10);
    expect(commandsOf(link)).toHaveLength(10);
  });
});

describe('unusable stored data', () => {
  it('a message of a device whose secret cannot be decrypted is rejected, and the link stays open [rule 3]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'listening' });
    await rowsOf(plant.id, `UPDATE device_secret SET sealed = '9:zzzz'`);
    await evictSite(plant.id);
    const payload = telemetryMessage(gateway, '{"gridPowerKw":1}');
    link.send({ kind: 'publish', seq: 7_000, topic: 'telemetry', payload });
    expect(await link.next((frame) => frame.kind === 'refused')).toMatchObject({ seq: 7_000 });
    expect(link.closed).toBeUndefined();
  });
});

describe('a configuration that is too large for a row', () => {
  it('is rejected and not stored, and the links stay open [rule 3]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'listening' });
    const before = await readConfig(plant.id);
    const huge = { ...DEFAULT_SITE_CONFIG, junk: 'x'.repeat(1_100 * 1_024) };
    const configure = async () => await siteOf(plant.id).configure(plant.id, huge);
    await expect(configure()).rejects.toThrow('row too large');
    expect(await publish(link, telemetryMessage(gateway, '{"gridPowerKw":1}'))).toBe(true);
    expect(await readConfig(plant.id)).toEqual(before);
  });
});

describe('a failed transaction', () => {
  /** An abort sends no close frame; `received` keeps the frames sent before it. */
  async function untilAborted(link: DeviceTestLink): Promise<void> {
    expect((await link.untilClosed()).code).toBe(1006);
  }

  it.for<[string, string, number]>([
    ['the first message of a block', 'INSERT ON journal_block', 0],
    ['a later message of a block', 'UPDATE ON journal_block', 1],
  ])(
    'a failed write at %s aborts the object, and the re-send is stored once and readable [rule 3]',
    async ([_what, write, storedEvents], { listeningSite: { plant, link, gateway } }) => {
      for (let index = 0; index < storedEvents; index++)
        await publish(link, telemetryMessage(gateway, '{"fvePowerKw":1}'));
      const answersBefore = link.received.length;
      await breakWrites(plant.id, write);
      const payload = telemetryMessage(gateway, '{"gridPowerKw":42}');
      link.send({ kind: 'publish', seq: 7_000, topic: 'telemetry', payload });
      await untilAborted(link);
      expect(link.received).toHaveLength(answersBefore);

      await repair(plant.id);
      expect(await gridPowerKw(plant)).toBeNull();
      const again = await connectListening(plant);
      expect(await publish(again, payload)).toBe(true);
      expect(await publish(again, payload)).toBe(true);
      expect(await gridPowerKw(plant)).toBe(42);
      expect(await journalLines(plant, '"gridPowerKw":42')).toBe(1);
    },
  );

  it('undoes its whole batch, so that the re-send does not count as a repeat [rule 3]', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'listening' });
    await breakWrites(plant.id, 'INSERT ON dropped_message');
    const good = telemetryMessage(gateway, '{"gridPowerKw":1}');
    link.send(
      { kind: 'publish', seq: 7_001, topic: 'telemetry', payload: good },
      { kind: 'publish', seq: 7_002, topic: 'telemetry', payload: 'malformed' },
    );
    await untilAborted(link);
    await repair(plant.id);
    expect(await journalLines(plant, '"gridPowerKw"')).toBe(0);
    const again = await connectListening(plant);
    expect(await publishAll(again, [good, 'malformed'])).toEqual([true, true]);
    expect(await journalLines(plant, '"gridPowerKw"')).toBe(1);
  });

  it('rejects the submit call, and the same submission is recorded once on retry [rule 5]', async () => {
    const { plant, partner } = await setScene({ gateway: 'listening' });
    const one = submission('site-setpoint', powerSetpoint(5));
    await breakWrites(plant.id, 'INSERT ON outbox');
    await expect(partner.submit(one)).rejects.toThrow();
    await repair(plant.id);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM command')).toBe(0);

    setClock(START_MS + 1_000);
    const link = await connectListening(plant);
    expect(await partner.acknowledge(one)).toMatchObject({ status: 'ACCEPTED' });
    await partner.submit(one);
    await nthCommand(link, 1);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM command')).toBe(1);
    expect(commandsOf(link)).toHaveLength(1);
  });
});
