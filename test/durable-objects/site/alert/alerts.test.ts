/**
 * How a Site evaluates alert rules: comparisons with each reading, absence by its agenda. D1 stores the
 * alerts [C-9].
 */
import { firedAt, newRuledSite, putRule, statusesAt } from '#workerd/alerts.ts';
import { connectDevice } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { MINUTE, SECOND, START_MS } from '#workerd/site-clock.ts';
import { connectTo, publishAll, rawTelemetry, sendTelemetry } from '#workerd/site-devices.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, createLinked } from '#workerd/world.ts';
import type { AlertOperator } from '../../../../protocol/alert.ts';

describe('a rule with a comparison operator', () => {
  it.each<[AlertOperator, met: number, unmet: number, message: string]>([
    ['GT', 10.5, 10, 'gridPowerKw is 10.5, over 10'],
    ['GTE', 10, 9.5, 'gridPowerKw is 10, at or over 10'],
    ['LT', 9.5, 10, 'gridPowerKw is 9.5, under 10'],
    ['LTE', 10, 10.5, 'gridPowerKw is 10, at or under 10'],
    ['EQ', 10, 9.5, 'gridPowerKw is 10, equal to 10'],
    ['NE', 9.5, 10, 'gridPowerKw is 9.5, not 10'],
  ])(
    'a rule with the operator %s fires once, with the first reading that meets it [C-9]',
    async (operator, met, unmet, message) => {
      const { organization, plant, ruleId, send, pass, fired } = await newRuledSite({ operator });
      await send(unmet);
      expect(await fired()).toEqual([]);
      await pass(10 * SECOND);
      const firedAtMs = Date.now();
      for (let time = 0; time < 3; time++) await send(met);
      expect(await fired()).toEqual([
        {
          id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          organizationId: organization.id,
          ruleId,
          plantId: plant.id,
          deviceId: null,
          type: 'THRESHOLD',
          severity: 'WARNING',
          status: 'ACTIVE',
          message: `Rule: ${message}`,
          value: met,
          threshold: 10,
          firstSeenAtMs: firedAtMs,
          lastSeenAtMs: firedAtMs,
          count: 1,
          note: null,
          acknowledgedBy: null,
          acknowledgedAtMs: null,
          resolvedBy: null,
          resolvedAtMs: null,
        },
      ]);
    },
  );

  it('a rule with forSeconds fires after its condition was true that long, and its alert starts when it became true [C-9]', async () => {
    const { send, pass, fired } = await newRuledSite({ forSeconds: 60 });
    await send(20);
    await pass(MINUTE - 1);
    await send(21);
    expect(await fired()).toEqual([]);
    await pass(START_MS + MINUTE - Date.now());
    await send(22);
    expect(await fired()).toMatchObject([{ status: 'ACTIVE', value: 22, firstSeenAtMs: START_MS }]);
  });

  it('an alert ends after its condition was false for forSeconds, without another reading [C-9]', async () => {
    const { plant, send, pass, fired } = await newRuledSite({ forSeconds: 60 });
    await send(20);
    await pass(MINUTE);
    await send(20);
    await pass(30 * SECOND);
    const goneMs = Date.now();
    await send(5);
    await pass(MINUTE - 1);
    expect(await statusesAt(plant.id)).toEqual(['ACTIVE']);
    await pass(1);
    expect(await fired()).toMatchObject([
      { status: 'RESOLVED', resolvedBy: null, lastSeenAtMs: goneMs, resolvedAtMs: goneMs + MINUTE },
    ]);
  });

  it('an open alert counts each return of its condition, and the rule opens no other alert [C-9]', async () => {
    const { send, pass, fired } = await newRuledSite({ forSeconds: 120 });
    await send(20);
    await pass(2 * MINUTE);
    await send(20);
    for (let time = 0; time < 2; time++) {
      await pass(MINUTE);
      await send(5);
      await pass(MINUTE);
      await send(30 + time);
    }
    expect(await fired()).toMatchObject([
      { status: 'ACTIVE', count: 3, value: 31, firstSeenAtMs: START_MS, lastSeenAtMs: START_MS + 6 * MINUTE },
    ]);
  });

  it('a rule evaluates the newest reading of a batch and ignores readings older than the latest known one [C-3.13]', async () => {
    const { link, gateway, send, sendLate, fired } = await newRuledSite();
    await send(5);
    await sendLate(20, MINUTE);
    expect(await fired()).toEqual([]);
    const gridReading = (gridPowerKw: number, ageMs: number) =>
      rawTelemetry(gateway, { ts: Date.now() - ageMs, data: JSON.stringify({ gridPowerKw }) });
    await publishAll(link, [gridReading(30, SECOND), gridReading(20, 0), gridReading(5, 2 * SECOND)]);
    await sendLate(5, MINUTE);
    expect(await fired()).toMatchObject([{ status: 'ACTIVE', value: 20 }]);
  });
});

