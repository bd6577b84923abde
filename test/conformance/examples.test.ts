/**
 * Runs the programs that people copy, as their head comments say: each partner of examples/partner, each
 * gateway of examples/device, `npm run sitewire -- gateway` and `npm run sitewire -- token`. All run concurrently on one stack of
 * `npm start`, each pair at its own plant.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connectAsync } from 'mqtt';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cleanUp, follow, newFolder, type Run, run, start } from '#support/dev-stack.ts';
import { hasJava, hasPrograms, hasPython, javaCommand, PYTHON, succeeds } from '#support/programs.ts';
import { eventually } from '#support/stack.ts';
import type { DeviceRecord, ProvisioningPackage } from '../../protocol/device-record.ts';
import type { CommandFamily } from '../../protocol/routing-keys.ts';
import type { AdminClient } from '../../tools/admin-client.ts';
import { Partner } from '../../tools/partner.ts';
import { freePort } from '../../tools/ports.ts';
import { makePlant, type SeededKey, seedApiKey } from '../../tools/seed.ts';
import { enterStack } from '../../tools/stack-device.ts';
import type { Stack } from '../../tools/stack-file.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const EXAMPLES = join(ROOT, 'examples');

type Command = readonly [program: string, ...given: string[]];

interface Example {
  command: Command;
  /** A requirement of the program that this machine lacks. */
  missing: string | undefined;
}

const missingUnless = (isThere: boolean, needed: string) => (isThere ? undefined : needed);
const partnerFile = (name: string) => join(EXAMPLES, 'partner', name);
const gatewayFile = (name: string) => join(EXAMPLES, 'device', name);

function missingJava(): string | undefined {
  // This program must be compiled first, which takes longer than all others.
  if (process.env.SITEWIRE_CONFORMANCE === undefined) return 'npm run sitewire -- conformance runs it';
  return missingUnless(hasJava(), 'install librabbitmq-client-java and a JDK');
}

const PARTNERS: Record<'partner.py' | 'partner.mjs' | 'Partner.java', Example> = {
  'partner.py': {
    command: [PYTHON, partnerFile('partner.py')],
    missing: missingUnless(hasPython('pika'), 'install python3-pika'),
  },
  'partner.mjs': { command: [process.execPath, partnerFile('partner.mjs')], missing: undefined },
  'Partner.java': {
    command: javaCommand(partnerFile('Partner.java')),
    missing: missingJava(),
  },
};
const STREAMS: Record<'stream.py' | 'stream.mjs', Example> = {
  'stream.py': {
    command: [PYTHON, partnerFile('stream.py'), '5'],
    missing: missingUnless(succeeds(PYTHON, '--version'), 'install python3'),
  },
  'stream.mjs': { command: [process.execPath, partnerFile('stream.mjs'), '5'], missing: undefined },
};
const WEBHOOKS: Record<'webhook.py' | 'webhook.mjs', Example> = {
  'webhook.py': {
    command: [PYTHON, partnerFile('webhook.py'), '5'],
    missing: missingUnless(succeeds(PYTHON, '--version'), 'install python3'),
  },
  'webhook.mjs': { command: [process.execPath, partnerFile('webhook.mjs'), '5'], missing: undefined },
};
const REST: Example = {
  command: ['bash', partnerFile('partner.sh')],
  missing: missingUnless(succeeds('curl', '--version'), 'install curl'),
};
const GATEWAYS: Record<'gateway.py' | 'gateway.sh' | 'npm run sitewire -- gateway', Example> = {
  'gateway.py': {
    command: [PYTHON, gatewayFile('gateway.py')],
    missing: missingUnless(hasPython('paho.mqtt.client'), 'install python3-paho-mqtt'),
  },
  'gateway.sh': {
    command: ['bash', gatewayFile('gateway.sh')],
    missing: missingUnless(
      hasPrograms('mosquitto', 'mosquitto_sub', 'mosquitto_pub', 'curl', 'openssl'),
      'install mosquitto, mosquitto-clients, curl and openssl',
    ),
  },
  'npm run sitewire -- gateway': {
    command: [process.execPath, join(ROOT, 'tools', 'gateway.ts')],
    missing: undefined,
  },
};

