/**
 * One device on two bridges, its connections cut and half-opened again and again: only its newest session
 * remains.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { areWhole } from '#support/command-history.ts';
import { Device } from '#support/device.ts';
import { ProxiedBridge } from '#support/proxied-bridge.ts';
import { chargeOrder, ReturningPartner } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { TcpProxy } from '#support/tcp-proxy.ts';

const CUTS = 20;

/** One session of the device, and the proxied bridge that it runs over. */
interface Session {
  device: Device;
  client: TcpProxy;
  bridge: ProxiedBridge;
}

/** The disturbance of a session before the device connects again, over the other bridge. */
const BREAKS: Record<string, (session: Session) => void> = {
  'the device vanishes': ({ device }) => device.vanish(),
  'its connection is half-open': ({ client }) => client.hold('up', 'down'),
  'its link is cut': ({ bridge }) => bridge.links.cut(),
  'its link is half-open': ({ bridge }) => bridge.links.hold('up', 'down'),
};

describe('a device on two bridges', () => {
  const stack = suiteStack();
  let bridges: [ProxiedBridge, ProxiedBridge];
  let partner: ReturningPartner;
  const sessions: Session[] = [];

  beforeAll(async () => {
    bridges = [await ProxiedBridge.start(stack, 'bridge-a'), await ProxiedBridge.start(stack, 'bridge-b')];
    partner = new ReturningPartner(stack.partnerOptions());
    await eventually(() => partner.connected || undefined);
  });
  afterAll(async () => {
    await Promise.all(sessions.map(({ device }) => device.stop()));
    await Promise.all(sessions.map(({ client }) => client.stop()));
    await partner.stop();
    await Promise.all(bridges.map((bridge) => bridge.stop()));
  });

  const dial = async (): Promise<Session> => {
    const bridge = bridges[sessions.length % 2] as ProxiedBridge;
    const client = await TcpProxy.start(bridge.ports.mqtts);
    const options = { port: client.port, comesBack: false };
    const device = await Device.start(stack, stack.credentials.gateway, options);
    const session = { device, client, bridge };
    sessions.push(session);
    await eventually(() => device.listening || undefined);
    return session;
  };

  /** A command completes, and of all sessions only the newest received it, once. */
  const expectCommandReaches = async ({ device }: Session) => {
    const order = chargeOrder(stack.credentials.plantId);
    expect(await partner.publish(order)).toBe(true);
    await eventually(() => areWhole([order], partner.events) || undefined);
    for (const session of sessions)
      expect(session.device.times(order.powerKw)).toBe(session.device === device ? 1 : 0);
  };

  it('has only its newest session after each of twenty cut connections, and only that one receives commands [C-3.6]', async () => {
    let newest = await dial();
    await expectCommandReaches(newest);
    const breaks = Object.values(BREAKS);
    for (let cut = 0; cut < CUTS; cut++) {
      const old = newest;
      breaks[cut % breaks.length]?.(old);
      newest = await dial();
      await expectCommandReaches(newest);

      // The held bytes are sent now: the old session ends, and the newest receives nothing.
      old.client.resume();
      old.bridge.links.resume();
      await eventually(() => !old.device.listening || undefined);
      await expectCommandReaches(newest);
      expect(newest.device.sessions).toEqual({ opened: 1, ended: 0 });
    }
    for (const { device } of sessions.slice(0, -1)) expect(device.sessions).toEqual({ opened: 1, ended: 1 });
    expect(partner.connects).toBe(1);
  }, 60_000);
});