describe('an ABSENT rule', () => {
  const ABSENT = { operator: 'ABSENT' } as const;

  it('fires by the agenda when no reading arrived for forSeconds, counted from the last reading [C-9]', async () => {
    const { plant, send, pass, fired } = await newRuledSite(ABSENT);
    await pass(4 * MINUTE);
    const firstSeenAtMs = Date.now();
    await send(5);
    await pass(5 * MINUTE - 1);
    expect(await fired()).toEqual([]);
    await pass(firstSeenAtMs + 5 * MINUTE - Date.now());
    expect(await fired()).toMatchObject([
      {
        type: 'ABSENT',
        status: 'ACTIVE',
        message: 'Rule: no gridPowerKw received for 300 s',
        value: null,
        threshold: null,
        firstSeenAtMs,
        lastSeenAtMs: firstSeenAtMs + 5 * MINUTE,
      },
    ]);
    await pass(60 * MINUTE);
    expect(await statusesAt(plant.id)).toEqual(['ACTIVE']);
  });

  it('for a metric that never arrived fires forSeconds after its creation, whatever other metrics arrive [C-9]', async () => {
    const { plant, send, pass, fired } = await newRuledSite({ ...ABSENT, metric: 'BESS-1/socPercent' });
    await send(5);
    await pass(4 * MINUTE);
    await send(5);
    expect(await fired()).toEqual([]);
    await pass(START_MS + 5 * MINUTE - Date.now());
    expect(await statusesAt(plant.id)).toEqual(['ACTIVE']);
  });

  it('ends its alert after readings arrived for forSeconds; if they stop earlier, the count of the alert rises [C-9]', async () => {
    const { plant, send, pass, fired } = await newRuledSite(ABSENT);
    await send(5);
    await pass(10 * MINUTE);
    await send(5);
    await pass(5 * MINUTE + SECOND);
    expect(await fired()).toMatchObject([{ status: 'ACTIVE', count: 2 }]);
    const backMs = Date.now();
    for (let minute = 0; minute < 5; minute++) {
      await send(5);
      await pass(backMs + (minute + 1) * MINUTE - 1 - Date.now());
    }
    expect(await statusesAt(plant.id)).toEqual(['ACTIVE']);
    await pass(SECOND);
    expect(await fired()).toMatchObject([
      {
        status: 'RESOLVED',
        count: 2,
        resolvedBy: null,
        lastSeenAtMs: backMs,
        resolvedAtMs: backMs + 5 * MINUTE,
      },
    ]);
  });

  it('uses the receive time of readings, even if an earlier one was dated ahead [C-3.13]', async () => {
    const { plant, send, sendLate, pass, fired } = await newRuledSite({ ...ABSENT, forSeconds: 60 });
    await sendLate(5, -4 * MINUTE);
    await pass(MINUTE);
    expect(await statusesAt(plant.id)).toEqual(['ACTIVE']);
    const backMs = START_MS + 2 * MINUTE;
    await pass(backMs - Date.now());
    await send(5);
    await pass(50 * SECOND);
    await send(5);
    await pass(10 * SECOND);
    expect(await fired()).toMatchObject([{ status: 'RESOLVED', count: 1, resolvedAtMs: backMs + MINUTE }]);
  });
});

describe('a rule for the whole organization', () => {
  it('has one open alert for each plant of the organization, each with its own end, and none for other plants [C-9]', async () => {
    const { organization, plant, link, gateway } = await setScene({ gateway: 'connected' });
    const { plant: other, link: otherLink } = await setScene({ organization, gateway: 'connected' });
    const ruleId = await putRule(organization, [plant.id, other.id]);
    const foreign = await setScene({ gateway: 'connected' });
    for (let time = 0; time < 2; time++) {
      await sendTelemetry(link, gateway, { gridPowerKw: 20 });
      await sendTelemetry(otherLink, other.gateway, { gridPowerKw: 30 });
      await sendTelemetry(foreign.link, foreign.gateway, { gridPowerKw: 40 });
    }
    await sendTelemetry(link, gateway, { gridPowerKw: 5 });
    expect(await firedAt(plant.id)).toMatchObject([{ ruleId, plantId: plant.id, status: 'RESOLVED' }]);
    expect(await firedAt(other.id)).toMatchObject([{ ruleId, plantId: other.id, status: 'ACTIVE' }]);
    expect(await firedAt(foreign.plant.id)).toEqual([]);
  });
});

describe('a rule for a device', () => {
  it('a device rule matches the metric names that the device uses, and ignores those of other devices [C-9], [C-3.1]', async () => {
    const { organization, plant } = await setScene({ plant: true });
    const linked = await createLinked(organization, plant.id, { externalId: 'FVE-2', assetType: 'FVE' });
    const loose = await createDevice(organization, plant.id, 'SENSOR');
    const gatewayLink = await connectDevice(plant);
    const linkedLink = await connectTo(plant.id, linked.id);
    const looseLink = await connectTo(plant.id, loose.id);
    const rule = { metric: 'powerKw', cooldownSeconds: 60 };
    await putRule(organization, [plant.id], { ...rule, deviceId: linked.id });
    await putRule(organization, [plant.id], { ...rule, deviceId: loose.id });
    await sendTelemetry(gatewayLink, plant.gateway, { powerKw: 20, 'FVE-1/powerKw': 20 });
    expect(await firedAt(plant.id)).toEqual([]);
    await sendTelemetry(linkedLink, linked, { powerKw: 30 });
    const [first] = await firedAt(plant.id);
    expect(first).toMatchObject({
      deviceId: linked.id,
      plantId: plant.id,
      message: 'Rule: FVE-2/powerKw is 30, over 10',
    });
    await sendTelemetry(looseLink, loose, { powerKw: 40 });
    const [, second] = await firedAt(plant.id);
    expect(second).toMatchObject({ deviceId: loose.id, value: 40 });
  });
});
