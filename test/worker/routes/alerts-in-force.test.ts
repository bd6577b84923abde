/** A rule is in force when its request answers, in each Site that it is about; so is what somebody resolves [C-9], [C-2.3]. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { AlertRecord, AlertRuleRecord } from '../../../protocol/alert.ts';
import type { Page } from '../../../protocol/page.ts';
import { connect, newTokenDevice, postDevice, provision } from '../../support/workerd/devices.ts';
import { postPlant, postSubDevice } from '../../support/workerd/fleet.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { sendTelemetry } from '../../support/workerd/site-devices.ts';
import { siteOf } from '../../support/workerd/world.ts';

const RULE = { name: 'Rule', severity: 'INFO', metric: 'gridPowerKw', operator: 'GT', threshold: 10 };
/** The lane to D1 needs some turns of the event loop. */
const MAX_LOOKS = 300;

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

async function makeRule(fields: object): Promise<AlertRuleRecord> {
  return await team.viewer.read('/alerts', { method: 'POST', body: { ...RULE, ...fields } }, 201);
}

async function patchRule(id: string, body: object): Promise<void> {
  await team.viewer.read(`/alerts/${id}`, { method: 'PATCH', body });
}

/** The alerts of a plant, newest first, once there are so many and the newest has that status. */
async function until(plantId: string, count: number, status: string): Promise<AlertRecord[]> {
  let data: AlertRecord[] = [];
  for (let looks = 0; looks < MAX_LOOKS; looks++) {
    ({ data } = await team.viewer.read<Page<AlertRecord>>(`/alerts?plantId=${plantId}`));
    if (data.length === count && data[0]?.status === status) break;
  }
  expect(data.map((alert) => alert.status)[0]).toBe(status);
  expect(data).toHaveLength(count);
  return data;
}

/** A plant whose gateway has told of it already. */
async function newPlant() {
  const { id: plantId } = await postPlant(team.operator);
  const gateway = await newTokenDevice(team, { plantId });
  const link = await connect(gateway);
  await sendTelemetry(link, gateway, { gridPowerKw: 20 });
  return { plantId, gateway, send: (data: object) => sendTelemetry(link, gateway, data) };
}

describe('a rule', () => {
  it('is judged by the very next reading, about a plant or about all [C-9]', async () => {
    const [one, other] = [await newPlant(), await newPlant()];
    const { id: ofOne } = await makeRule({ plantId: one.plantId });
    await one.send({ gridPowerKw: 21 });
    await other.send({ gridPowerKw: 22 });
    expect(await until(one.plantId, 1, 'ACTIVE')).toMatchObject([{ ruleId: ofOne, value: 21, count: 1 }]);
    const { id: ofAll } = await makeRule({ metric: 'fvePowerKw' });
    await one.send({ fvePowerKw: 23 });
    await other.send({ fvePowerKw: 24 });
    expect((await until(one.plantId, 2, 'ACTIVE')).map(({ ruleId }) => ruleId).sort()).toEqual(
      [ofOne, ofAll].sort(),
    );
    expect(await until(other.plantId, 1, 'ACTIVE')).toMatchObject([{ ruleId: ofAll, value: 24 }]);
    await patchRule(ofAll, { enabled: false });
  });

  it('that is changed is judged so by the very next reading, and one that is disabled ends [C-9]', async () => {
    const { plantId, send } = await newPlant();
    const { id } = await makeRule({ plantId, threshold: 100 });
    await send({ gridPowerKw: 50 });
    await patchRule(id, { threshold: 40 });
    await send({ gridPowerKw: 50 });
    expect(await until(plantId, 1, 'ACTIVE')).toMatchObject([{ threshold: 40 }]);
    await patchRule(id, { enabled: false });
    expect(await until(plantId, 1, 'RESOLVED')).toMatchObject([{ resolvedBy: null }]);
  });

  it('about a device that has no credentials yet fires once it has them and speaks [C-9], [C-3.1]', async () => {
    const { plantId, send } = await newPlant();
    const { id } = await postDevice(team.operator, { plantId });
    await makeRule({ deviceId: id });
    await send({ fvePowerKw: 1 });
    const { security } = await provision(team, id);
    const { hmacSecret, mqttToken: token = '' } = security;
    const link = await connect({ id, token });
    await sendTelemetry(link, { id, hmacSecret }, { gridPowerKw: 30 });
    expect(await until(plantId, 1, 'ACTIVE')).toMatchObject([{ deviceId: id, value: 30 }]);
  });

  it('about a device goes by its names when it is linked to a part of the plant later [C-9], [C-3.1]', async () => {
    const { plantId } = await newPlant();
    const sensor = await newTokenDevice(team, { plantId, type: 'SENSOR' });
    await makeRule({ deviceId: sensor.id, metric: 'powerKw' });
    await postSubDevice(team.operator, plantId, { linkedDeviceId: sensor.id });
    const link = await connect(sensor);
    await sendTelemetry(link, sensor, { powerKw: 30 });
    const [alert] = await until(plantId, 1, 'ACTIVE');
    expect(alert?.message).toContain('BESS-1/powerKw is 30');
  });
});

