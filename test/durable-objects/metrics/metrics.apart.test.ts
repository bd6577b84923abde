/**
 * The edge's metrics, from the objects that count to the scrape: nothing counted twice, nothing lost, and no
 * object waits for them.
 */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { figure, metricsStub } from '#workerd/metrics.ts';
import { hand, passingEvents } from '#workerd/outbox-events.ts';
import { charge as chargePayload } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import {
  DAY,
  HOUR,
  holdClock,
  MINUTE,
  passTime,
  passVhostTime,
  SECOND,
  setClock,
  vhostAlarmAt,
} from '#workerd/site-clock.ts';
import { nthCommand, publish, rawTelemetry, sendAck, sendTelemetry } from '#workerd/site-devices.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { batch, batteryCommand, charge, submission } from '#workerd/site-submissions.ts';
import { type Key, vhostOf } from '#workerd/world.ts';
import { METRICS_BOUNDS } from '../../../durable-objects/metrics/ledger.ts';
import { anyCounting } from '../../../durable-objects/metrics/report.ts';
import { Metrics } from '../../../durable-objects/metrics.ts';

holdClock();

// The metrics object's clock never goes back, and each test begins at the same moment.
beforeEach(async () => {
  await metricsStub().expose('', []);
  await evictDurableObject(metricsStub());
});

/** The metrics of one queue of a key. */
async function ofQueue(name: string, key: Key, queue: string, more: Record<string, string> = {}) {
  return await figure(name, { key: key.id, queue, ...more });
}

async function untilFigure(
  read: () => Promise<number | undefined>,
  value: number | undefined,
): Promise<void> {
  await vi.waitFor(async () => expect(await read()).toBe(value), 5_000);
}

