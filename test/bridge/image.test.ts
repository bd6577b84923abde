/** The bridge's image, as far as a test can check it without a build. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { SECRET } from '#support/bridge-edge.ts';
import { ADDRESS, bridgeTest as it, WholeBridge } from '#support/bridge-whole.ts';
import { importsOf, readSources } from '#support/import-graph.ts';
import { readConfig } from '../../bridge/config.ts';
import { freePort } from '../../tools/ports.ts';

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
  it('.dockerignore admits exactly the existing files that the image copies', () => {
    const rules = read('.dockerignore')
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));
    expect(rules[0]).toBe('*');
    expect(rules.slice(1).sort()).toEqual(copied.map((path) => `!${path}`).sort());
    expect(copied.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });

  it('contains all imports of the bridge', () => {
    const { dependencies } = JSON.parse(read('bridge/package.json')) as {
      dependencies: Record<string, string>;
    };
    const imports = readSources(['bridge', 'protocol']).flatMap(importsOf);
    const missing = imports.filter(({ specifier, target, typeOnly }) => {
      if (typeOnly || specifier.startsWith('node:')) return false;
      if (target !== undefined)
        return !copied.some((path) => target === path || target.startsWith(`${path}/`));
      return !Object.keys(dependencies).some(
        (name) => specifier === name || specifier.startsWith(`${name}/`),
      );
    });
    // The import of amqplib's tables is computed.
    expect(missing.filter(({ file }) => !file.startsWith('bridge/amqp/wire/'))).toEqual([]);
    expect(Object.keys(dependencies)).toContain('amqplib');
  });

  it('exposes the bridge’s default ports, and its metrics to other hosts', () => {
    const config = readConfig({
      ...set,
      SITEWIRE_EDGE_URL: 'https://edge.example.org',
      SITEWIRE_BRIDGE_SECRET: SECRET,
      SITEWIRE_BRIDGE_ID: 'bridge-1',
      SITEWIRE_TLS_CERT: 'a',
      SITEWIRE_TLS_KEY: 'b',
      SITEWIRE_DEVICE_CA: 'ca',
    });
    const { amqpsPort, mqttsPort, mtls, metrics, host } = config;
    expect(all('EXPOSE').flat().map(Number)).toEqual([amqpsPort, mqttsPort, mtls?.port, metrics.port]);
    expect([host, metrics.host]).toEqual(['::', '::']);
  });

  it('runs bridge/index.ts, with bridge/healthcheck.ts as its health check', () => {
    const run = [...all('CMD'), ...all('HEALTHCHECK')].map(
      (words) => /\["node", "(.+)"\]/.exec(words.join(' '))?.[1],
    );
    expect(run).toEqual(['bridge/index.ts', HEALTHCHECK]);
    for (const file of run) expect(existsSync(join(ROOT, file ?? ''))).toBe(true);
  });
});

describe('the health check', () => {
  async function check(host: string, port: number): Promise<unknown> {
    const environment = { SITEWIRE_METRICS_HOST: host, SITEWIRE_METRICS_PORT: String(port) };
    const child = fork(join(ROOT, HEALTHCHECK), { env: { ...process.env, ...environment } });
    const [code] = await once(child, 'exit');
    return code;
  }

  it.for([ADDRESS, '::'])(
    'exits with 0 while a bridge runs at %s, and with 1 without one',
    async (host, { edge, certificates }) => {
      const bridge = await WholeBridge.start(edge, certificates, { SITEWIRE_METRICS_HOST: host });
      expect(await check(host, bridge.ports.metrics)).toBe(0);
      await bridge.stop();
      expect(await check(host, await freePort())).toBe(1);
    },
  );
});
