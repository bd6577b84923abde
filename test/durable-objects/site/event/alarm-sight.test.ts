/**
 * What the alarm of a command says to whom: the key that sent it, another key of its partner, a key of another partner
 * [C-8.3], [C-15.1].
 */
import { type ListenedScene, setScene } from '#workerd/scene.ts';
import { HOUR, MINUTE, passTime, passUntilSent, SECOND } from '#workerd/site-clock.ts';
import { connectListening, sendTelemetry } from '#workerd/site-devices.ts';
import { type Listener, listen, type PartnerEvent } from '#workerd/site-listener.ts';
import { AWAY, obey, planned } from '#workerd/site-plan.ts';
import { batch, batteryCommand, Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createKey } from '#workerd/world.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

/** Listeners of another key of the partner, and of a key of another partner. */
async function observersOf({ organization }: ListenedScene) {
  const sibling = await listen(organization, await createKey(organization));
  const stranger = await listen(organization, await createKey(organization, { partnerId: 'another' }));
  return { sibling, stranger };
}

/** A site with both, and a gateway that connects after them: the site knows their keys from then on. */
async function observed() {
  const scene = await setScene(AWAY);
  const observers = await observersOf(scene);
  return { ...scene, observers, link: await connectListening(scene.plant) };
}

/** The alarms of a type that a listener got. */
async function alarmsOf(listener: Listener, type: string): Promise<PartnerEvent[]> {
  await listener.quiet();
  return listener.events('alarm').filter(({ payload }) => payload.type === type);
}

/** The only alarm of a type that each of the three got. */
async function copiesOf(
  { plant, listener }: ListenedScene,
  { sibling, stranger }: Awaited<ReturnType<typeof observersOf>>,
  type: string,
) {
  await passUntilSent(plant.id);
  const all = await Promise.all([listener, sibling, stranger].map((one) => alarmsOf(one, type)));
  expect(all.map((alarms) => alarms.length)).toEqual([1, 1, 1]);
  const [own, ofSibling, ofStranger] = all.map(([alarm]) => alarm);
  return { own, ofSibling, ofStranger };
}

describe('the alarm of a command over a limit', () => {
  it.for([
    ['a setpoint', () => planned(1234.56, 'HIGH'), 'maxImportKw', 100, '1234.56'],
    [
      'a battery command',
      () => submission('device', batch(batteryCommand(77.13))),
      'maxChargeKw',
      50,
      '77.13',
    ],
    [
      'a schedule',
      () =>
        submission('schedule', {
          startTime: formatInstant(Date.now()),
          slots: [{ slotIndex: 0, mode: 'STANDARD', setpoint: { value: 145.67 } }],
        }),
      'maxImportKw',
      100,
      '145.67',
    ],
  ] as const)(
    'has the value of %s for its partner alone, and the limit for every key [C-15.1]',
    async ([, publish, constraint, limit, value]) => {
      const scene = await setScene(AWAY);
      const observers = await observersOf(scene);
      await scene.partner.submit({ ...publish(), correlationId: 'own-words' });
      const { own, ofSibling, ofStranger } = await copiesOf(scene, observers, 'CONSTRAINT_VIOLATION');
      expect(own).toMatchObject({
        correlationId: 'own-words',
        payload: { constraint, limit, value: Number(value), message: expect.stringContaining(value) },
      });
      expect(ofSibling?.payload).toEqual(own?.payload);
      expect(ofStranger?.payload).toMatchObject({
        ...{ constraint, limit, unit: 'kW', status: 'RAISED', severity: 'WARNING' },
        ...{ alarmId: own?.payload.alarmId, raisedAt: own?.payload.raisedAt },
      });
      expect(JSON.stringify(ofStranger)).not.toContain(value);
      for (const copy of [ofSibling, ofStranger]) expect(copy?.correlationId).toBeUndefined();
    },
  );

  it('has the own part as value where the sum with another partner is over the limit [C-15.1]', async () => {
    const subDevices = [
      { externalId: 'BESS-1', assetType: 'BESS', ratedPowerKw: 60 },
      { externalId: 'BESS-2', assetType: 'BESS', ratedPowerKw: 60 },
    ] as const;
    const scene = await setScene({ ...AWAY, plant: { subDevices: [...subDevices] } });
    const other = await createKey(scene.organization, { partnerId: 'another' });
    const stranger = new Submitter(scene.plant.id, other.id, 'another');
    const theirs = await listen(scene.organization, other);
    await stranger.submit(submission('device', batch(batteryCommand(7.43))));
    const refused = await scene.partner.acknowledge(
      submission('device', batch(batteryCommand(45.19, { deviceId: 'BESS-2' }))),
    );
    await passUntilSent(scene.plant.id);
    expect(refused).toMatchObject({ status: 'REJECTED', rejectionCode: 'CONSTRAINT_VIOLATION' });
    expect(scene.partner.alarms()).toMatchObject([{ constraint: 'maxChargeKw', limit: 50, value: 45.19 }]);
    const texts = [refused, scene.partner.alarms(), await alarmsOf(theirs, 'CONSTRAINT_VIOLATION')];
    expect(JSON.stringify(texts)).not.toContain('52.62');
    expect(JSON.stringify(texts[2])).not.toContain('45.19');
  });

  it('has the sum as value where all of it is of one partner, also of two keys [C-15.1]', async () => {
    const subDevices = [
      { externalId: 'BESS-1', assetType: 'BESS', ratedPowerKw: 60 },
      { externalId: 'BESS-2', assetType: 'BESS', ratedPowerKw: 60 },
    ] as const;
    const scene = await setScene({ ...AWAY, plant: { subDevices: [...subDevices] } });
    const sibling = new Submitter(scene.plant.id, (await createKey(scene.organization)).id);
    await sibling.submit(submission('device', batch(batteryCommand(7.43))));
    const second = submission('device', batch(batteryCommand(45.19, { deviceId: 'BESS-2' })));
    const refused = await scene.partner.acknowledge(second);
    expect(JSON.stringify(refused)).toContain('52.62 kW exceeds maxChargeKw 50 kW');
  });
});

