/** The bridge's image, as far as it can be seen without building it: what it copies, installs, exposes and asks of itself. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readConfig } from '../../bridge/config.ts';
import { freePort } from '../../tools/ports.ts';
import { SECRET, TestEdge } from '../support/bridge-edge.ts';
import { ADDRESS, TestCertificates, WholeBridge } from '../support/bridge-whole.ts';
import { importsOf, readSources } from '../support/import-graph.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const HEALTHCHECK = 'bridge/healthcheck.ts';

function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

const instructions = read('bridge/Dockerfile')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line) => {
    const [word = '', ...rest] = line.split(' ');
    return { word, rest };
  });

function all(word: string): string[][] {
  return instructions.filter((one) => one.word === word).map(({ rest }) => rest);
}

const copied = all('COPY').flatMap((paths) => paths.slice(0, -1));
const set = Object.fromEntries(all('ENV').flatMap((pairs) => pairs.map((pair) => pair.split(/=(.*)/))));

describe('the image', () => {
  it('is given what it copies, which is there, and nothing else', () => {
    const rules = read('.dockerignore')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));
    expect(rules[0]).toBe('*');
    expect(rules.slice(1).sort()).toEqual(copied.map((path) => `!${path}`).sort());
    expect(copied.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });

  it('has all that the bridge imports', () => {
    const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
    const imports = readSources(['bridge', 'protocol']).flatMap(importsOf);
    const missing = imports.filter(({ specifier, target, typeOnly }) => {
      if (typeOnly || specifier.startsWith('node:')) return false;
      if (target !== undefined)
        return !copied.some((path) => target === path || target.startsWith(`${path}/`));
      return !Object.keys(dependencies).some(
        (name) => specifier === name || specifier.startsWith(`${name}/`),
      );
    });
    // How amqplib's tables are reached is computed.
    expect(missing.filter(({ file }) => !file.startsWith('bridge/amqp/wire/'))).toEqual([]);
    expect(Object.keys(dependencies)).toContain('amqplib');
  });

  it('exposes the ports that the bridge listens on by default, and its metrics to who is outside of it', () => {
    const required = { URL: 'https://edge.example.org', CERT: 'a', KEY: 'b' };
    const config = readConfig({
      ...set,
      SITEWIRE_EDGE_URL: required.URL,
      SITEWIRE_BRIDGE_SECRET: SECRET,
      SITEWIRE_BRIDGE_ID: 'bridge-1',
      SITEWIRE_TLS_CERT: required.CERT,
      SITEWIRE_TLS_KEY: required.KEY,
      SITEWIRE_DEVICE_CA: 'ca',
    });
    const { amqpsPort, mqttsPort, mtls, metrics, host } = config;
    expect(all('EXPOSE').flat().map(Number)).toEqual([amqpsPort, mqttsPort, mtls?.port, metrics.port]);
    expect([host, metrics.host]).toEqual(['::', '::']);
  });

  it('runs files that it has', () => {
    const run = [...all('CMD'), ...all('HEALTHCHECK')].map(
      (words) => /\["node", "(.+)"\]/.exec(words.join(' '))?.[1],
    );
    expect(run).toEqual(['bridge/index.ts', HEALTHCHECK]);
    for (const file of run) expect(existsSync(join(ROOT, file ?? ''))).toBe(true);
  });
});

describe('its health check', () => {
  let certificates: TestCertificates;
  let edge: TestEdge;

  beforeAll(async () => {
    certificates = await TestCertificates.create();
    edge = await TestEdge.start();
  });
  afterAll(async () => {
    await edge.stop();
    certificates.remove();
  });

  async function check(host: string, port: number): Promise<unknown> {
    const environment = { SITEWIRE_METRICS_HOST: host, SITEWIRE_METRICS_PORT: String(port) };
    const child = fork(join(ROOT, HEALTHCHECK), { env: { ...process.env, ...environment } });
    const [code] = await once(child, 'exit');
    return code;
  }

  it.each([ADDRESS, '::'])('is good of a bridge that listens at %s, and not of none', async (host) => {
    const bridge = await WholeBridge.start(edge, certificates, { SITEWIRE_METRICS_HOST: host });
    expect(await check(host, bridge.ports.metrics)).toBe(0);
    await bridge.stop();
    expect(await check(host, await freePort())).toBe(1);
  });
});
