/** Many messages of one device under way at once, as stock clients send them: bounded, and none lost. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { TestEdge } from '../../support/bridge-edge.ts';
import { type OpenMqttClient, TELEMETRY, TestBroker } from '../../support/bridge-mqtt.ts';
import { acknowledgement, PACKET, publishPacket } from '../../support/bridge-mqtt-peer.ts';

let edge: TestEdge;
let mqtt: TestBroker;

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(async () => {
  mqtt = await TestBroker.start(edge);
});
afterEach(async () => {
  await mqtt.engine.stop();
  edge.reset();
});
afterAll(() => edge.stop());

async function store({ link }: OpenMqttClient, count: number): Promise<void> {
  for (let taken = 0; taken < count; taken++)
    link.send({ kind: 'stored', seqs: [(await link.take('publish')).seq] });
}

describe('messages under way at QoS 2', () => {
  it.each([16, 20])('may be %d: paho’s own window is twenty', async (count) => {
    const client = await mqtt.open();
    const ids = Array.from({ length: count }, (_, index) => index + 1);
    client.peer.write(...ids.map((id) => publishPacket(TELEMETRY, `${id}`, { qos: 2, id })));
    await store(client, count);
    const received: number[] = [];
    for (const _id of ids) received.push(await client.peer.takeId(PACKET.pubrec));
    expect(received.sort((left, right) => left - right)).toEqual(ids);
    client.peer.write(...ids.map((id) => acknowledgement(PACKET.pubrel, id)));
    for (const _id of ids) await client.peer.takeId(PACKET.pubcomp);
    expect(mqtt.events.closedWhy).toEqual([]);
  });

  it('that are never released have an end: the device is closed', async () => {
    const client = await mqtt.open();
    const count = 2_000;
    const storing = store(client, count).catch(() => {});
    for (let id = 1; id <= count; id++) client.peer.write(publishPacket(TELEMETRY, `${id}`, { qos: 2, id }));
    expect(await mqtt.events.untilClosed()).toMatch(/maxInflightInbound/);
    await client.link.untilClosed();
    await storing;
  });
});
