/**
 * The code samples of a bundle, run as pasted: with nothing but the CA of this stack's listener next to them.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { KEYS, recordOf, wanted } from '#support/api-keys.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import type { CreatedApiKey } from '../../protocol/api-key-record.ts';
import { LIMIT } from '../../protocol/limits.ts';
import type { ApiKeyScope } from '../../protocol/scopes.ts';
import type { SeededPlant } from '../../tools/seed.ts';

const PYTHON = '/usr/bin/python3';
const MODULES = join(import.meta.dirname, '..', '..', 'node_modules');
const SENDER: ApiKeyScope[] = ['vcp:connect', 'vcp:read', 'vcp:write:device-command'];
/** [C-8.2] A telemetry event right after another is sent five seconds later. */
const TELEMETRY_WITHIN_MS = 20_000;

type Language = 'node' | 'python';

interface Setting {
  file: string;
  command: string;
  /** Undefined when the program is installed. */
  missing: string | undefined;
  environment(ca: string): Record<string, string>;
}

const SETTINGS: Record<Language, Setting> = {
  node: {
    file: 'sample.cjs',
    command: process.execPath,
    missing: undefined,
    environment: (ca) => ({ NODE_EXTRA_CA_CERTS: ca, NODE_PATH: MODULES }),
  },
  python: {
    file: 'sample.py',
    command: PYTHON,
    missing: isThere(PYTHON, '-c', 'import pika') ? undefined : 'python3-pika',
    environment: (ca) => ({ SSL_CERT_FILE: ca }),
  },
};

function isThere(command: string, ...given: string[]): boolean {
  return spawnSync(command, given, { stdio: 'ignore' }).status === 0;
}

/** A running sample. */
interface Running {
  child: ChildProcess;
  /** The output so far, line by line. */
  printed: string[];
  /** The error output so far. */
  errors: string[];
  /** The exit code. */
  end: number | undefined;
}

const stack = suiteStack();
const folder = mkdtempSync(join(tmpdir(), 'sitewire-samples-'));

