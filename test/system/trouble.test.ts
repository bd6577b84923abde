/**
 * While the edge is unavailable, clients are asked to retry, never refused as unauthorized, and they
 * reconnect.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Device } from '#support/device.ts';
import { ProxiedBridge } from '#support/proxied-bridge.ts';
import { openConnection, ReturningPartner } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';

describe('a bridge whose edge is unavailable', () => {
  const stack = suiteStack();
  let bridge: ProxiedBridge;

  beforeAll(async () => {
    bridge = await ProxiedBridge.start(stack, 'bridge-alone');
  });
  afterAll(async () => {
    await bridge.stop();
  });

  const edgeGoesAway = () => {
    bridge.links.refuse();
    bridge.links.cut();
  };
  const someoneTried = async () => {
    const before = bridge.links.refused;
    await eventually(() => bridge.links.refused > before || undefined);
  };

  it('closes partners with 320, answers new logins with 320, and accepts them when the edge is back [C-6.3]', async () => {
    const options = { ...stack.partnerOptions(), port: bridge.ports.amqps };
    const connection = await openConnection(options);
    const closed = new Promise<Error & { code?: number }>((resolve) => connection.once('close', resolve));
    edgeGoesAway();
    expect(await closed).toMatchObject({ code: 320 });
    await expect(openConnection(options)).rejects.toThrow('320 (CONNECTION-FORCED)');

    const partner = new ReturningPartner(options, []);
    await someoneTried();
    bridge.links.accept();
    await eventually(() => partner.connected || undefined);
    await partner.stop();
  });

  it('answers devices with CONNACK 3, and accepts them when the edge is back [C-3.6]', async () => {
    const device = await Device.start(stack, stack.credentials.gateway, { port: bridge.ports.mqtts });
    await eventually(() => device.listening || undefined);
    edgeGoesAway();
    await someoneTried();
    bridge.links.accept();
    await eventually(() => device.listening || undefined);
    expect(new Set(device.refusals)).toEqual(new Set([3]));
    await device.stop();
  });

  it('does not end the simulated gateway, which reconnects and publishes again', async () => {
    const { gateway: identity } = stack.credentials;
    const gateway = await stack.gateway(identity, () => true, bridge.ports.mqtts);
    try {
      await eventually(() => gateway.connected || undefined);
      await gateway.publishTelemetry({ gridPowerKw: 1 });
      edgeGoesAway();
      await someoneTried();
      bridge.links.accept();
      await eventually(() => gateway.connected || undefined, 3_000);
      await gateway.publishTelemetry({ gridPowerKw: 2 });
    } finally {
      bridge.links.accept();
      await gateway.stop();
    }
  });
});
