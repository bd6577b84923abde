/**
 * The simulated gateway against a stock broker: which commands it executes, how often, and its
 * acknowledgements.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type Server } from 'node:tls';
import { Aedes } from 'aedes';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '#support/stack.ts';
import type { DeviceAckStatus } from '../../protocol/enums.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { ackSigningString, commandSigningString } from '../../protocol/signing.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import { ensureCertificates } from '../../tools/certificates.ts';
import { Gateway } from '../../tools/simulator/gateway.ts';
import type { SiteCommand } from '../../tools/simulator/orders.ts';

const DEVICE = { deviceId: 'gateway-1', hmacSecret: '5a'.repeat(32), token: 'any' };
const SETPOINT = { targetSignedKw: 20 };

interface Ack {
  cmdId: string;
  status: DeviceAckStatus;
  ts: number;
  sig: string;
}

let folder: string;
let broker: Aedes;
let server: Server;
let gateway: Gateway;
let acks: Ack[];
let done: SiteCommand[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sitewire-gateway-'));
  const { ca, certificate, key } = await ensureCertificates(folder);
  broker = await Aedes.createBroker();
  server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, broker.handle);
  await once(server.listen(0), 'listening');
  [acks, done] = [[], []];
  broker.on('publish', ({ topic, payload }) => {
    if (topic === deviceTopic(DEVICE.deviceId, 'ack')) acks.push(JSON.parse(payload.toString()));
  });
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => {
    const options = {
      ...DEVICE,
      host: 'localhost',
      port,
      ca: readFileSync(ca, 'utf8'),
      onListening: resolve,
    };
    gateway = new Gateway(options, (command) => {
      done.push(command);
      return command.action !== 'DANCE';
    });
  });
});

afterEach(async () => {
  await gateway.stop();
  await new Promise<void>((resolve) => broker.close(resolve));
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

function sign(text: string): string {
  return createHmac('sha256', DEVICE.hmacSecret).update(text).digest('hex');
}

/** A command as the platform sends it. */
function signed(cmdId: string, action = 'SITE_SETPOINT', ts = Date.now()): object {
  const sig = sign(commandSigningString(DEVICE.deviceId, cmdId, ts, action, JSON.stringify(SETPOINT)));
  return { cmdId, ts, action, payload: SETPOINT, sig };
}

async function publishCommand(command: object): Promise<void> {
  const topic = deviceTopic(DEVICE.deviceId, 'commands');
  const payload = Buffer.from(JSON.stringify(command));
  await new Promise<void>((resolve, reject) => {
    broker.publish({ cmd: 'publish', topic, payload, qos: 1, retain: false, dup: false }, (error) =>
      error ? reject(error) : resolve(),
    );
  });
}

/** The acknowledgements of one command, once the given number has arrived. */
async function answersTo(cmdId: string, count: number): Promise<string[]> {
  const answers = () => acks.filter((ack) => ack.cmdId === cmdId).map(({ status }) => status);
  return await eventually(() => (answers().length >= count ? answers() : undefined));
}

describe('the simulated gateway', () => {
  it('executes a command, and acknowledges it with a signature', async () => {
    const cmdId = randomUUID();
    await publishCommand(signed(cmdId));
    expect(await answersTo(cmdId, 3)).toEqual(['RECEIVED', 'IN_PROGRESS', 'COMPLETED']);
    expect(done).toEqual([expect.objectContaining({ action: 'SITE_SETPOINT', payload: SETPOINT })]);
    for (const { ts, status, sig } of acks) {
      expect(sig).toBe(sign(ackSigningString(DEVICE.deviceId, cmdId, ts, status)));
    }
  });

  it('acknowledges a repeated command again, and executes it once', async () => {
    const [cmdId, next] = [randomUUID(), randomUUID()];
    await publishCommand(signed(cmdId));
    await publishCommand(signed(cmdId));
    expect(await answersTo(cmdId, 4)).toEqual(['RECEIVED', 'IN_PROGRESS', 'COMPLETED', 'COMPLETED']);
    expect(done).toHaveLength(1);
    await publishCommand(signed(next));
    await answersTo(next, 3);
    expect(done).toHaveLength(2);
  });

  it('acknowledges a command that it does not obey as failed, each time it receives it', async () => {
    const cmdId = randomUUID();
    await publishCommand(signed(cmdId, 'DANCE'));
    await publishCommand(signed(cmdId, 'DANCE'));
    expect(await answersTo(cmdId, 3)).toEqual(['RECEIVED', 'FAILED', 'FAILED']);
    expect(done).toHaveLength(1);
  });

  const LONG_AGO = Date.now() - 2 * LIMIT.timestampToleranceMs;
  it.each([
    [
      'signed for another payload',
      (cmdId: string) => ({ ...signed(cmdId), payload: { targetSignedKw: 21 } }),
    ],
    ['signed long ago', (cmdId: string) => signed(cmdId, 'SITE_SETPOINT', LONG_AGO)],
    ['not signed', (cmdId: string) => ({ ...signed(cmdId), sig: '' })],
  ])('neither executes nor acknowledges a command that is %s', async (_name, made) => {
    const [cmdId, next] = [randomUUID(), randomUUID()];
    await publishCommand(made(cmdId));
    await publishCommand(signed(next));
    await answersTo(next, 3);
    expect(acks.map((ack) => ack.cmdId)).not.toContain(cmdId);
    expect(done).toHaveLength(1);
  });
});
