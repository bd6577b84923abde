/** Two clients that take each other's place repeatedly leave no session, no link and no socket. */
import { beforeAll, describe, expect, it } from 'vitest';
import { type Closable, openDevice, openPartner } from '#support/closable.ts';
import { Device } from '#support/device.ts';
import { heldConnections } from '#support/sockets.ts';
import { eventually, type RunningBridge } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';

const TAKEOVERS = 40;
/** Everything that is no longer needed has ended after that time. */
const GONE_WITHIN_MS = 1_000;

describe('forty mutual take-overs', () => {
  const stack = suiteStack();
  let edgePort: number;

  beforeAll(async () => {
    edgePort = Number(new URL(stack.edge.url).port);
  });

  const links = async (protocol: 'amqp' | 'mqtt') => {
    const response = await fetch(`http://127.0.0.1:${stack.bridge.ports.metrics}/metrics`);
    const line = new RegExp(`^sitewire_bridge_connections{protocol="${protocol}"} (\\d+)$`, 'm');
    return Number(line.exec(await response.text())?.[1] ?? 0);
  };

  /** Kept-alive HTTP connections count too, so only growth matters. */
  const expectNothingLeft = async (before: number, live: number) => {
    await eventually(() => heldConnections(edgePort) <= before + live || undefined, GONE_WITHIN_MS);
  };

  it('leave its one live session and no other connection if they are of one device [C-3.6]', async () => {
    const plant = await stack.addPlant();
    const before = heldConnections(edgePort);
    let newest: Closable | undefined;
    for (let takeover = 0; takeover <= TAKEOVERS; takeover++) {
      const old = newest;
      newest = await openDevice(stack, plant.gateway, 'idle');
      if (old) await eventually(() => old.end, GONE_WITHIN_MS);
    }
    await expectNothingLeft(before, 1);
    expect(newest?.end).toBeUndefined();
    expect(await links('mqtt')).toBe(1);
    newest?.stop();
    await expectNothingLeft(before, 0);
  });

  it('leave no connection when they stop if they are of two devices that both reconnect by themselves [C-3.6]', async () => {
    const plant = await stack.addPlant();
    const before = heldConnections(edgePort);
    const devices = [await Device.start(stack, plant.gateway), await Device.start(stack, plant.gateway)];
    const opened = () => devices.reduce((sum, device) => sum + device.sessions.opened, 0);
    await eventually(() => opened() >= TAKEOVERS || undefined, 25_000);
    await Promise.all(devices.map((device) => device.stop()));
    await expectNothingLeft(before, 0);
    await eventually(async () => (await links('mqtt')) === 0 || undefined, GONE_WITHIN_MS);
  });

  it('by a bridge that reboots each time leave only the newest connection of a partner (rule 8)', async () => {
    const plant = await stack.addPlant();
    const key = await stack.addKey();
    const before = heldConnections(edgePort);
    const bridges: RunningBridge[] = [];
    const partners: Closable[] = [];
    try {
      for (let boot = 0; boot <= TAKEOVERS; boot++) {
        const bridge = await stack.addBridge('bridge-restless');
        bridges.push(bridge);
        const options = { ...stack.partnerOptions(key), port: bridge.ports.amqps };
        const old = partners.at(-1);
        partners.push(await openPartner(options, plant.id, 'idle'));
        if (old) await eventually(() => old.end, GONE_WITHIN_MS);
      }
      await expectNothingLeft(before, 1);
      expect(partners.at(-1)?.end).toBeUndefined();
    } finally {
      for (const partner of partners) partner.stop();
      await Promise.all(bridges.map((bridge) => bridge.stop()));
    }
  }, 60_000);
});