describe('an alert', () => {
  it('that somebody resolved is followed by no other before the cooldown [C-9]', async () => {
    const { plantId, send } = await newPlant();
    await makeRule({ plantId });
    await send({ gridPowerKw: 20 });
    const [{ id } = { id: '' }] = await until(plantId, 1, 'ACTIVE');
    await team.viewer.read(`/alerts/${id}/resolve`, { method: 'POST' });
    for (const gridPowerKw of [20, 5, 20]) await send({ gridPowerKw });
    await siteOf(plantId).readLatestTelemetry(plantId);
    expect(await until(plantId, 1, 'RESOLVED')).toMatchObject([{ id, resolvedBy: team.viewer.id, count: 1 }]);
  });

  it('of a plant that is deleted ends, its rules go, and it can still be read and noted [C-9]', async () => {
    const { plantId, gateway, send } = await newPlant();
    const { id: ruleId } = await makeRule({ plantId });
    await send({ gridPowerKw: 20 });
    const [{ id } = { id: '' }] = await until(plantId, 1, 'ACTIVE');
    await team.admin.read(`/devices/${gateway.id}`, { method: 'DELETE' });
    await team.operator.read(`/plants/${plantId}`, { method: 'DELETE' });
    expect(await until(plantId, 1, 'RESOLVED')).toMatchObject([{ id, ruleId, resolvedBy: null }]);
    const rules = await team.viewer.read<Page<AlertRuleRecord>>('/alerts?kind=RULE&limit=100');
    expect(rules.data.filter((rule) => rule.id === ruleId)).toEqual([]);
    await patchRule(id, { note: 'plant sold' });
  });

  it('of a device that is deleted or moved away ends with it, and its rule is judged where it is now [C-9]', async () => {
    const [from, to] = [await newPlant(), await newPlant()];
    const sensor = await newTokenDevice(team, { plantId: from.plantId, type: 'SENSOR' });
    await makeRule({ deviceId: sensor.id, metric: 'heat' });
    const link = await connect(sensor);
    await sendTelemetry(link, sensor, { heat: 90 });
    await until(from.plantId, 1, 'ACTIVE');
    await team.operator.read(`/devices/${sensor.id}`, { method: 'PATCH', body: { plantId: to.plantId } });
    await until(from.plantId, 1, 'RESOLVED');
    const again = await connect(sensor);
    await sendTelemetry(again, sensor, { heat: 91 });
    await until(to.plantId, 1, 'ACTIVE');
    await team.admin.read(`/devices/${sensor.id}`, { method: 'DELETE' });
    await until(to.plantId, 1, 'RESOLVED');
  });
});
