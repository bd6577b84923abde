/** A silent client is reported quiet to its site after 90 s, and not quiet with its next byte [C-3.10]. */
import { describe, expect } from 'vitest';
import { mqttTest, type OpenMqttClient, OTHER_ID, TELEMETRY } from '#support/bridge-mqtt.ts';
import { PINGREQ, publishPacket } from '#support/bridge-mqtt-peer.ts';
import { turns } from '#support/bridge-signal.ts';
import { NO_PUBLISH_MS } from '../../../protocol/link/live.ts';

const QUIET_MS = 90_000;
/** The longest keep-alive: Aedes closes a client after one and a half of it. */
const keepalive = 300;
/** A report may be this late. */
const LATE_MS = 5_000;

const it = mqttTest.extend('device', ({ clock: _clock, mqtt }) => mqtt.open({ keepalive }));

/** The reports of quiet that the site received. */
function reports({ link }: OpenMqttClient): boolean[] {
  return link.received.flatMap((one) => (one.kind === 'quiet' ? [one.quiet] : []));
}

describe('a device that publishes nothing', () => {
  const noPublishes = ({ link }: OpenMqttClient) =>
    link.received.filter(({ kind }) => kind === 'no-publish').length;

  it('is reported to its site every 25 s, even if it pings [C-8.2]', async ({ clock, device }) => {
    await clock.pass(NO_PUBLISH_MS - 100);
    expect(noPublishes(device)).toBe(0);
    await clock.pass(100 + LATE_MS);
    expect(noPublishes(device)).toBe(1);
    device.peer.write(PINGREQ);
    await clock.pass(NO_PUBLISH_MS + LATE_MS);
    expect(noPublishes(device)).toBe(2);
    for (let round = 0; round < 6; round++) {
      device.peer.write(publishPacket(TELEMETRY, 'a', { qos: 0 }));
      await clock.pass(20_000);
    }
    expect(noPublishes(device)).toBe(2);
  });
});

describe('the report that a device is quiet', () => {
  it('is sent once, when the device has sent nothing for 90 s', async ({ clock, device }) => {
    await clock.pass(QUIET_MS - 100);
    expect(reports(device)).toEqual([]);
    await clock.pass(100 + LATE_MS);
    expect(reports(device)).toEqual([true]);
    await clock.pass(3 * QUIET_MS);
    expect(reports(device)).toEqual([true]);
    expect(device.link.closedWith).toBeUndefined();
  });

  it.for([
    ['a ping', PINGREQ],
    ['half a packet', PINGREQ.subarray(0, 1)],
  ] as const)(
    'is withdrawn after %s, and sent again after the next 90 s without a byte',
    async ([_, bytes], { clock, device }) => {
      await clock.pass(QUIET_MS + LATE_MS);
      device.peer.write(bytes);
      await turns(50);
      expect(reports(device)).toEqual([true, false]);
      await clock.pass(QUIET_MS - 100);
      expect(reports(device)).toEqual([true, false]);
      await clock.pass(100 + LATE_MS);
      expect(reports(device)).toEqual([true, false, true]);
    },
  );

  it('is withdrawn before the message that ended the silence is sent', async ({ clock, device }) => {
    await clock.pass(QUIET_MS + LATE_MS);
    device.peer.write(publishPacket(TELEMETRY, 'a', { qos: 0 }));
    await device.link.take('publish');
    const kinds = device.link.received.map(({ kind }) => kind).filter((kind) => kind !== 'no-publish');
    expect(kinds).toEqual(['quiet', 'quiet', 'publish']);
    expect(reports(device)).toEqual([true, false]);
  });

  it('is not sent for a device that pings or publishes within 90 s', async ({ clock, device }) => {
    for (let round = 0; round < 6; round++) {
      await clock.pass(80_000);
      device.peer.write(round % 2 ? PINGREQ : publishPacket(TELEMETRY, 'a', { qos: 0 }));
      await turns();
    }
    expect(reports(device)).toEqual([]);
  });

  it('is sent even if the object sends commands to the silent device', async ({ clock, device }) => {
    for (let round = 0; round < 4; round++) {
      await clock.pass(25_000);
      device.link.send({ kind: 'command', payload: '{}' });
    }
    await turns(50);
    expect(reports(device)).toEqual([true]);
  });

  it('is timed for each device separately', async ({ clock, mqtt, device: silent }) => {
    await clock.pass(50_000);
    const lively = await mqtt.open({ keepalive, username: OTHER_ID });
    await clock.pass(40_000 + LATE_MS);
    expect([reports(silent), reports(lively)]).toEqual([[true], []]);
    await clock.pass(50_000);
    expect([reports(silent), reports(lively)]).toEqual([[true], [true]]);
  });

  it('is not sent while the bridge does not read from the device', async ({ clock, device }) => {
    device.peer.write(publishPacket(TELEMETRY, 'a'));
    const { seq } = await device.link.take('publish');
    device.link.send({ kind: 'wait', seqs: [seq], ms: 120_000, count: 1 });
    await turns(50);
    for (let round = 0; round < 11; round++) {
      device.peer.write(PINGREQ);
      await clock.pass(10_000);
    }
    expect(reports(device)).toEqual([]);
  });

  it('leaves no timer when the device disconnects', async ({ clock, mqtt }) => {
    const { timers } = clock;
    const client = await mqtt.open({ keepalive });
    client.peer.stream.destroy();
    await client.link.untilClosed();
    await turns();
    expect(clock.timers).toBe(timers);
  });
});
