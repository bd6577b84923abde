/** `npm start` and `npm run demo` as a new user runs them, except for the ports. */
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import {
  cleanUp,
  expectGone,
  isAlive,
  newFolder,
  partnerOf,
  readSite,
  run,
  start,
} from '#support/dev-stack.ts';
import { parseExposition } from '#support/exposition.ts';
import { eventually } from '#support/stack.ts';
import { AdminClient } from '../../tools/admin-client.ts';
import type { Stack } from '../../tools/stack-file.ts';

afterEach(cleanUp);

/** A HIGH setpoint displaces the setpoint, which returns when the HIGH one ends [C-7.7]. */
const DISPLACED = /grid at 20.* grid at 5.* verdict +COMPLETED: 5 of 5 kW.* grid at 20/s;

async function modeOf(described: Stack): Promise<string> {
  return (await readSite<{ operatingMode: string }>(described, 'config')).operatingMode;
}

/** Orders a mode as a partner does; returns when the plant is in it. */
async function changeMode(described: Stack, mode: string): Promise<void> {
  const partner = await partnerOf(described);
  await partner.publish('mode', described.plants[0]?.id ?? '', { mode });
  await eventually(async () => (await modeOf(described)) === mode);
  await partner.close();
}

/** The status and the body of a GET that names this host, as a browser does after a name was bound to this machine. */
async function askAs(baseUrl: string, host: string, path: string, headers = {}): Promise<[number, string]> {
  const { port } = new URL(baseUrl);
  const sent = request({ host: '127.0.0.1', port, path, headers: { ...headers, host } }).end();
  const [response] = await once(sent, 'response');
  let body = '';
  for await (const part of response) body += part;
  return [response.statusCode, body];
}

describe('the hosts of npm start', () => {
  it('are this machine alone: another name gets 421, so no page of another site reads the stack [C-15.7]', async () => {
    const { described } = await start(newFolder());
    const { baseUrl, apiKey } = described;
    const { port } = new URL(baseUrl);
    const key = { 'x-api-key': apiKey.key };
    const sites = '/api/v1/vcp/sites';
    for (const host of ['localhost', '127.0.0.1', '[::1]', 'LOCALHOST', new URL(baseUrl).hostname])
      for (const name of [host, `${host}:${port}`])
        expect([name, (await askAs(baseUrl, name, sites, key))[0]]).toEqual([name, 200]);
    const others = [
      ...['attacker.example', 'localhost.attacker.example', '127.0.0.1.nip.io', 'xlocalhost', '10.0.0.1'],
      ...['[::2]', '127.0.0.2', 'localhost.', '0.0.0.0'],
    ];
    const paths = [
      sites,
      '/',
      '/healthz',
      '/api/v1/openapi.json',
      '/api/v1/docs',
      '/dev/simulator',
      '/link/ready',
    ];
    for (const path of paths)
      for (const name of [...others, `${others[0]}:${port}`]) {
        const [status, body] = await askAs(baseUrl, name, path, { ...key, accept: 'text/html' });
        expect([path, name, status]).toEqual([path, name, 421]);
        expect(JSON.parse(body)).toMatchObject({
          statusCode: 421,
          message: expect.stringContaining('localhost'),
        });
      }
  }, 120_000);
});