describe('a queue in the metrics', () => {
  it('appears a minute later if it filled quickly and then does not change, with its depth and age, though its vhost sleeps', async () => {
    const { key, siteId, partner, organization, leave } = await setScene({ partner: 'connected' });
    await hand(key, siteId, 1, 7, { kind: 'alarm' });
    await leave();
    await passVhostTime(key, MINUTE);
    const queue = partner.queueName('event.alarm');
    await untilFigure(() => ofQueue('queue_messages', key, queue, { state: 'ready' }), 7);
    setClock(Date.now() + HOUR);
    // The clock moves on a little while a test waits.
    const ageS = (await ofQueue('queue_oldest_message_age_seconds', key, queue)) ?? 0;
    expect(Math.floor(ageS / 60)).toBe(61);
    expect(await figure('queue_messages', { organization: organization.slug, key: key.id })).toBe(7);
  });

  it('counts a delivered message as unacked until its acknowledgement, then returns to 0, with its age', async () => {
    const { key, siteId, partner } = await setScene({ partner: 'connected' });
    const queue = partner.queueName('event.status');
    const read = async () => [
      await ofQueue('queue_messages', key, queue, { state: 'ready' }),
      await ofQueue('queue_messages', key, queue, { state: 'unacked' }),
      await ofQueue('queue_oldest_message_age_seconds', key, queue),
    ];
    await hand(key, siteId, 1, 5);
    await partner.consume('event.status', { prefetch: 3 });
    const held = await partner.delivered(3);
    await partner.quiet();
    await passVhostTime(key, MINUTE);
    await vi.waitFor(async () => expect(await read()).toEqual([2, 3, expect.closeTo(60, -1)]), 5_000);
    partner.settle('ack', held);
    partner.settle('ack', (await partner.delivered(5)).slice(3));
    await vi.waitFor(async () => expect(await partner.readyCount('event.status')).toBe(0));
    await partner.quiet();
    await passVhostTime(key, 2 * MINUTE);
    await vi.waitFor(async () => expect(await read()).toEqual([0, 0, 0]), 5_000);
  });

  it('appears also when it is the telemetry queue; partner queues are one series', async () => {
    const { key, siteId, partner, organization } = await setScene({ partner: 'connected' });
    const pattern = `${organization.slug}.event.telemetry`;
    for (const queue of ['mine "1"', 'mine 2']) {
      await partner.declare(queue);
      await partner.ask({ kind: 'bind', queue, pattern });
    }
    await vhostOf(key.id).receivePassing(siteId, passingEvents(1, 4));
    await passVhostTime(key, MINUTE);
    for (const [queue, ready] of [
      [partner.queueName('event.telemetry'), 4],
      ['own', 8],
    ] as const) {
      await untilFigure(() => ofQueue('queue_messages', key, queue, { state: 'ready' }), ready);
      expect(await ofQueue('queue_oldest_message_age_seconds', key, queue)).toBeCloseTo(60, -1);
    }
  });

  it('counts the messages that it gave up by reason: too old, delivered too often, rejected', async () => {
    const { key, partner } = await setScene({ partner: 'connected', events: 3 });
    const [first] = [(await partner.get('event.status')).delivery];
    partner.settle('discard', first ? [first] : []);
    await partner.quiet();
    for (let time = 0; time < 20; time++) {
      const { delivery } = await partner.get('event.status');
      partner.settle('requeue', delivery ? [delivery] : []);
    }
    await partner.quiet();
    expect((await partner.get('event.status')).delivery).not.toBeNull();
    partner.link.socket.close();
    await passVhostTime(key, 8 * DAY);
    const queue = partner.queueName('event.status');
    await vi.waitFor(async () => {
      const drops = await Promise.all(
        ['limit', 'age', 'deliveries', 'rejected'].map((reason) =>
          ofQueue('queue_dropped_messages_total', key, queue, { reason }),
        ),
      );
      expect(drops).toEqual([0, 1, 1, 1]);
    }, 5_000);
  });

  it('disappears when its key is revoked', async () => {
    const { key } = await setScene({ partner: 'connected', events: 2 });
    await passVhostTime(key, MINUTE);
    await untilFigure(() => figure('queue_messages', { key: key.id }), 2);
    await vhostOf(key.id).revoke();
    await passVhostTime(key, 2 * MINUTE);
    await untilFigure(() => figure('queue_messages', { key: key.id }), undefined);
  });

  it('whose messages are acknowledged as they arrive makes its vhost send no report and set no alarm for a report', async () => {
    const { key, siteId, partner } = await setScene({ consumes: 'event.status' });
    await passVhostTime(key, 61 * SECOND);
    // The client shows a sign of life, or the vhost would send it nothing.
    await partner.quiet();
    const report = vi.spyOn(Metrics.prototype, 'report');
    const before = await vhostAlarmAt(key);
    for (let index = 1; index <= 5; index++) {
      await hand(key, siteId, index, 1);
      partner.settle('ack', (await partner.delivered(index)).slice(-1));
      await partner.quiet();
      expect(await vhostAlarmAt(key)).toBe(before);
    }
    await passVhostTime(key, 90 * SECOND);
    expect(report).not.toHaveBeenCalled();
  });
});

