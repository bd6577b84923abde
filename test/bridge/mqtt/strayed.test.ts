/** Topics that are not a device's own: its object is told of them, for whoever looks why the device is not heard [C-3.8]. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { LINK_VERSION_HEADER } from '../../../protocol/link/proof.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { DEVICE_ID } from '../../support/bridge-link.ts';
import { COMMANDS, OTHER_ID, sentToObject, TELEMETRY, TestBroker } from '../../support/bridge-mqtt.ts';
import { PACKET, publishPacket, subscribePacket } from '../../support/bridge-mqtt-peer.ts';

const MOST_PER_SESSION = 10;
const FOREIGN = `cpi/${OTHER_ID}/telemetry`;

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

function filters(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `cpi/${OTHER_ID}/${index}`);
}

function objectSpeaks(version: string | undefined): void {
  edge.answer = () => ({ accept: version === undefined ? {} : { [LINK_VERSION_HEADER]: version } });
}

describe('a topic that is not the device’s own', () => {
  it('that it publishes to is told, and nothing of the message [C-3.8]', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(publishPacket(FOREIGN, '{"secret":1}'));
    expect(await link.take('strayed')).toEqual({ kind: 'strayed', act: 'publish', topic: FOREIGN });
    await peer.untilEnded();
    await link.untilClosed();
    expect(JSON.stringify(link.received)).not.toContain('secret');
    expect(link.received).toHaveLength(1);
  });

  it('that it subscribes to is told, each of several, and its own is none of them [C-3.8]', async () => {
    const client = await mqtt.open();
    client.peer.write(subscribePacket(1, '#', COMMANDS, FOREIGN));
    await client.peer.take(PACKET.suback);
    const told = (await sentToObject(client)).filter(({ kind }) => kind === 'strayed');
    expect(told).toEqual(['#', FOREIGN].map((topic) => ({ kind: 'strayed', act: 'subscribe', topic })));
  });

  it('is told by its first 256 characters', async () => {
    const { peer, link } = await mqtt.open();
    peer.write(publishPacket('a'.repeat(65_535), '{}'));
    expect((await link.take('strayed')).topic).toBe('a'.repeat(256));
  });

  it('is told ten times of a session, and of each session anew [C-3.8]', async () => {
    for (let session = 0; session < 2; session++) {
      const client = await mqtt.open();
      for (const [index, filter] of filters(MOST_PER_SESSION + 5).entries()) {
        client.peer.write(subscribePacket(index + 1, filter));
        await client.peer.take(PACKET.suback);
      }
      const told = await sentToObject(client);
      expect(told.map((frame) => (frame.kind === 'strayed' ? frame.topic : frame.kind))).toEqual(
        filters(MOST_PER_SESSION),
      );
    }
  });

  it('of another session is none of this one’s', async () => {
    const other = await mqtt.open({ username: OTHER_ID });
    const client = await mqtt.open();
    client.peer.write(subscribePacket(1, `cpi/${OTHER_ID}/commands`));
    await client.peer.take(PACKET.suback);
    expect(await sentToObject(other, OTHER_ID)).toEqual([]);
    expect(await sentToObject(client)).toHaveLength(1);
  });
});

describe('an object that speaks an older version of the link', () => {
  it.each([['1', undefined] as const, ['1', '1'] as const, ['2', '2'] as const])(
    '(%s, said as %j) is not told: it could not read it',
    async (_title, version) => {
      objectSpeaks(version);
      const client = await mqtt.open();
      client.peer.write(subscribePacket(1, '#', `cpi/${DEVICE_ID}/+`));
      await client.peer.take(PACKET.suback);
      expect(await sentToObject(client)).toEqual([]);
      client.peer.write(publishPacket(FOREIGN, '{}'));
      await client.link.untilClosed();
      expect(client.link.received.map(({ kind }) => kind)).toEqual(['publish']);
    },
  );

  it('(3) is told', async () => {
    objectSpeaks('3');
    const { peer, link } = await mqtt.open();
    peer.write(publishPacket(`${TELEMETRY}/x`, '{}'));
    expect((await link.take('strayed')).topic).toBe(`${TELEMETRY}/x`);
  });
});