describe('the alarm of a setpoint that the plant missed', () => {
  it('has the target and the measured power for its partner alone [C-15.1]', async () => {
    const { observers, ...scene } = await observed();
    await scene.partner.submit(planned(13.37, 'NORMAL', { forMs: 5 * MINUTE }));
    await obey(scene, 1);
    for (let passedMs = 0; passedMs < 6 * MINUTE; passedMs += 30 * SECOND) {
      await sendTelemetry(scene.link, scene.plant.gateway, { gridPowerKw: 40 });
      await passTime(scene.plant.id, 30 * SECOND);
    }
    const { own, ofSibling, ofStranger } = await copiesOf(scene, observers, 'SETPOINT_DEVIATION');
    expect(own?.payload).toMatchObject({ limit: 13.37, value: 40, unit: 'kW' });
    expect(ofSibling?.payload).toEqual(own?.payload);
    expect(ofStranger?.payload).toMatchObject({ alarmId: own?.payload.alarmId, status: 'RAISED' });
    expect(JSON.stringify(ofStranger)).not.toContain('13.37');
  });
});

describe('the alarm of a setpoint that a new limit ends', () => {
  it('has the power of the setpoint for its partner alone [C-15.1]', async () => {
    const { observers, ...scene } = await observed();
    await scene.partner.submit(planned(61.73, 'HIGH', { forMs: HOUR }));
    await obey(scene, 1);
    const other = await createKey(scene.organization, { partnerId: 'a third' });
    const tighter = submission('config', { constraints: { maxImportKw: 20 } });
    await new Submitter(scene.plant.id, other.id, 'a third').submit(tighter);
    const { own, ofSibling, ofStranger } = await copiesOf(scene, observers, 'CONSTRAINT_VIOLATION');
    expect(own?.payload).toMatchObject({ limit: 20, value: 61.73 });
    expect(ofSibling?.payload).toEqual(own?.payload);
    expect(ofStranger?.payload).toMatchObject({ constraint: 'maxImportKw', limit: 20 });
    expect(JSON.stringify(ofStranger)).not.toContain('61.73');
  });
});
