/** The files of `deploy/` name variables, ports and paths that the bridge has, and are valid for the programs that read them. */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { readConfig } from '../bridge/config.ts';

const DEPLOY = join(import.meta.dirname, '..', 'deploy');
const PORTS = [5671, 8885, 8883, 9464];
const read = (name: string) => readFileSync(join(DEPLOY, name), 'utf8');
const isThere = (program: string) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;

interface EnvEntry {
  name: string;
  value?: string;
}

function exampleEnvironment(): Record<string, string> {
  const lines = read('bridge.env.example').split('\n');
  const set = lines.filter((line) => /^(# )?SITEWIRE_\w+=/.test(line)).map((line) => line.replace(/^# /, ''));
  return Object.fromEntries(
    set.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}

describe('deploy/bridge.env.example', () => {
  it('is a complete configuration of a bridge', () => {
    const { edgeUrl, bridgeId, proxies, mtls } = readConfig(exampleEnvironment());
    expect([edgeUrl, bridgeId, proxies, mtls?.port]).toEqual([
      'https://api.example.com',
      'bridge-1',
      ['10.0.1.0/24'],
      8883,
    ]);
  });

  it('has only variables that docs/operations.md explains', () => {
    const docs = readFileSync(join(DEPLOY, '..', 'docs', 'operations.md'), 'utf8');
    expect(Object.keys(exampleEnvironment()).filter((name) => !docs.includes(`\`${name}\``))).toEqual([]);
  });
});

describe('deploy/compose.yml', () => {
  const { bridge } = parse(read('compose.yml')).services;

  it('publishes the ports of the clients, and that of the metrics only to this machine', () => {
    expect(bridge.ports).toEqual(['5671:5671', '8885:8885', '8883:8883', '127.0.0.1:9464:9464']);
  });

  it('mounts the folder that the environment names, and leaves the bridge time to end', () => {
    const { SITEWIRE_TLS_CERT: certificate = '' } = exampleEnvironment();
    expect(bridge.volumes).toEqual([`${certificate.replace(/\/[^/]+$/, '')}:/etc/sitewire/tls:ro`]);
    expect(Number.parseInt(bridge.stop_grace_period, 10)).toBeGreaterThan(10);
  });
});

describe('deploy/kubernetes/bridge.yml', () => {
  const documents = parseAllDocuments(read('kubernetes/bridge.yml')).map((one) => one.toJS());
  const { spec: pod } = documents[0].spec.template;
  const [container] = pod.containers;

  it('sets a complete configuration; each pod has a name of its own', () => {
    const entries = container.env as EnvEntry[];
    const given = entries.map(({ name, value }) => [name, value ?? `set-at-run-time-${name}`.slice(0, 40)]);
    expect(readConfig(Object.fromEntries(given)).mtls?.port).toBe(8883);
    const id = entries.find(({ name }) => name === 'SITEWIRE_BRIDGE_ID');
    expect(id).toMatchObject({ valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } });
  });

  it('asks for readiness and life where the bridge answers, and passes TCP through', () => {
    expect(container.ports.map((port: { containerPort: number }) => port.containerPort)).toEqual(PORTS);
    expect([container.readinessProbe.httpGet.path, container.livenessProbe.httpGet.path]).toEqual([
      '/readyz',
      '/healthz',
    ]);
    const service = documents.find(({ kind }) => kind === 'Service');
    expect(service.spec.externalTrafficPolicy).toBe('Local');
    expect(service.spec.ports.map(({ port }: { port: number }) => port)).toEqual(PORTS.slice(0, 3));
  });

  it('mounts the files that the environment names, for the group of the image’s user', () => {
    const mounts = container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath);
    const files = (container.env as EnvEntry[]).flatMap(({ value = '' }) =>
      value.startsWith('/') ? [value] : [],
    );
    expect(files.filter((file) => !mounts.some((mount: string) => file.startsWith(`${mount}/`)))).toEqual([]);
    expect([pod.securityContext.runAsUser, pod.securityContext.fsGroup]).toEqual([1000, 1000]);
  });
});

describe('deploy/prometheus.yml', () => {
  it('has the jobs that the alert rules name', () => {
    const jobs = parse(read('prometheus.yml')).scrape_configs.map(
      (one: { job_name: string }) => one.job_name,
    );
    const rules = readFileSync(join(DEPLOY, '..', 'docs', 'monitoring', 'alert-rules.yml'), 'utf8');
    const named = [...rules.matchAll(/job="([^"]+)"/g)].map(([, job]) => job);
    expect([...new Set(named)].filter((job) => !jobs.includes(job))).toEqual([]);
    expect(named.length).toBeGreaterThan(0);
  });
});

describe('deploy/haproxy.cfg', () => {
  it.skipIf(!isThere('haproxy'))('is valid (install haproxy to run this)', () => {
    const { status, stderr } = spawnSync('haproxy', ['-c', '-f', join(DEPLOY, 'haproxy.cfg')], {
      encoding: 'utf8',
    });
    expect([status, stderr.includes('WARNING')]).toEqual([0, false]);
  });

  it('sends a PROXY header to each listener, and asks /readyz', () => {
    const text = read('haproxy.cfg');
    for (const port of PORTS.slice(0, 3)) expect(text).toMatch(new RegExp(`bind :${port}\\n`));
    expect(text).toMatch(/send-proxy-v2 check port 9464/);
    expect(text).toContain('GET /readyz');
  });
});

describe('deploy/sitewire-bridge.service', () => {
  it.skipIf(!isThere('systemd-analyze'))('is valid (install systemd to run this)', () => {
    const unit = join(DEPLOY, 'sitewire-bridge.service');
    const { stderr } = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' });
    // The program is not installed here; nothing else may be wrong.
    const other = stderr.split('\n').filter((line) => line !== '' && !line.includes('is not executable'));
    expect(other).toEqual([]);
  });
});

describe('deploy/install-certificate.sh', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-certificate-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it('installs certificate and key, which only owner and group can read, and replaces older ones', () => {
    const lineage = join(folder, 'live');
    const tls = join(folder, 'tls');
    mkdirSync(lineage);
    const env = {
      ...process.env,
      RENEWED_LINEAGE: lineage,
      SITEWIRE_TLS: tls,
      SITEWIRE_GROUP: String(process.getgid?.()),
    };
    for (const content of ['first', 'second']) {
      for (const name of ['fullchain.pem', 'privkey.pem']) {
        writeFileSync(join(lineage, name), `${content} ${name}`);
        chmodSync(join(lineage, name), 0o600);
      }
      const { status, stderr } = spawnSync('sh', [join(DEPLOY, 'install-certificate.sh')], {
        env,
        encoding: 'utf8',
      });
      expect([status, stderr]).toEqual([0, '']);
      expect(readFileSync(join(tls, 'server.pem'), 'utf8')).toBe(`${content} fullchain.pem`);
      expect(readFileSync(join(tls, 'server.key'), 'utf8')).toBe(`${content} privkey.pem`);
      expect(statSync(join(tls, 'server.key')).mode & 0o777).toBe(0o640);
    }
  });
});
