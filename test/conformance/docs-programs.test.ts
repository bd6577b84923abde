/**
 * Runs the programs of docs/amqp.md and docs/mqtt.md as a reader pastes them: the partner commands, the
 * gateway obeys [C-7.8].
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { missingPython, PYTHON, skippedWithout } from '#support/programs.ts';
import { eventually, TestStack } from '#support/stack.ts';
import type { ProvisioningPackage } from '../../protocol/device-record.ts';

const DOCS = join(import.meta.dirname, '..', '..', 'docs');
const missing = missingPython({ pika: 'python3-pika', 'paho.mqtt.client': 'python3-paho-mqtt' });

function programOf(page: string, name: string): string {
  const text = readFileSync(join(DOCS, page), 'utf8');
  const [, program] =
    new RegExp(`<!-- program: ${name} -->\\n\`\`\`python\\n([\\s\\S]*?)\`\`\``).exec(text) ?? [];
  if (program === undefined) throw new Error(`${page} has no program ${name}`);
  return program;
}

describe.skipIf(missing.length > 0)(`the programs of the documentation${skippedWithout(missing)}`, () => {
  let stack: TestStack;
  let folder: string;
  const running: ChildProcess[] = [];

  beforeAll(async () => {
    stack = await TestStack.start();
    folder = mkdtempSync(join(tmpdir(), 'sitewire-docs-'));
  });
  afterEach(async () => {
    for (const child of running) child.kill('SIGKILL');
    await eventually(() => running.every((child) => child.exitCode !== null || child.signalCode !== null));
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true, force: true });
    await stack.stop();
  });

  /** The program's output, line by line, as it arrives. */
  function run(page: string, name: string, given: object): { lines: string[]; child: ChildProcess } {
    writeFileSync(join(folder, name), programOf(page, name));
    writeFileSync(join(folder, `${name}.json`), JSON.stringify(given));
    const child = spawn(PYTHON, ['-u', name, `${name}.json`], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    running.push(child);
    const lines: string[] = [];
    createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
    return { lines, child };
  }

  /** A gateway's provisioning package, created over REST as an admin does it. */
  async function provision(): Promise<ProvisioningPackage> {
    const { admin, credentials } = stack;
    const registration = {
      name: 'Docs',
      serialNumber: 'DOCS-1',
      type: 'GATEWAY',
      authMethod: 'TOKEN',
      plantId: credentials.plantId,
    };
    const { id } = await admin.call<{ id: string }>('POST', '/devices', registration);
    return await admin.call<ProvisioningPackage>('POST', `/devices/${id}/provision`, {});
  }

  it('complete a command: the partner prints COMPLETED, the gateway prints the command it received', async () => {
    const { credentials, bridge, certificates } = stack;
    const gateway = run('mqtt.md', 'gateway.py', await provision());
    await eventually(async () => {
      const { body } = await stack.rest(`/vcp/sites/${credentials.plantId}/telemetry/latest`);
      return (body as { payload: { gridPowerKw: number | null } }).payload.gridPowerKw === 5;
    }, 15_000);
    const { id, ...apiKey } = credentials.apiKey;
    const partner = run('amqp.md', 'partner.py', {
      organization: credentials.organization,
      apiKey: { ...apiKey, vhost: `partner-${id}` },
      plants: [{ id: credentials.plantId }],
      amqp: { host: 'localhost', port: bridge.ports.amqps, ca: certificates.ca },
    });
    await eventually(() => partner.child.exitCode !== null, 15_000);
    const statuses = partner.lines.map((line) => /"status": "(\w+)"/.exec(line)?.[1] ?? line.split(' ')[0]);
    expect(statuses).toEqual(['recorded', 'ACCEPTED', 'EXECUTING', 'COMPLETED']);
    expect(
      gateway.lines.some((line) => line.startsWith('BESS_CHARGE {"targets": [{"deviceId": "BESS-1"')),
    ).toBe(true);
  }, 60_000);
});
