/** The main loop with clients in another language: a pika partner controls a paho gateway [C-7.8]. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { missingPython, PYTHON, skippedWithout } from '#support/programs.ts';
import { eventually, TestStack } from '#support/stack.ts';

interface Script {
  events: Record<string, unknown>[];
  ended: Promise<number>;
}

/** Runs a script of this folder; each line that it prints is an event. */
function run(name: string, settings: object): Script {
  const child: ChildProcessWithoutNullStreams = spawn(PYTHON, [join(import.meta.dirname, name)]);
  const events: Record<string, unknown>[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => events.push(JSON.parse(line)));
  child.stderr.on('data', (text: Buffer) => events.push({ event: 'error', text: text.toString() }));
  child.stdin.write(`${JSON.stringify(settings)}\n`);
  const ended = new Promise<number>((resolve) => child.on('close', (code) => resolve(code ?? -1)));
  return { events, ended };
}

const missing = missingPython({ pika: 'python3-pika', 'paho.mqtt.client': 'python3-paho-mqtt' });

describe.skipIf(missing.length > 0)(`Debian's pika and paho${skippedWithout(missing)}`, () => {
  let stack: TestStack;
  beforeAll(async () => {
    stack = await TestStack.start();
  });
  afterAll(async () => {
    await stack.stop();
  });

  it('run the main loop: a pika partner controls a paho gateway [C-7.8]', async () => {
    const { credentials, certificates, bridge } = stack;
    const device = run('paho_device.py', {
      deviceId: credentials.gateway.id,
      hmacSecret: credentials.gateway.hmacSecret,
      token: await stack.deviceToken(),
      ca: certificates.ca,
      port: bridge.ports.mqtts,
    });
    await eventually(() => device.events.find((event) => event.event === 'stored'));
    const { key, signingKey, id } = credentials.apiKey;
    const partner = run('pika_partner.py', {
      slug: credentials.organization.slug,
      key,
      signingKey,
      vhost: `partner-${id}`,
      siteId: credentials.plantId,
      ca: certificates.ca,
      port: bridge.ports.amqps,
    });
    expect(await partner.ended, JSON.stringify(partner.events)).toBe(0);
    expect(await device.ended, JSON.stringify(device.events)).toBe(0);

    const statuses = (queue: string) =>
      partner.events.filter((event) => event.event === queue).map((event) => event.status);
    expect(statuses('event.status')).toEqual(['ACCEPTED']);
    expect(statuses('event.execution')).toEqual(['EXECUTING', 'COMPLETED']);
    expect(device.events).toContainEqual({ event: 'command', action: 'BESS_CHARGE', verified: true });
    const latest = await stack.rest(`/vcp/sites/${credentials.plantId}/telemetry/latest`);
    expect(latest.body).toMatchObject({ payload: { batteryPowerKw: 5, socPercent: 0.00001 } });
  });
});
