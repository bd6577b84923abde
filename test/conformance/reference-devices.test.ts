/**
 * The devices of examples/device, run as their makers would run them, against a whole stack (spec: Device
 * MQTT; [C-3.12]).
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasPrograms, hasPython, PYTHON, succeeds } from '#support/programs.ts';
import { eventually, TestStack } from '#support/stack.ts';
import type { DeviceRecord, ProvisioningPackage, RestCommand } from '../../protocol/device-record.ts';
import type { LoginAnswer } from '../../protocol/user.ts';
import type { ReceivedEvent } from '../../tools/partner.ts';
import { freePort } from '../../tools/ports.ts';

const FOLDER = join(import.meta.dirname, '..', '..', 'examples', 'device');
/** Long enough to connect, short enough to wait for its end. */
const LIFE_S = 8;

let stack: TestStack;
let folder: string;
let adminToken: string;
const running: ChildProcess[] = [];

beforeAll(async () => {
  stack = await TestStack.start();
  folder = mkdtempSync(join(tmpdir(), 'sitewire-devices-'));
  const login = await fetch(`${stack.edge.url}/api/v1/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(stack.credentials.admin),
  });
  adminToken = ((await login.json()) as LoginAnswer).accessToken;
});
afterAll(async () => {
  for (const child of running) child.kill('SIGTERM');
  await stack.stop();
  rmSync(folder, { recursive: true, force: true });
});

/**
 * The requirements of each device besides the project, and its command line; undefined when this machine
 * lacks one.
 */
const RUNTIMES: Record<string, () => [command: string, ...given: string[]] | undefined> = {
  'Python (python3-paho-mqtt)': () =>
    hasPython('paho.mqtt.client') ? [PYTHON, join(FOLDER, 'device.py')] : undefined,
  'Node (mqtt)': () => [process.execPath, join(FOLDER, 'device.mjs')],
  'C (libmosquitto-dev, libcjson-dev, libcurl4-openssl-dev, libssl-dev)': () => {
    const binary = join(tmpdir(), `sitewire-device-${process.pid}`);
    const libraries = ['-lmosquitto', '-lcjson', '-lcurl', '-lcrypto'];
    const isBuilt = succeeds('cc', '-O1', '-o', binary, join(FOLDER, 'device.c'), ...libraries);
    process.once('exit', () => rmSync(binary, { force: true }));
    return isBuilt ? [binary] : undefined;
  },
  'bash (mosquitto, mosquitto-clients, curl, openssl)': () =>
    hasPrograms('mosquitto', 'mosquitto_sub', 'curl', 'openssl')
      ? ['bash', join(FOLDER, 'gateway.sh')]
      : undefined,
};

interface Running {
  child: ChildProcess;
  /** The device's output so far. */
  said: () => { event: string; [name: string]: unknown }[];
}

async function run(command: readonly string[], file: string, deviceId: string): Promise<Running> {
  const [program = '', ...given] = command;
  const child = spawn(program, [...given, file], {
    env: {
      ...process.env,
      SITEWIRE_URL: stack.edge.url,
      SITEWIRE_DEVICE_ID: deviceId,
      SITEWIRE_ADMIN_TOKEN: adminToken,
      SITEWIRE_INTERVAL: '0.3',
      SITEWIRE_LOCAL_PORT: String(await freePort()),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running.push(child);
  let out = '';
  let errors = '';
  child.stdout?.on('data', (part: Buffer) => (out += part));
  child.stderr?.on('data', (part: Buffer) => (errors += part));
  const said = () => {
    if (child.exitCode !== null) throw new Error(`it ended: ${errors}`);
    const lines = out.split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line) as { event: string });
  };
  return { child, said };
}

async function until(device: Running, event: string, most = 20_000): Promise<void> {
  await eventually(() => device.said().some((one) => one.event === event), most);
}

/** A gateway, because it may name the plant's sub-devices. */
async function register(plantId = stack.credentials.plantId): Promise<string> {
  const serialNumber = randomUUID();
  const fields = { name: 'Reference', serialNumber, type: 'GATEWAY', authMethod: 'TOKEN', plantId };
  return (await stack.admin.call<DeviceRecord>('POST', '/devices', fields)).id;
}

/** Gives a stopped device another token. */
async function giveToken(file: string, token: string): Promise<void> {
  const own = JSON.parse(readFileSync(file, 'utf8')) as ProvisioningPackage;
  own.security.mqttToken = token;
  writeFileSync(file, JSON.stringify(own));
}

async function end({ child }: Running): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
}

/** Whether any process has the text in its command line. */
function isRunning(text: string): boolean {
  return readdirSync('/proc').some((entry) => {
    try {
      return /^\d+$/.test(entry) && readFileSync(`/proc/${entry}/cmdline`, 'utf8').includes(text);
    } catch {
      // The process ended during the check.
      return false;
    }
  });
}

const FOUND = Object.entries(RUNTIMES).map(([name, find]) => ({ name, command: find() }));

for (const { name, command } of FOUND) if (!command) console.warn(`skipped: ${name} is not on this machine`);

describe.concurrent('the reference device in', () => {
  for (const { name, command = [] } of FOUND.filter((one) => one.command)) {
    it(`${name} provisions itself, sends telemetry, obeys, and uses the tokens that the platform sends`, async () => {
      const id = await register();
      const file = join(folder, `${id}.json`);

      // 1. The device provisions itself, sends and obeys.
      const first = await run(command, file, id);
      await until(first, 'connected');
      await until(first, 'sent');
      const payload = { note: 'č | "5"', list: [1, { a: 2.5 }] };
      const sent = await stack.admin.call<RestCommand>('POST', `/devices/${id}/commands`, {
        action: 'REBOOT',
        payload,
      });
      await eventually(async () => {
        const path = `/devices/${id}/commands/${sent.cmdId}`;
        return (await stack.admin.call<RestCommand>('GET', path)).status === 'COMPLETED';
      }, 20_000);
      await end(first);

      // 2. Its token ends soon: the platform sends another, and the device uses it once the first has
      // expired.
      await giveToken(file, await stack.deviceToken(id, LIFE_S));
      const second = await run(command, file, id);
      await until(second, 'refreshed');
      await eventually(() => second.said().filter(({ event }) => event === 'connected').length >= 2, 20_000);
      const own = JSON.parse(readFileSync(file, 'utf8')) as ProvisioningPackage;
      expect(own.security.mqttToken).not.toBe('');

      // 3. The platform dropped none of its messages.
      const { drops } = await stack.admin.call<{ drops: object }>('GET', `/devices/${id}/diagnostics`);
      expect(drops).toEqual({});

      // 4. No process of the device survives its end.
      await end(second);
      await eventually(() => !isRunning(id));
    }, 60_000);
  }

  for (const { name, command = [] } of FOUND.filter((one) => one.command && !one.name.startsWith('bash'))) {
    it(`${name} requests a token with its secret when the broker refuses its token`, async () => {
      const id = await register();
      const file = join(folder, `${id}.json`);
      const first = await run(command, file, id);
      await until(first, 'connected');
      await end(first);
      await giveToken(file, 'no token');
      const device = await run(command, file, id);
      await until(device, 'refused');
      await until(device, 'refreshed');
      await until(device, 'connected');
      await end(device);
    }, 60_000);
  }
});

describe('the reference gateways', () => {
  const python = FOUND.find(({ name }) => name.startsWith('Python'))?.command;
  const bash = FOUND.find(({ name }) => name.startsWith('bash'))?.command;
  const gateways = [...(python ? [[PYTHON, join(FOLDER, 'gateway.py')]] : []), ...(bash ? [bash] : [])];

  it('follow their schedules slot by slot while the platform is unreachable [C-7.9]', async ({ skip }) => {
    if (gateways.length === 0) skip('neither python3-paho-mqtt nor mosquitto is on this machine');
    const partner = await stack.partner();
    await partner.consume('event.execution');
    const slots = [20, -5].map((value, slotIndex) => ({ slotIndex, mode: 'STANDARD', setpoint: { value } }));
    const begun = gateways.map(async (command) => {
      const { id: plantId } = await stack.addPlant();
      const id = await register(plantId);
      const device = await run(command, join(folder, `${id}.json`), id);
      // The gateway is online and subscribed: it has its configuration.
      await until(device, 'command', 45_000);
      // The second slot begins in ten seconds.
      const startTime = new Date(Date.now() - 50_000).toISOString();
      const plan = { startTime, slotDurationMinutes: 1, slots };
      const { correlationId } = await partner.publish('schedule', plantId, plan);
      const isActive = (one: ReceivedEvent) =>
        one.correlationId === correlationId && one.payload.status === 'EXECUTING';
      await partner.waitFor(isActive, 5_000);
      // The battery's power for targets of 20 kW, then -5 kW, with a load of 12 kW and 6 kW of PV.
      await eventually(() => JSON.stringify(device.said()).match(/"battery(Kw|Watts)":14/) ?? undefined);
      return device;
    });
    const devices = await Promise.all(begun);
    await stack.bridge.stop();
    for (const device of devices) {
      await eventually(
        () => JSON.stringify(device.said()).match(/"battery(Kw|Watts)":-11/) ?? undefined,
        30_000,
      );
    }
    await stack.restartBridge();
    await Promise.all(devices.map(end));
  }, 120_000);
});

describe('the reference devices', () => {
  it('have at most 230 lines each, and use no code of this project [C-3.12]', () => {
    for (const name of ['device.py', 'gateway.py', 'device.mjs', 'device.c', 'gateway.sh']) {
      const text = readFileSync(join(FOLDER, name), 'utf8');
      expect([name, text.split('\n').length - 1 <= 230]).toEqual([name, true]);
      expect(text).not.toMatch(/from '\.|import '\.|\.\.\//);
    }
  });
});
