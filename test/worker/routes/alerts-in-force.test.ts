/** A rule is active in every Site that it concerns when its request is answered [C-9], [C-2.3]. */
import { listAlerts, listRules, makeRule } from '#workerd/alert-rest.ts';
import { statusesAt } from '#workerd/alerts.ts';
import { connect } from '#workerd/devices.ts';
import { SECOND, setClock, stopClock } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { describe, expect, test } from '#workerd/worker-test.ts';
import type { AlertRecord } from '../../../protocol/alert.ts';

/** The lane to D1 needs some turns of the event loop. */
const MAX_LOOKS = 300;

/** A plant whose gateway has sent telemetry. */
const it = test.extend('newPlant', ({ team }) => async () => {
  const { id: plantId } = await team.newPlant();
  const gateway = await team.newTokenDevice({ plantId });
  const link = await connect(gateway);
  const send = (data: object) => sendTelemetry(link, gateway, data);
  /** The alerts of the plant, newest first, when there are `count` and the newest has that status. */
  const until = async (count: number, status: string) => {
    let data: AlertRecord[] = [];
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      ({ data } = await listAlerts(team.operator, `?plantId=${plantId}`));
      if (data.length === count && data[0]?.status === status) break;
    }
    expect(data.map((alert) => alert.status)[0]).toBe(status);
    expect(data).toHaveLength(count);
    return data;
  };
  await send({ gridPowerKw: 20 });
  return { plantId, gateway, send, until };
});

describe('a rule', () => {
  it('applies to the next reading of each plant that it concerns [C-9]', async ({ team, newPlant }) => {
    const [one, other] = [await newPlant(), await newPlant()];
    const { id: ofOne } = await makeRule(team.operator, { plantId: one.plantId });
    await one.send({ gridPowerKw: 21 });
    await other.send({ gridPowerKw: 22 });
    expect(await one.until(1, 'ACTIVE')).toMatchObject([{ ruleId: ofOne, value: 21, count: 1 }]);
    const { id: ofAll } = await makeRule(team.operator, { metric: 'fvePowerKw' });
    await one.send({ fvePowerKw: 23 });
    await other.send({ fvePowerKw: 24 });
    expect((await one.until(2, 'ACTIVE')).map(({ ruleId }) => ruleId).sort()).toEqual([ofOne, ofAll].sort());
    expect(await other.until(1, 'ACTIVE')).toMatchObject([{ ruleId: ofAll, value: 24 }]);
    await team.operator.change(`/alerts/${ofAll}`, { enabled: false });
  });

  it('applies to the next reading after a change; when it is disabled, its alert is resolved [C-9]', async ({
    team,
    newPlant,
  }) => {
    const { plantId, send, until } = await newPlant();
    const { id } = await makeRule(team.operator, { plantId, threshold: 100 });
    await send({ gridPowerKw: 50 });
    await team.operator.change(`/alerts/${id}`, { threshold: 40 });
    await send({ gridPowerKw: 50 });
    expect(await until(1, 'ACTIVE')).toMatchObject([{ threshold: 40 }]);
    await team.operator.change(`/alerts/${id}`, { enabled: false });
    expect(await until(1, 'RESOLVED')).toMatchObject([{ resolvedBy: null }]);
  });

  it('for a PENDING device fires after its provisioning [C-9], [C-3.1]', async ({ team, newPlant }) => {
    const { plantId, send, until } = await newPlant();
    const { id } = await team.newDevice({ plantId });
    await makeRule(team.operator, { deviceId: id });
    await send({ fvePowerKw: 1 });
    const { security } = await team.provision(id);
    const { hmacSecret, mqttToken: token = '' } = security;
    const link = await connect({ id, token });
    await sendTelemetry(link, { id, hmacSecret }, { gridPowerKw: 30 });
    expect(await until(1, 'ACTIVE')).toMatchObject([{ deviceId: id, value: 30 }]);
  });

  it('for a device applies after a sub-device links to it [C-9], [C-3.1]', async ({ team, newPlant }) => {
    const { plantId, until } = await newPlant();
    const sensor = await team.newTokenDevice({ plantId, type: 'SENSOR' });
    await makeRule(team.operator, { deviceId: sensor.id, metric: 'powerKw' });
    await team.newSubDevice(plantId, { linkedDeviceId: sensor.id });
    const link = await connect(sensor);
    await sendTelemetry(link, sensor, { powerKw: 30 });
    const [alert] = await until(1, 'ACTIVE');
    expect(alert?.message).toContain('BESS-1/powerKw is 30');
  });
});

describe('an alert', () => {
  it('does not fire again before the cooldown has ended once a member resolved it, and then fires again [C-9]', async ({
    team,
    newPlant,
  }) => {
    const start = stopClock();
    const { plantId, send, until } = await newPlant();
    const { cooldownSeconds } = await makeRule(team.operator, { plantId });
    await send({ gridPowerKw: 20 });
    const [{ id } = { id: '' }] = await until(1, 'ACTIVE');
    await team.operator.read(`/alerts/${id}/resolve`, { method: 'POST' });
    for (const gridPowerKw of [20, 5, 20]) await send({ gridPowerKw });
    // Early enough that the cooldown does not end while the Site reports everything.
    setClock(start + (cooldownSeconds - 30) * SECOND);
    await send({ gridPowerKw: 20 });
    expect(await statusesAt(plantId)).toEqual(['RESOLVED']);
    expect(await until(1, 'RESOLVED')).toMatchObject([{ id, resolvedBy: team.operator.id, count: 1 }]);
    setClock(start + cooldownSeconds * SECOND);
    await send({ gridPowerKw: 20 });
    expect(await statusesAt(plantId)).toEqual(['RESOLVED', 'ACTIVE']);
  });

  it('is resolved when its plant is deleted with its rules [C-9]', async ({ team, newPlant }) => {
    const { plantId, gateway, send, until } = await newPlant();
    const { id: ruleId } = await makeRule(team.operator, { plantId });
    await send({ gridPowerKw: 20 });
    const [{ id } = { id: '' }] = await until(1, 'ACTIVE');
    await team.admin.remove(`/devices/${gateway.id}`);
    await team.operator.remove(`/plants/${plantId}`);
    expect(await until(1, 'RESOLVED')).toMatchObject([{ id, ruleId, resolvedBy: null }]);
    const rules = await listRules(team.operator, '&limit=100');
    expect(rules.data.filter((rule) => rule.id === ruleId)).toEqual([]);
    await team.operator.change(`/alerts/${id}`, { note: 'plant sold' });
  });

  it('is resolved when its device moves or is deleted, and can fire at its new plant [C-9]', async ({
    team,
    newPlant,
  }) => {
    const [from, to] = [await newPlant(), await newPlant()];
    const sensor = await team.newTokenDevice({ plantId: from.plantId, type: 'SENSOR' });
    await makeRule(team.operator, { deviceId: sensor.id, metric: 'heat' });
    const link = await connect(sensor);
    await sendTelemetry(link, sensor, { heat: 90 });
    await from.until(1, 'ACTIVE');
    await team.operator.change(`/devices/${sensor.id}`, { plantId: to.plantId });
    await from.until(1, 'RESOLVED');
    const again = await connect(sensor);
    await sendTelemetry(again, sensor, { heat: 91 });
    await to.until(1, 'ACTIVE');
    await team.admin.remove(`/devices/${sensor.id}`);
    await to.until(1, 'RESOLVED');
  });
});