/** Each program runs at least once, each pair at its own plant with its own key. */
const PAIRS: { partner: keyof typeof PARTNERS; gateway: keyof typeof GATEWAYS }[] = [
  { partner: 'partner.mjs', gateway: 'gateway.py' },
  { partner: 'partner.py', gateway: 'gateway.sh' },
  { partner: 'Partner.java', gateway: 'npm run sitewire -- gateway' },
];

/** The program that runs at a plant; undefined when this machine lacks a requirement. */
interface Scene {
  plantId: string;
  key: SeededKey;
  deviceId: string;
  gateway: Run | undefined;
  partner: Run | undefined;
}

let folder: string;
let stack: Stack;
let admin: AdminClient;
let scenes: Scene[];
let readmes: { partner: Run; rest: Run };
/** The programs that end after five events. */
let readers: Map<string, Run>;

beforeAll(async () => {
  folder = newFolder();
  ({ described: stack } = await start(folder));
  admin = await enterStack(stack);
  const here = { SITEWIRE_DATA_DIR: folder };
  const partner = runExample(PARTNERS[PARTNERS['partner.py'].missing ? 'partner.mjs' : 'partner.py'], here);
  readmes = { partner, rest: runExample(REST, here) };
  readers = new Map(
    Object.entries({ ...STREAMS, ...WEBHOOKS })
      .filter(([, { missing }]) => !missing)
      .map(([name, example]) => [name, runExample(example, here)]),
  );
  scenes = await Promise.all(PAIRS.map(async (pair, index) => await setUp(pair, index)));
}, 90_000);
afterAll(cleanUp);

function runExample(
  { command: [program, ...given] }: Example,
  env: Record<string, string>,
  ...more: string[]
): Run {
  return follow(program, [...given, ...more], folder, env);
}

async function setUp({ partner, gateway }: (typeof PAIRS)[number], index: number): Promise<Scene> {
  const eans = { eanCons: `85918240000000010${index}`, eanProd: `85918240000000020${index}` };
  const plantId = await makePlant(admin, { name: `Plant of ${gateway}`, externalPlantId: null, ...eans });
  const key = await seedApiKey(admin);
  const file = join(folder, `package-${index}.json`);
  const written = run('gateway.ts', folder, {}, ['--plant', plantId, '--package', file]);
  expect(await written.ended, written.output()).toBe(0);
  const { deviceId } = JSON.parse(readFileSync(file, 'utf8')) as ProvisioningPackage;
  const settings = {
    SITEWIRE_URL: stack.baseUrl,
    SITEWIRE_INTERVAL: '1',
    SITEWIRE_LOCAL_PORT: String(await freePort()),
  };
  const { missing } = GATEWAYS[gateway];
  const program = missing ? 'npm run sitewire -- gateway' : gateway;
  const given = program === 'npm run sitewire -- gateway' ? ['--plant', plantId] : [file];
  const served = runExample(GATEWAYS[program], settings, ...given);
  // The gateway is online and has its configuration, so new commands are not held up.
  await eventually(() => served.output().includes('CONFIG_SET') || undefined, 60_000);
  const ran = PARTNERS[partner].missing ? undefined : runExample(PARTNERS[partner], settingsOf(plantId, key));
  return { plantId, key, deviceId, gateway: missing ? undefined : served, partner: ran };
}

/** The values from the key's connectionBundle. */
function settingsOf(plantId: string, { id, key, signingKey }: SeededKey): Record<string, string> {
  const { amqp, organization } = stack;
  return {
    SITEWIRE_AMQP_URI: `amqps://${organization.slug}:${key}@${amqp.host}:${amqp.port}/partner-${id}`,
    SITEWIRE_CA: amqp.ca,
    SITEWIRE_SIGNING_KEY: signingKey,
    SITEWIRE_SITE_ID: plantId,
    SITEWIRE_BATTERY: 'BESS-1',
  };
}

/** Three commands are confirmed, acknowledged and completed, one of them according to measurements. */
async function expectThreeCompleted({ ended, output }: Run): Promise<void> {
  expect(await ended, output()).toBe(0);
  const lines = output().split('\n');
  const count = (pattern: RegExp) => lines.filter((line) => pattern.test(line)).length;
  expect([count(/confirmed/), count(/ACCEPTED/), count(/COMPLETED/)], output()).toEqual([3, 3, 3]);
  expect(output()).toMatch(/"actualValueKw": ?20\b/);
}

