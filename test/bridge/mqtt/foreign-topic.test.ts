/** Foreign topics of a device: its object receives them for the diagnostics of the device [C-3.8]. */
import { describe, expect } from 'vitest';
import { COMMANDS, mqttTest as it, OTHER_ID, sentToObject } from '#support/bridge-mqtt.ts';
import { publishPacket } from '#support/bridge-mqtt-peer.ts';

const MOST_PER_SESSION = 10;
const FOREIGN = `cpi/${OTHER_ID}/telemetry`;

function filters(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `cpi/${OTHER_ID}/${index}`);
}

describe('a foreign topic', () => {
  it('is reported to the object for a PUBLISH, without the message [C-3.8]', async ({ peer, link }) => {
    peer.write(publishPacket(FOREIGN, '{"secret":1}'));
    expect(await link.take('foreign-topic')).toEqual({
      kind: 'foreign-topic',
      act: 'publish',
      topic: FOREIGN,
    });
    await peer.untilEnded();
    await link.untilClosed();
    expect(JSON.stringify(link.received)).not.toContain('secret');
    expect(link.received).toHaveLength(1);
  });

  it('is reported for a SUBSCRIBE, each of several [C-3.8]', async ({ device }) => {
    await device.peer.subscribe(1, '#', COMMANDS, FOREIGN);
    const reports = (await sentToObject(device)).filter(({ kind }) => kind === 'foreign-topic');
    expect(reports).toEqual(
      ['#', FOREIGN].map((topic) => ({ kind: 'foreign-topic', act: 'subscribe', topic })),
    );
  });

  it('is reported with its first 256 characters', async ({ peer, link }) => {
    peer.write(publishPacket('a'.repeat(65_535), '{}'));
    expect((await link.take('foreign-topic')).topic).toBe('a'.repeat(256));
  });

  it('is reported at most ten times in each session [C-3.8]', async ({ mqtt }) => {
    for (let session = 0; session < 2; session++) {
      const client = await mqtt.open();
      for (const [index, filter] of filters(MOST_PER_SESSION + 5).entries())
        await client.peer.subscribe(index + 1, filter);
      expect(await sentToObject(client)).toMatchObject(filters(MOST_PER_SESSION).map((topic) => ({ topic })));
    }
  });

  it('is not reported to the object of the other device whose topic it is', async ({ mqtt, device }) => {
    const other = await mqtt.open({ username: OTHER_ID });
    await device.peer.subscribe(1, `cpi/${OTHER_ID}/commands`);
    expect(await sentToObject(other, OTHER_ID)).toEqual([]);
    expect(await sentToObject(device)).toHaveLength(1);
  });
});