describe('npm start', () => {
  it('starts a stack that accepts the demo and explains signatures, and stops all of it on a signal', async () => {
    const folder = newFolder();
    const { stack, described } = await start(folder);
    const demo = run('demo.ts', folder);
    expect(await demo.ended, demo.output()).toBe(0);
    expect(demo.output()).toMatch(DISPLACED);
    expect(demo.output()).toContain('Demo passed.');
    const admin = await AdminClient.enter(described.baseUrl, described.admin);
    const organization = await admin.call('GET', `/organizations/${described.organization.id}`);
    expect(organization).toMatchObject({ settings: { signatureHints: true } });
    const { url, token } = described.edgeMetrics;
    const scraped = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    const metrics = parseExposition(await scraped.text());
    const answers = metrics.get('sitewire_edge_http_answers_total')?.samples ?? [];
    expect(answers.find(({ labels }) => labels.code === '200')?.value).toBeGreaterThan(0);

    stack.process.kill('SIGTERM');
    expect(await stack.ended).toBe(0);
    expect(existsSync(join(folder, 'stack.json'))).toBe(false);
    const { edge, bridge, simulator } = described.pids;
    await expectGone(edge, bridge, simulator);
  }, 120_000);

  it('starts again after a kill with its data, including changes by a partner [C-7.7], and no process of the killed stack survives', async () => {
    const folder = newFolder();
    const first = await start(folder);
    expect(await modeOf(first.described)).toBe('STANDARD');
    await changeMode(first.described, 'MAX_EXPORT');
    first.stack.process.kill('SIGKILL');
    await first.stack.ended;
    const { edge, bridge, simulator } = first.described.pids;
    await expectGone(bridge, simulator);
    const second = await start(folder);
    await expectGone(edge);
    expect(second.described.apiKey).toEqual(first.described.apiKey);
    expect(await modeOf(second.described)).toBe('MAX_EXPORT');
    await changeMode(second.described, 'STANDARD');
  }, 120_000);

  it.each(['SITEWIRE_HTTP_PORT', 'SITEWIRE_MQTTS_PORT'])(
    'names the taken port and the remedy, and starts nothing (%s)',
    async (name) => {
      const server = createServer().listen(0, '127.0.0.1');
      await once(server, 'listening');
      const { port } = server.address() as { port: number };
      const folder = newFolder();
      const stack = run('dev.ts', folder, { [name]: String(port) });
      expect(await stack.ended).toBe(1);
      server.close();
      expect(stack.output()).toBe(
        `Sitewire cannot start: port ${port} is in use: stop the program that listens on it, or set ${name} to another port\n`,
      );
      expect(existsSync(join(folder, 'edge'))).toBe(false);
    },
  );

  it('refuses a folder that another stack runs on', async () => {
    const folder = newFolder();
    const { described } = await start(folder);
    const second = run('dev.ts', folder);
    expect(await second.ended).toBe(1);
    expect(second.output()).toContain(`a stack is running on ${folder} (process ${described.pids.stack})`);
    expect(isAlive(described.pids.edge)).toBe(true);
  }, 120_000);

  it.each([
    ['SITEWIRE_AMQPS_PORT', 'amqps', 'must be a port, not "amqps"'],
    [
      'SITEWIRE_SIMULATOR',
      'fast',
      'must be one of off, on, offline, silent, slow, faulty, short, not "fast"',
    ],
  ])('refuses an invalid %s', async (name, value, reason) => {
    const stack = run('dev.ts', newFolder(), { [name]: value });
    expect(await stack.ended).toBe(1);
    expect(stack.output()).toBe(`Sitewire cannot start: ${name} ${reason}\n`);
  });

  it.each([
    ['{"bridgeSecret": "8a0f', 'not JSON'],
    ['{"bridgeSecret": 5}', 'bridgeSecret: must be text'],
  ])('reports broken credentials in one sentence: %s', async (text, reason) => {
    const folder = newFolder();
    const file = join(folder, 'credentials.json');
    writeFileSync(file, text);
    const stack = run('dev.ts', folder);
    expect(await stack.ended).toBe(1);
    expect(stack.output()).toBe(
      `Sitewire cannot start: ${file} is invalid (${reason}): fix it, or delete ${folder} to start with a new stack\n`,
    );
  });
});

describe('npm run demo', () => {
  it('prints the remedy when there is no stack', async () => {
    const demo = run('demo.ts', newFolder());
    expect(await demo.ended).toBe(1);
    expect(demo.output()).toContain('npm start');
    expect(demo.output()).not.toContain('    at ');
  });
});