describe.each(PAIRS)('$partner with $gateway', (pair) => {
  const sceneOf = () => scenes[PAIRS.indexOf(pair)] as Scene;
  const { missing: missingPartner } = PARTNERS[pair.partner];
  const { missing: missingGateway } = GATEWAYS[pair.gateway];

  it(`the partner's commands complete, and its setpoint is verified by measurements [C-7.8] (${pair.partner})`, async ({
    skip,
  }) => {
    if (missingPartner) skip(missingPartner);
    await expectThreeCompleted(sceneOf().partner as Run);
  }, 60_000);

  it(`the gateway obeys, and the platform drops none of its messages [C-7.10] (${pair.gateway})`, async ({
    skip,
  }) => {
    if (missingGateway) skip(missingGateway);
    const { plantId, key, deviceId, partner } = sceneOf();
    await partner?.ended;
    const { slug } = stack.organization;
    const desk = await Partner.connect({ ...stack.amqp, ...key, slug, vhost: `partner-${key.id}` });
    await desk.consume('event.execution');
    const command = async (family: CommandFamily, payload: object, status = 'COMPLETED') => {
      const { correlationId } = await desk.publish(family, plantId, payload);
      await desk.waitFor((event) => event.correlationId === correlationId && event.payload.status === status);
    };
    const until = async (name: string, kw: number) => {
      const headers = { 'x-api-key': key.key };
      const url = `${stack.baseUrl}/api/v1/vcp/sites/${plantId}/telemetry/latest`;
      await eventually(async () => {
        const { payload } = (await (await fetch(url, { headers })).json()) as {
          payload: Record<string, number>;
        };
        return payload[name] === kw || undefined;
      });
    };
    const toPv = (command: string) => ({ commands: [{ deviceId: 'FVE-1', assetType: 'FVE', command }] });
    await command('device', toPv('FVE_STOP'));
    await until('fvePowerKw', 0);
    await command('device', toPv('FVE_PRODUCE_MAX'));
    await command('config', { constraints: { maxImportKw: 60 } });
    const slots = [{ slotIndex: 0, mode: 'STANDARD', setpoint: { value: 33.5 } }];
    await command('schedule', { startTime: new Date(Date.now() - 1_000).toISOString(), slots }, 'EXECUTING');
    await until('gridPowerKw', 33.5);
    await command('emergency', { type: 'HOLD' });
    await command('emergency', { type: 'STOP' });
    await until('batteryPowerKw', 0);
    await command('mode', { mode: 'STANDARD' });
    await until('gridPowerKw', 33.5);
    await desk.close();
    const { drops } = await admin.call<{ drops: object }>('GET', `/devices/${deviceId}/diagnostics`);
    expect(drops).toEqual({});
  }, 60_000);
});

