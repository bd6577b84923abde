/**
 * `npm run sitewire -- admin check` before anybody uses a deployment: what its configuration, its names, its listeners and their
 * certificates would make fail.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { SilentListener } from '#support/silent-listener.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { freePort } from '../../tools/ports.ts';

const TOOL = join(import.meta.dirname, '..', '..', 'tools', 'admin.ts');
const MAIL = { SMTP_URL: 'smtps://mailer:secret@localhost:465', MAIL_FROM: 'sitewire@example.com' };

/** The tool's exit code and output. */
async function check(
  url: string,
  token: string,
  ...more: string[]
): Promise<{ code: number | null; said: string }> {
  // The authority of the test's certificates is not one that the machine of the operator trusts.
  const { NODE_EXTRA_CA_CERTS: _own, ...inherited } = process.env;
  const env = { ...inherited, SITEWIRE_OPERATOR_TOKEN: token };
  const child = spawn(process.execPath, [TOOL, 'check', '--url', url, ...more], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part: Buffer) => (said += part));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, said };
}

describe('npm run sitewire -- admin check', () => {
  const stack = suiteStack({ bindings: { REGISTRATION: 'closed' } });
  const run = (...more: string[]) => check(stack.edge.url, stack.credentials.operatorToken, ...more);

  it('reads the configuration without an account, resolves each name, and connects to each listener', async () => {
    const { code, said } = await run();
    for (const port of Object.values(stack.bridge.ports).slice(0, 3))
      expect(said).toContain(`localhost:${port}`);
    expect(said).toMatch(/^ok .*AMQP_HOST.*certificate.* until \d{4}-\d\d-\d\d/m);
    expect(said).toMatch(/^ok .*MQTT_HOST.*certificate.* until \d{4}-\d\d-\d\d/m);
    expect(said).not.toMatch(/^failed /m);
    expect(code).toBe(0);
  });

  it('exits with 1 and says so if the operator’s token is wrong', async () => {
    const { code, said } = await check(stack.edge.url, 'x'.repeat(40));
    expect(code).toBe(1);
    expect(said).toMatch(/401|OPERATOR_TOKEN/);
  });

  it('says that the edge cannot be reached, without a stack trace', async () => {
    const { code, said } = await check(`http://127.0.0.1:${await freePort()}`, 'x'.repeat(40));
    expect(code).toBe(1);
    expect(said).toMatch(/cannot be reached|ECONNREFUSED/);
    expect(said).not.toMatch(/^\s+at /m);
  });
});

describe('npm run sitewire -- admin check, of a deployment that cannot work', () => {
  let silent: SilentListener | undefined;
  afterEach(async () => {
    await silent?.stop();
    silent = undefined;
  });

  const bindings: Record<string, string> = {};
  const stack = suiteStack({ bindings });
  /** Starts the edge again with these settings instead of those of the stack. */
  const withSettings = async (settings: Record<string, string>) => {
    for (const name of Object.keys(bindings)) delete bindings[name];
    Object.assign(bindings, settings);
    await stack.restartEdge();
    return await check(stack.edge.url, stack.credentials.operatorToken);
  };

  it('names each setting that would fail, each on a line, and exits with 1', async () => {
    const { code, said } = await withSettings({ ...MAIL, MAIL_FROM: 'nobody', REGISTRATION: 'Open' });
    expect(code).toBe(1);
    expect(said).toMatch(/^failed .*MAIL_FROM/m);
    expect(said).toMatch(/^failed .*REGISTRATION/m);
    expect(said).not.toContain('secret');
  });

  it('names a host that does not resolve', async () => {
    const { code, said } = await withSettings({ AMQP_HOST: 'no-such-host.invalid' });
    expect(code).toBe(1);
    expect(said).toMatch(
      /^failed .*AMQP_HOST.*no-such-host\.invalid.*(ENOTFOUND|EAI_AGAIN|does not resolve)/m,
    );
  });

  it('names a port at which nothing listens, and one that never answers', async () => {
    const closed = await freePort();
    expect((await withSettings({ AMQP_PORT: String(closed) })).said).toMatch(
      new RegExp(`^failed .*AMQP_HOST.*localhost:${closed}.*(ECONNREFUSED|refused)`, 'm'),
    );
    const mute = await freePort();
    silent = await SilentListener.at(mute);
    const { code, said } = await withSettings({ MQTT_PORT: String(mute) });
    expect(code).toBe(1);
    expect(said).toMatch(new RegExp(`^failed .*MQTT_HOST.*localhost:${mute}.*no TLS answer within`, 'm'));
    expect(silent.isDialed).toBe(true);
  });

  it('names a PUBLIC_URL that does not answer', async () => {
    const { code, said } = await withSettings({ PUBLIC_URL: `https://localhost:${await freePort()}` });
    expect(code).toBe(1);
    expect(said).toMatch(/^failed .*PUBLIC_URL/m);
  });

  it('names a listener whose certificate its clients would not trust', async () => {
    const { code, said } = await withSettings({ AMQP_CA: '', MQTT_CA: '' });
    expect(code).toBe(1);
    expect(said).toMatch(/^failed .*AMQP_HOST.*certificate/m);
    expect(said).toMatch(/^failed .*MQTT_HOST.*certificate/m);
  });
});