describe('commands in the metrics', () => {
  it('are counted by acknowledgement; one that the vhost submits again under its publishId counts once', async () => {
    const { plant, partner } = await setScene({ plant: true, key: true });
    const REJECTED = { status: 'REJECTED', code: 'INVALID_COMMAND' };
    const before = [
      (await figure('command_acknowledgements_total', REJECTED)) ?? 0,
      (await figure('command_acknowledgements_total', { status: 'QUEUED' })) ?? 0,
      (await figure('command_acknowledgements_total')) ?? 0,
    ];
    const wrong = submission('device', batch(batteryCommand(5, { deviceId: 'nobody' })), {
      publishId: 'p|1',
    });
    for (let time = 0; time < 3; time++) {
      expect(await partner.acknowledge(wrong)).toMatchObject({ status: 'REJECTED' });
    }
    const { rejectionCode = '' } = await partner.acknowledge(wrong);
    await partner.submit(charge());
    // The site reports with its next alarm what it has counted since its first report.
    await passTime(plant.id, 5 * SECOND);
    await evictSite(plant.id);
    await passTime(plant.id, 2 * MINUTE);
    await vi.waitFor(async () => {
      const after = [
        await figure('command_acknowledgements_total', { status: 'REJECTED', code: rejectionCode }),
        await figure('command_acknowledgements_total', { status: 'QUEUED' }),
        await figure('command_acknowledgements_total'),
      ];
      expect(after).toEqual([(before[0] ?? 0) + 1, (before[1] ?? 0) + 1, (before[2] ?? 0) + 2]);
    }, 5_000);
  });

  it('go to counting objects, and not to the metrics object, from a site and from a vhost', async () => {
    const { plant, partner } = await setScene({ plant: true, key: true });
    const vhost = await setScene({ plant: true, partner: 'connected' });
    const own = await metricsStub().totals();
    const before = (await figure('command_acknowledgements_total')) ?? 0;
    await partner.submit(charge());
    await vhost.partner.ask(vhost.partner.command(crypto.randomUUID(), 'device', chargePayload()));
    await passTime(plant.id, MINUTE);
    await passVhostTime(vhost.key, MINUTE);
    await untilFigure(() => figure('command_acknowledgements_total'), before + 2);
    expect(await metricsStub().totals()).toEqual(own);
  });

  it('count as a FAILED execution and as a COMMAND_EXPIRED alarm if they expire', async () => {
    const { plant, partner } = await setScene({ plant: true, key: true });
    const [failed, expired] = [
      (await figure('executions_total', { status: 'FAILED' })) ?? 0,
      (await figure('alarms_raised_total', { type: 'COMMAND_EXPIRED' })) ?? 0,
    ];
    await partner.submit(charge());
    await passTime(plant.id, 20 * MINUTE);
    await untilFigure(() => figure('executions_total', { status: 'FAILED' }), failed + 1);
    expect(await figure('alarms_raised_total', { type: 'COMMAND_EXPIRED' })).toBe(expired + 1);
  });

  it('for an unknown site are counted as DEVICE_OFFLINE rejections, by their vhost', async () => {
    const { partner, key } = await setScene({ plant: true, partner: 'connected' });
    const OFFLINE = { status: 'REJECTED', code: 'DEVICE_OFFLINE' };
    const before = (await figure('command_acknowledgements_total', OFFLINE)) ?? 0;
    await partner.ask(partner.command(crypto.randomUUID(), 'device', chargePayload()));
    await passVhostTime(key, MINUTE);
    await untilFigure(() => figure('command_acknowledgements_total', OFFLINE), before + 1);
  });
});

describe('messages of devices in the metrics', () => {
  it('are counted by reason if they are dropped: one with a wrong signature adds one to SIGNATURE', async () => {
    const { plant, gateway, link } = await setScene({ gateway: 'listening' });
    const dropped = (reason: string) => figure('device_dropped_messages_total', { reason });
    const [signature, malformed] = [(await dropped('SIGNATURE')) ?? 0, (await dropped('MALFORMED')) ?? 0];
    await sendTelemetry(link, gateway, { gridPowerKw: 1 });
    await publish(link, rawTelemetry(gateway, { data: '{"gridPowerKw":3}', sig: '0'.repeat(64) }));
    await publish(link, 'not JSON');
    await passTime(plant.id, 5 * SECOND);
    // The counts arrive in order: after the last one, none is still missing.
    await untilFigure(() => dropped('MALFORMED'), malformed + 1);
    expect(await dropped('SIGNATURE')).toBe(signature + 1);
  });
});