describe('on a stack of npm start', () => {
  it('a partner connects, and the simulated plant completes its commands', async () => {
    await expectThreeCompleted(readmes.partner);
  }, 60_000);

  it.for(Object.entries(STREAMS))(
    '%s prints five events after it has verified them [C-12.3]',
    { timeout: 60_000 },
    async ([name, { missing }], { skip }) => {
      if (missing) skip(missing);
      const ran = readers.get(name) as Run;
      expect(await ran.ended, ran.output()).toBe(0);
      const lines = ran.output().trim().split('\n');
      expect(lines).toHaveLength(5);
      for (const line of lines) expect(line).toMatch(/^\d+ \d{4}-\S+Z (telemetry|ack|execution|alarm) \{/);
    },
  );

  it.for(Object.entries(WEBHOOKS))(
    '%s prints the messages that it has verified, and deletes its webhook after five events [C-12.4]',
    async ([name, { missing }], { skip }) => {
      if (missing) skip(missing);
      const ran = readers.get(name) as Run;
      expect(await ran.ended, ran.output()).toBe(0);
      const lines = ran.output().trim().split('\n');
      const messages = lines.filter((line) => !line.startsWith('listening on port'));
      const form = /^[\w-]{36,40} \d{4}-\S+Z (webhook\.verify|telemetry|ack|execution|alarm) \{/;
      for (const line of messages) expect(line).toMatch(form);
      // A program with threads may print the first event before the check that the platform sent before it.
      expect(messages.some((line) => line.includes(' webhook.verify '))).toBe(true);
      expect(new Set(messages.map((line) => line.split(' ')[0])).size).toBeGreaterThanOrEqual(6);
      const { data } = await admin.call<{ data: { description: string }[] }>('GET', '/partner/webhooks');
      const own = name === 'webhook.py' ? name : 'npm run sitewire -- webhook';
      expect(data.map(({ description }) => description)).not.toContain(own);
    },
  );

  it.for(Object.entries(STREAMS))(
    '%s prints why its key is refused, and exits with 1',
    async ([, example], { skip }) => {
      if (example.missing) skip(example.missing);
      const elsewhere = newFolder();
      const apiKey = { ...stack.apiKey, key: 'sw_x' };
      writeFileSync(join(elsewhere, 'stack.json'), JSON.stringify({ ...stack, apiKey }));
      const ran = runExample(example, { SITEWIRE_DATA_DIR: elsewhere });
      expect(await ran.ended).toBe(1);
      expect(ran.output()).toContain('UNAUTHORIZED');
      expect(ran.output()).not.toMatch(/Traceback| {4}at /);
    },
  );

  it('partner.sh gets an answer to every read', async ({ skip }) => {
    if (REST.missing) skip(REST.missing);
    expect(await readmes.rest.ended, readmes.rest.output()).toBe(0);
    const answers = readmes.rest
      .output()
      .split('\n')
      .filter((line) => line.startsWith('{'));
    expect(answers).toHaveLength(6);
    expect(answers.join('')).toContain('"batteryPowerKw"');
  });

  it.for(Object.entries(PARTNERS))(
    '%s prints why its command is rejected, and exits with 1',
    async ([, example], { skip }) => {
      if (example.missing) skip(example.missing);
      const elsewhere = newFolder();
      const plants = stack.plants.map((plant) => ({ ...plant, id: randomUUID() }));
      writeFileSync(join(elsewhere, 'stack.json'), JSON.stringify({ ...stack, plants }, null, 2));
      const ran = runExample(example, { SITEWIRE_DATA_DIR: elsewhere });
      expect(await ran.ended).toBe(1);
      expect(ran.output()).toMatch(/REJECTED.*no such site/);
      expect(ran.output()).not.toMatch(/Traceback| {4}at /);
    },
  );

  it('npm run sitewire -- gateway does not overwrite a file that is not a package', async () => {
    const file = join(newFolder(), 'package.json');
    writeFileSync(file, '{"name":"mine"}');
    const tool = run('gateway.ts', folder, {}, ['--package', file]);
    expect([await tool.ended, tool.output()]).toEqual([1, expect.stringContaining('choose another name')]);
    expect(readFileSync(file, 'utf8')).toBe('{"name":"mine"}');
  });

  it("npm run sitewire -- gateway does not take over the simulated plant's session", async () => {
    const tool = run('gateway.ts', folder);
    expect(await tool.ended).toBe(1);
    expect(tool.output()).toContain('npm run sitewire -- simulate off');
  });

  it('npm run sitewire -- token prints a token that MQTT accepts, and one that REST accepts', async () => {
    const fields = { name: 'Probe', serialNumber: randomUUID(), type: 'SENSOR', authMethod: 'TOKEN' };
    const { id } = await admin.call<DeviceRecord>('POST', '/devices', fields);
    const tokenOf = async (...given: string[]) => {
      const tool = run('token.ts', folder, {}, given);
      expect(await tool.ended, tool.output()).toBe(0);
      return (
        tool
          .output()
          .split('\n')
          .find((line) => line.startsWith('eyJ')) ?? ''
      );
    };
    const password = await tokenOf('--device', id, '--expires-in', '60');
    const { host, port, ca } = stack.mqtt;
    const login = { username: id, clientId: id, password, reconnectPeriod: 0 };
    const client = await connectAsync({ protocol: 'mqtts', host, port, ca: readFileSync(ca), ...login });
    await client.endAsync();
    const headers = { authorization: `Bearer ${await tokenOf('--admin')}` };
    expect((await fetch(`${stack.baseUrl}/api/v1/auth/me`, { headers })).status).toBe(200);
  });

  it('npm run sitewire -- token lists the devices when it is called with an unknown one', async () => {
    const tool = run('token.ts', folder, {}, ['--device', 'nobody']);
    expect(await tool.ended).toBe(1);
    expect(tool.output()).toMatch(/^no device is called "nobody"; choose one of:\n {2}[0-9a-f-]{36} {2}/);
  });
});