beforeAll(async () => {
  const settings = { telemetryIntervalSeconds: LIMIT.telemetryIntervalSecondsMin };
  await stack.admin.call('PATCH', `/organizations/${stack.admin.organizationId}`, { settings });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(language: Language, { connectionBundle }: CreatedApiKey): Running {
  const { file, command, environment } = SETTINGS[language];
  writeFileSync(join(folder, file), connectionBundle?.codeSamples[language] ?? '');
  const env = { PATH: process.env.PATH ?? '', ...environment(stack.certificates.ca) };
  const child = spawn(command, [file], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const running: Running = { child, printed: [], errors: [], end: undefined };
  createInterface({ input: child.stdout }).on('line', (line) => running.printed.push(line));
  createInterface({ input: child.stderr }).on('line', (line) => running.errors.push(line));
  child.on('close', (code) => {
    running.end = code ?? -1;
  });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await eventually(() => running.end !== undefined);
  });
  return running;
}

/**
 * Returns the rest of the first line that begins with the prefix and contains the text. Throws the error
 * output when the sample ended without such a line.
 */
function find(sample: Running, word: string, text = ''): string | undefined {
  const line = sample.printed.find((one) => one.startsWith(`${word} `) && one.includes(text));
  if (!line && sample.end !== undefined) throw new Error(`it ended: ${sample.errors.join('\n')}`);
  return line?.slice(word.length + 1);
}

/** The device reports its values from now on, again and again, until the sample prints them. */
async function expectTelemetry(sample: Running, plant: SeededPlant): Promise<void> {
  const gateway = await stack.gateway(plant.gateway);
  try {
    await eventually(() => gateway.connected || undefined);
    const line = await eventually(async () => {
      await gateway.publishTelemetry({ gridPowerKw: 7.5 });
      return find(sample, 'telemetry', '"gridPowerKw":7.5');
    }, TELEMETRY_WITHIN_MS);
    expect(JSON.parse(line)).toMatchObject({ siteId: plant.id, payload: { gridPowerKw: 7.5 } });
  } finally {
    await gateway.stop();
  }
}

/** The sample receives the reason of the connection's end, prints it in a line, and ends. */
async function expectEnd(sample: Running, { apiKey }: CreatedApiKey): Promise<void> {
  await stack.admin.call('DELETE', `${KEYS}/${apiKey.id}`);
  expect(await eventually(() => sample.end)).toBe(1);
  expect(sample.errors).toEqual([expect.stringMatching(/connection.*320.*CONNECTION.FORCED/)]);
}

/** A key that sees only its own plant, and its connection data. */
async function keyOfPlant(scopes: ApiKeyScope[]): Promise<{ plant: SeededPlant; created: CreatedApiKey }> {
  const plant = await stack.addPlant();
  const created = await stack.admin.createKey(wanted(scopes, { allowedPlantIds: [plant.id] }));
  return { plant, created };
}

describe.each(Object.keys(SETTINGS) as Language[])('the sample for %s', (language) => {
  const { missing } = SETTINGS[language];
  const skipped = missing ? ` (skipped: install ${missing})` : '';

  it.skipIf(missing)(
    `sends a signed command, prints its ack and telemetry, and ends with its connection [C-7.2]${skipped}`,
    async () => {
      const { plant, created } = await keyOfPlant(SENDER);
      const { slug } = stack.credentials.organization;
      expect(created.connectionBundle?.codeSamples[language]).toMatch(
        new RegExp(`^ *(#|//).*vcp\\.${slug}\\.event\\.execution`, 'm'),
      );
      const gateway = await stack.gateway(plant.gateway);
      await eventually(() => gateway.connected || undefined);
      const sample = run(language, created);
      const asked = JSON.parse(await eventually(() => find(sample, 'dry-run')));
      expect(asked).toMatchObject({
        acknowledgement: { status: 'ACCEPTED', commandType: 'DEVICE_COMMAND' },
        plan: { plantCommand: { deviceId: plant.gateway.id } },
      });
      await gateway.stop();
      const ack = JSON.parse(await eventually(() => find(sample, 'ack')));
      expect(ack).toMatchObject({ correlationId: 'sample-1', siteId: plant.id });
      expect(ack.payload).toMatchObject({ status: 'REJECTED', rejectionCode: 'DEVICE_OFFLINE' });
      // A wrong signature would be INVALID_PAYLOAD.
      const { body } = await stack.rest(`/vcp/sites/${plant.id}/commands`, created.key);
      const messageId = await eventually(() => find(sample, 'sent'));
      expect((body as { items: object[] }).items).toContainEqual(
        expect.objectContaining({
          messageId,
          commandType: 'DEVICE_COMMAND',
          rejectionCode: 'DEVICE_OFFLINE',
          keyPrefix: created.apiKey.keyPrefix,
        }),
      );
      await expectTelemetry(sample, plant);
      await expectEnd(sample, created);
    },
  );

  it.skipIf(missing)(
    `prints telemetry and sends nothing for a key without write scopes (spec: Connection bundle)${skipped}`,
    async () => {
      const { plant, created } = await keyOfPlant(['vcp:connect', 'vcp:read']);
      const sample = run(language, created);
      await eventually(async () => (await recordOf(stack, created.apiKey.id)).lastUsedAt ?? undefined);
      await expectTelemetry(sample, plant);
      expect(sample.printed.filter((line) => !line.startsWith('telemetry '))).toEqual([]);
      await expectEnd(sample, created);
    },
  );

  it.skipIf(missing)(`sends a command for a key with only a connect scope [C-5.3]${skipped}`, async () => {
    const { plant, created } = await keyOfPlant(['vcp:connect']);
    const sample = run(language, created);
    expect(JSON.parse(await eventually(() => find(sample, 'ack')))).toMatchObject({ siteId: plant.id });
    await expectEnd(sample, created);
  });
});

const hasCurl = isThere('curl', '--version');

describe.skipIf(!hasCurl)(`the sample for curl${hasCurl ? '' : ' (skipped: install curl)'}`, () => {
  const pasted = ({ connectionBundle }: CreatedApiKey) => {
    const text = connectionBundle?.codeSamples.curl ?? '';
    const { stdout, status } = spawnSync('sh', ['-c', text], { encoding: 'utf8' });
    return { status, answer: JSON.parse(stdout) };
  };

  it('reads the plants of the key (spec: Connection bundle)', async () => {
    const created = await stack.admin.createKey(wanted(['vcp:connect', 'vcp:read']));
    const { status, answer } = pasted(created);
    expect([status, JSON.stringify(answer)]).toEqual([0, expect.stringContaining(stack.credentials.plantId)]);
  });

  it('names vcp:read in a comment for a key without that scope, and gets 403 [C-5.3]', async () => {
    const created = await stack.admin.createKey(wanted(['vcp:connect', 'vcp:write:mode']));
    expect(created.connectionBundle?.codeSamples.curl).toMatch(/^#.*vcp:read/);
    expect(pasted(created)).toMatchObject({ status: 0, answer: { statusCode: 403, code: 'FORBIDDEN' } });
  });
});