describe('the metrics object', () => {
  it('keeps the scraped values after a restart: no counter goes back, and an unchanged queue is still listed', async () => {
    const { plant, partner } = await setScene({ plant: true, key: true });
    await partner.submit(charge());
    await passTime(plant.id, 2 * MINUTE);
    const { key } = await setScene({ partner: 'connected', events: 3 });
    await passVhostTime(key, MINUTE);
    await untilFigure(() => figure('queue_messages', { key: key.id }), 3);
    const total = async () => await figure('command_acknowledgements_total');
    const before = await total();
    await evictDurableObject(metricsStub());
    expect([await total(), await figure('queue_messages', { key: key.id })]).toEqual([before, 3]);
  });

  it('stores unscraped counts in an alarm within ten seconds, so they survive a restart', async () => {
    const before = (await figure('http_answers_total', { code: '418' })) ?? 0;
    await metricsStub().add({ 'answers/418': 2 });
    const storesAtMs = await runInDurableObject(metricsStub(), (_metrics, { storage }) => storage.getAlarm());
    expect((storesAtMs ?? Number.POSITIVE_INFINITY) - Date.now()).toBeLessThan(10 * SECOND);
    await runDurableObjectAlarm(metricsStub());
    await evictDurableObject(metricsStub());
    expect(await figure('http_answers_total', { code: '418' })).toBe(before + 2);
  });

  it('is called by no object for its counts: several others have them, a scrape adds and stores them', async () => {
    const read = () => figure('http_answers_total', { code: '418' });
    const before = (await read()) ?? 0;
    const { add } = Metrics.prototype;
    const own = vi.spyOn(Metrics.prototype, 'add');
    const called = new Set<unknown>();
    own.mockImplementation(function (this: Metrics, counts) {
      called.add(this);
      add.call(this, counts);
    });
    for (let time = 0; time < 60; time++) await anyCounting(env).add({ 'answers/418': 1 });
    own.mockRestore();
    expect(called.size).toBeGreaterThan(1);
    expect(await read()).toBe(before + 60);
    const isMain = async () => await runInDurableObject(metricsStub(), (metrics) => called.has(metrics));
    expect(await isMain()).toBe(false);
    for (let index = 0; index < 8; index++)
      await evictDurableObject(env.METRICS.get(env.METRICS.idFromName(`counts-${index}`)));
    expect(await read()).toBe(before + 60);
  });

  it('still answers at its maximum number of objects, leaves out a further object, and accepts it a day later [rule 9]', async () => {
    await metricsStub().add({ 'answers/418': 1 });
    const before = (await figure('http_answers_total', { code: '418' })) ?? 0;
    const leftOut = (await figure('metrics_left_out_total', { what: 'report' })) ?? 0;
    await runInDurableObject(metricsStub(), (_metrics, { storage }) => {
      const { count } = storage.sql.exec<{ count: number }>('SELECT count(*) AS count FROM reporter').one();
      storage.sql.exec(
        `INSERT INTO reporter (object, class, seen_ms)
           WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
           SELECT printf('filled-%058d', i), 'Site', ? FROM n`,
        METRICS_BOUNDS.objects - count,
        Date.now(),
      );
    });
    await evictDurableObject(metricsStub());
    const more = { object: 'one more', class: 'Site', atMs: 1 } as const;
    await metricsStub().report(more);
    const read = async () => [
      await figure('http_answers_total', { code: '418' }),
      await figure('metrics_left_out_total', { what: 'report' }),
    ];
    expect(await read()).toEqual([before, leftOut + 1]);
    await evictDurableObject(metricsStub());
    expect(await read()).toEqual([before, leftOut + 1]);
    // After a day the metrics object forgets them and has room again.
    setClock(Date.now() + 25 * HOUR);
    expect(await figure('objects_awake', { class: 'Site' })).toBe(0);
    await metricsStub().report(more);
    expect(await read()).toEqual([before, leftOut + 1]);
    expect(await figure('objects_awake', { class: 'Site' })).toBe(1);
  });

  it('counts an object as awake for five minutes after its last report, even when the metrics object itself slept', async () => {
    const { plant, link, gateway } = await setScene({ gateway: 'listening' });
    // Other tests used other times.
    await runInDurableObject(metricsStub(), (_metrics, { storage }) => {
      storage.sql.exec('UPDATE reporter SET seen_ms = 0');
    });
    await evictDurableObject(metricsStub());
    expect(await figure('objects_awake', { class: 'Site' })).toBe(0);
    for (let minute = 0; minute < 6; minute++) {
      await sendTelemetry(link, gateway, { gridPowerKw: minute });
      await passTime(plant.id, MINUTE);
    }
    await untilFigure(() => figure('objects_awake', { class: 'Site' }), 1);
    // Nothing calls the metrics object between two scrapes.
    await evictDurableObject(metricsStub());
    expect(await figure('objects_awake', { class: 'Site' })).toBe(1);
    setClock(Date.now() + 5 * MINUTE);
    expect(await figure('objects_awake', { class: 'Site' })).toBe(0);
  });

  it('gets two to four reports in ten minutes from a site that works continuously, and all of its counts', async () => {
    const report = vi.spyOn(Metrics.prototype, 'report');
    const add = vi.spyOn(Metrics.prototype, 'add');
    const { plant, partner, link, gateway } = { ...(await setScene({ gateway: 'listening' })) };
    report.mockClear();
    add.mockClear();
    for (let second = 0; second < 600; second += 5) {
      await partner.submit(charge(1 + (second % 5)));
      await sendTelemetry(link, gateway, { gridPowerKw: second });
      await passTime(plant.id, 5 * SECOND);
    }
    expect(report.mock.calls.length).toBeGreaterThanOrEqual(2);
    expect(report.mock.calls.length).toBeLessThanOrEqual(4);
    const counted = add.mock.calls.map(([counts]) => counts['acknowledgements/ACCEPTED/'] ?? 0);
    expect(counted.reduce((sum, by) => sum + by, 0)).toBe(120);
  });
});

