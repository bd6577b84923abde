/**
 * The open commands of a device that no longer serves: the next serving device gets them, or they end
 * [C-3.1], [C-7.6].
 */
import type { DeviceTestLink } from '#workerd/links.ts';
import { type SiteScene, setScene, whole } from '#workerd/scene.ts';
import { HOUR, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { answerPings, commandsOf, connectListening, nthCommand, sendAck } from '#workerd/site-devices.ts';
import {
  AWAY,
  endOf,
  executionStatuses,
  executionsOf,
  obey,
  planned,
  sentCommands,
  sentTo,
} from '#workerd/site-plan.ts';
import { numberOf } from '#workerd/site-rows.ts';
import { batch, batteryCommand, charge, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, createLinked, type Plant, siteOf } from '#workerd/world.ts';
import type { DevicePack, Submission } from '../../../../durable-objects/rpc.ts';

/** The ways in which a device leaves, and the end reason of its REST commands. */
const WAYS = {
  revoked: way('DEVICE_GONE', (id, site) => site.setDeviceStatus(id, 'DECOMMISSIONED')),
  deleted: way('DEVICE_GONE', (id, site) => site.forgetDevice(id)),
  moved: way('MOVED', (id, site) => site.releaseDevice(id, crypto.randomUUID())),
};
function way(why: string, leave: (id: string, site: ReturnType<typeof siteOf>) => Promise<unknown>) {
  return { why, go: (id: string, siteId: string) => leave(id, siteOf(siteId)) };
}

const NAMES = Object.keys(WAYS) as (keyof typeof WAYS)[];

const DISPATCHES = 'SELECT count(*) FROM dispatch';

/** The plant's gateway serves; a second one is connected too. */
async function newTwoGateways() {
  const { scene, organization, plant } = await setScene(AWAY);
  const other = await createDevice(organization, plant.id, 'CONTROLLER');
  const otherLink = await connectListening(plant, other);
  setClock(START_MS + SECOND);
  const link = await connectListening(plant);
  const otherPlant: Plant = { ...plant, gateway: other };
  return whole({ ...scene, link, other, otherLink, otherSent: () => sentTo(otherLink, otherPlant) });
}

/** A plant whose battery BESS-L is linked to an offline device. */
async function newLinkedSite() {
  const scene = await setScene({ plant: true });
  await answerPings(scene.plant.id);
  const battery = { externalId: 'BESS-L', assetType: 'BESS', ratedPowerKw: 40 } as const;
  const linked = await createLinked(scene.organization, scene.plant.id, battery);
  const publish = submission('device', batch(batteryCommand(5, { deviceId: 'BESS-L' })));
  return { ...scene, linked, publish };
}

async function ask({ site, gateway }: SiteScene, action = 'PING'): Promise<string> {
  const asked = { action, payload: {}, validUntilMs: null, idempotencyKey: null };
  const answer = await site.submitRestCommand(gateway.id, asked);
  if (!('command' in answer)) throw new Error(answer.refused);
  return answer.command.cmdId;
}

/** The powers of the commands of a link. */
function powers(link: DeviceTestLink): unknown[] {
  return commandsOf(link).map(({ payload }) => {
    const { targets } = payload as { targets?: { params?: { powerKw?: number } }[] };
    return targets?.map(({ params }) => params?.powerKw);
  });
}

describe.each(NAMES)('the gateway is %s and another gateway serves', (name) => {
  const { go } = WAYS[name];

  it.each([
    ['that the leaving gateway acknowledged RECEIVED', ['RECEIVED'] as const],
    ['that the leaving gateway acknowledged COMPLETED', ['RECEIVED', 'COMPLETED'] as const],
    ['that the leaving gateway has not answered', [] as const],
  ])('an active setpoint %s is sent to the other gateway, and stays active [C-7.7]', async (_title, acks) => {
    const { plant, gateway, partner, link, other, otherLink, otherSent } = await newTwoGateways();
    const setpoint = planned(5, 'HIGH');
    await partner.submit(setpoint);
    const first = await nthCommand(link, 1);
    for (const status of acks) await sendAck(link, gateway, first.cmdId, status);
    const before = await endOf(plant, setpoint);
    await go(gateway.id, plant.id);
    expect(await otherSent()).toEqual([5]);
    expect(await endOf(plant, setpoint)).toBe(before);
    const again = await nthCommand(otherLink, 1);
    expect(again.cmdId).not.toBe(first.cmdId);
    await sendAck(otherLink, other, again.cmdId, 'RECEIVED');
    expect(await endOf(plant, setpoint)).toBe('EXECUTING');
  });

  it.each([
    ['an emergency', 'emergency', { type: 'STOP' }, 'EMERGENCY_STOP'],
    ['a configuration', 'config', { constraints: { maxImportKw: 70 } }, 'CONFIG_SET'],
  ] as const)(
    '%s that the leaving gateway has not answered is sent once to the other gateway, whose ack ends it [C-7.7], [C-7.9]',
    async (_what, family, payload, action) => {
      const { scene, plant, gateway, partner, link, other, otherLink, otherSent } = await newTwoGateways();
      const publish = submission(family, payload);
      await partner.submit(publish);
      await nthCommand(link, 1);
      await go(gateway.id, plant.id);
      expect(await otherSent()).toEqual([action]);
      const command = await nthCommand(otherLink, 1);
      expect(command.payload).toMatchObject(payload);
      await sendAck(otherLink, other, command.cmdId, 'COMPLETED');
      expect(await endOf(plant, publish)).toBe('COMPLETED');
      expect(await executionStatuses(scene, publish)).toEqual(['EXECUTING', 'COMPLETED']);
      expect(await otherSent()).toEqual([action]);
    },
  );

  it('an active emergency that the leaving gateway has completed is sent to the other gateway too [C-7.7]', async () => {
    const { scene, plant, gateway, partner, otherSent } = await newTwoGateways();
    const publish = submission('emergency', { type: 'HOLD' });
    await partner.submit(publish);
    await obey(scene, 1, 'RECEIVED', 'COMPLETED');
    await go(gateway.id, plant.id);
    expect(await otherSent()).toEqual(['EMERGENCY_HOLD']);
    expect(await endOf(plant, publish)).toBe('COMPLETED');
  });

  it('the mode in force is sent to the other gateway [C-7.7]', async () => {
    const { scene, plant, gateway, partner, otherSent } = await newTwoGateways();
    await partner.submit(submission('mode', { mode: 'ZERO_EXPORT' }));
    await obey(scene, 1, 'RECEIVED', 'COMPLETED');
    await go(gateway.id, plant.id);
    expect(await otherSent()).toEqual(['ZERO_EXPORT']);
  });

  it.each([['RECEIVED'], ['IN_PROGRESS'], [undefined]] as const)(
    'a device command that was sent to the leaving gateway (last ack: %s) ends FAILED DEVICE_GONE',
    async (ack) => {
      const { scene, plant, gateway, partner, link, otherSent } = await newTwoGateways();
      const publish = charge();
      await partner.submit(publish);
      const { cmdId } = await nthCommand(link, 1);
      if (ack) await sendAck(link, gateway, cmdId, ack);
      await go(gateway.id, plant.id);
      expect(await endOf(plant, publish)).toBe('FAILED DEVICE_GONE: BESS-1');
      expect((await executionStatuses(scene, publish)).at(-1)).toBe('FAILED DEVICE_GONE: BESS-1');
      expect(await otherSent()).toEqual([]);
      expect(await numberOf(plant.id, DISPATCHES)).toBe(0);
    },
  );

  it('a future setpoint is sent to the other gateway at its time [C-7.6]', async () => {
    const { plant, gateway, partner, otherSent } = await newTwoGateways();
    expect(await partner.acknowledge(planned(7, 'HIGH', { inMs: HOUR }))).toMatchObject({ status: 'QUEUED' });
    await go(gateway.id, plant.id);
    expect(await otherSent()).toEqual([]);
    await passTime(plant.id, HOUR);
    expect(await otherSent()).toEqual([7]);
  });

  it('if the departure of the gateway is repeated, nothing is sent or ended again', async () => {
    const { scene, plant, gateway, partner, link, otherSent } = await newTwoGateways();
    const [setpoint, command] = [planned(5, 'HIGH'), charge()];
    await partner.submit(setpoint, command);
    await nthCommand(link, 2);
    for (let count = 0; count < 2; count++) await go(gateway.id, plant.id);
    expect(await otherSent()).toEqual([5]);
    expect(await executionsOf(scene, command)).toMatchObject([{ status: 'FAILED' }]);
  });
});

describe.each(NAMES)('a linked device with its own battery is %s', (name) => {
  const { go } = WAYS[name];

  it('a command that waits for the leaving device is sent to a connected gateway immediately [C-2.4, C-7.6]', async () => {
    const { plant, linked, publish, partner } = await newLinkedSite();
    const link = await connectListening(plant);
    expect(await partner.acknowledge(publish)).toMatchObject({ status: 'QUEUED' });
    await go(linked.id, plant.id);
    expect((await nthCommand(link, 1)).payload).toMatchObject({ targets: [{ deviceId: 'BESS-L' }] });
    await obey({ link, plant }, 1, 'COMPLETED');
    expect(await endOf(plant, publish)).toBe('COMPLETED');
  });

  it('a command that waits for the leaving device waits for the gateway instead, if that is offline', async () => {
    const { plant, linked, publish, partner } = await newLinkedSite();
    expect(await partner.acknowledge(publish)).toMatchObject({ status: 'QUEUED' });
    await go(linked.id, plant.id);
    expect(await endOf(plant, publish)).toBe('PENDING');
    const link = await connectListening(plant);
    await nthCommand(link, 1);
    expect(powers(link)).toEqual([[5]]);
  });

  it('a part of a batch that a leaving device completed stays completed, and the other parts decide the end [C-7.8]', async () => {
    const { plant, linked, partner } = await newLinkedSite();
    const [own, link] = [await connectListening(plant, linked), await connectListening(plant)];
    const parts = batch(batteryCommand(5, { deviceId: 'BESS-L' }), batteryCommand(3));
    const publish = submission('device', parts);
    await partner.submit(publish);
    await sendAck(own, linked, (await nthCommand(own, 1)).cmdId, 'COMPLETED');
    await go(linked.id, plant.id);
    await obey({ link, plant }, 1, 'COMPLETED');
    expect(await endOf(plant, publish)).toBe('COMPLETED');
  });

  it('a waiting command ends FAILED DEVICE_GONE when the gateway has left, too', async () => {
    const { plant, gateway, linked, publish, partner } = await newLinkedSite();
    await partner.submit(publish);
    for (const id of [linked.id, gateway.id]) await go(id, plant.id);
    expect(await endOf(plant, publish)).toBe('FAILED DEVICE_GONE: BESS-L');
    expect(await numberOf(plant.id, DISPATCHES)).toBe(0);
  });
});

describe.each(NAMES)('the only gateway is %s', (name) => {
  const { go, why } = WAYS[name];

  it.each<[string, () => Submission]>([
    ['a device command', () => charge()],
    ['a setpoint', () => planned(5, 'HIGH')],
    ['a mode', () => submission('mode', { mode: 'ZERO_EXPORT' })],
    ['an emergency', () => submission('emergency', { type: 'STOP' })],
  ])('%s that waits for the only gateway ends FAILED DEVICE_GONE', async (_what, publishOf) => {
    const { plant, gateway, partner } = await setScene({ plant: true });
    const publish = publishOf();
    expect(await partner.acknowledge(publish)).toMatchObject({ status: 'QUEUED' });
    await go(gateway.id, plant.id);
    expect(await endOf(plant, publish)).toMatch(/^FAILED DEVICE_GONE/);
    expect(await numberOf(plant.id, DISPATCHES)).toBe(0);
  });

  it(`its open REST commands end FAILED ${why}, sent or not, and ended ones are unchanged; a deletion removes all`, async () => {
    const { scene, plant, gateway, site, link } = await setScene({ gateway: 'listening' });
    const ids = [await ask(scene, 'A'), await ask(scene, 'B'), await ask(scene, 'C')];
    await nthCommand(link, 3);
    await sendAck(link, gateway, ids[0] ?? '', 'COMPLETED');
    await sendAck(link, gateway, ids[1] ?? '', 'IN_PROGRESS');
    link.send({ kind: 'subscribed', commands: false });
    await sendAck(link, gateway, 'none', 'RECEIVED');
    ids.push(await ask(scene, 'D'));
    const sent = (await sentCommands(link, plant)).map(({ action }) => action);
    expect(sent).toEqual(['A', 'B', 'C']);
    const left = await go(gateway.id, plant.id);
    expect(await numberOf(plant.id, DISPATCHES)).toBe(0);
    const { commands } = await site.pageRestCommands(gateway.id, 1, 10);
    const outcomes = commands.map(({ action, status, reason }) => [action, status, reason]);
    const ended = ['D', 'C', 'B'].map((action) => [action, 'FAILED', why]);
    expect(outcomes).toEqual(name === 'deleted' ? [] : [...ended, ['A', 'COMPLETED', undefined]]);
    if (name !== 'moved') return;
    const moved = (left as DevicePack | undefined)?.tables?.rest_command;
    const kept = [['A', 'COMPLETED'], ...['B', 'C', 'D'].map((action) => [action, 'FAILED', why])];
    expect(moved).toEqual(kept.map((words) => expect.arrayContaining(words)));
  });

  it('the Site refuses new REST commands for a gateway that was revoked, deleted or moved', async () => {
    const { plant, gateway, site } = await setScene({ plant: true });
    await go(gateway.id, plant.id);
    const asked = { action: 'PING', payload: {}, validUntilMs: null, idempotencyKey: null };
    expect(await site.submitRestCommand(gateway.id, asked)).toEqual({ refused: 'inactive' });
  });
});

describe('a suspended device', () => {
  it('REST commands of a suspended device wait, and are sent after its reactivation', async () => {
    const { scene, plant, gateway, site } = await setScene({ plant: true });
    const cmdId = await ask(scene);
    await site.setDeviceStatus(gateway.id, 'SUSPENDED');
    await passTime(plant.id, 10 * MINUTE);
    expect(await site.findRestCommand(gateway.id, cmdId)).toMatchObject({ status: 'PENDING' });
    await site.setDeviceStatus(gateway.id, 'ACTIVE');
    const link = await connectListening(plant);
    expect((await nthCommand(link, 1)).cmdId).toBe(cmdId);
    expect(await site.findRestCommand(gateway.id, cmdId)).toMatchObject({ status: 'SENT' });
  });

  it('commands of a plant whose only gateway is suspended wait for its reactivation', async () => {
    const { plant, gateway, site, partner } = await setScene({ plant: true });
    const publish = charge();
    await partner.submit(publish);
    await site.setDeviceStatus(gateway.id, 'SUSPENDED');
    await passTime(plant.id, 10 * MINUTE);
    expect(await endOf(plant, publish)).toBe('PENDING');
    await site.setDeviceStatus(gateway.id, 'ACTIVE');
    expect(powers(await connectListening(plant))).toEqual([[5]]);
  });
});