describe('a failing metrics object', () => {
  const hung = Promise.withResolvers<void>();

  it.each([
    ['does not answer', () => hung.promise],
    ['throws', () => Promise.reject(new Error('metrics are broken'))],
  ])(
    'does not stop commands, events or alarms if it %s, and receives the counts when it works again',
    async (_title, answer) => {
      vi.spyOn(console, 'warn').mockReturnValue(undefined);
      const report = vi.spyOn(Metrics.prototype, 'report').mockImplementation(answer as () => never);
      const add = vi.spyOn(Metrics.prototype, 'add').mockImplementation(answer as () => never);
      const { plant, gateway, partner, link } = await setScene({ gateway: 'listening' });
      const executed = (await figure('executions_total', { status: 'COMPLETED' })) ?? 0;
      for (let n = 1; n <= 3; n++) {
        expect(await partner.acknowledge(charge(n))).toMatchObject({ status: 'ACCEPTED' });
        await sendAck(link, gateway, (await nthCommand(link, n)).cmdId, 'COMPLETED');
        await passTime(plant.id, MINUTE);
      }
      expect(report).toHaveBeenCalled();
      expect(add).toHaveBeenCalled();
      // The same for a vhost: events arrive and leave while its reports fail.
      const scene = await setScene({ partner: 'connected' });
      await hand(scene.key, scene.siteId, 1, 3);
      await passVhostTime(scene.key, 2 * MINUTE);
      await scene.partner.consume('event.status');
      expect(await scene.partner.delivered(3)).toHaveLength(3);
      expect(await figure('executions_total', { status: 'COMPLETED' })).toBe(executed);
      report.mockRestore();
      add.mockRestore();
      // The call to an object that does not answer times out by a real clock; its counts go with the next
      // report.
      const untilReported = async () => {
        await passTime(plant.id, 2 * MINUTE);
        await partner.submit(charge());
        expect(await figure('executions_total', { status: 'COMPLETED' })).toBe(executed + 3);
      };
      await vi.waitFor(untilReported, { timeout: 10_000, interval: 500 });
      hung.resolve();
    },
  );
});
