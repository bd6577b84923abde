/**
 * Debian's amqp-tools in a partner's shell: their output, and the exit codes that a script checks [C-6.2],
 * [C-6.3].
 */
import { type ExecFileException, execFile } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { skippedWithout, succeeds } from '#support/programs.ts';
import { envelopeOf, setpointOrder } from '#support/returning-partner.ts';
import { TestStack } from '#support/stack.ts';

const missing = succeeds('amqp-publish', '--help') ? [] : ['amqp-tools'];

interface Ended {
  code: number;
  output: string;
  lastError: string;
}

describe.skipIf(missing.length > 0)(`amqp-tools${skippedWithout(missing)}`, () => {
  let stack: TestStack;
  let slug: string;

  beforeAll(async () => {
    stack = await TestStack.start();
    slug = stack.credentials.organization.slug;
  });
  afterAll(async () => {
    await stack.stop();
  });

  function run(tool: string, given: string[], key = stack.credentials.apiKey.key): Promise<Ended> {
    const { host, port, vhost, ca } = stack.partnerOptions();
    const url = `amqps://${slug}:${key}@${host}:${port}/${vhost}`;
    return new Promise((resolve) => {
      const onEnd = (error: ExecFileException | null, output: string, errors: string) => {
        const lastError = errors.trim().split('\n').at(-1) ?? '';
        resolve({ code: Number(error?.code ?? 0), output, lastError });
      };
      execFile(tool, ['--url', url, '--cacert', ca, ...given], { timeout: 20_000 }, onEnd);
    });
  }

  const publish = (routingKey: string, body: string) =>
    run('amqp-publish', ['-e', 'vcp', '-r', routingKey, '-C', 'application/json', '-b', body]);

  it('amqp-publish exits with 0 and amqp-consume shows the resulting event [C-6.2]', async () => {
    const order = setpointOrder(stack.credentials.plantId);
    const { routingKey, body } = envelopeOf(stack.partnerOptions(), order);
    expect(await publish(routingKey, body.toString())).toEqual({ code: 0, output: '', lastError: '' });
    const consumed = await run('amqp-consume', ['-q', `vcp.${slug}.event.status`, '-c', '1', 'cat']);
    expect(consumed.code, consumed.lastError).toBe(0);
    expect(JSON.parse(consumed.output)).toMatchObject({ correlationId: order.correlationId });
  });

  it('amqp-get shows a malformed publish as a dead letter and exits with 2 on an empty queue [C-6.1]', async () => {
    await publish(`${slug}.command.device`, 'no envelope');
    const got = await run('amqp-get', ['-q', `vcp.${slug}.dead-letter`]);
    expect(got).toEqual({ code: 0, output: 'no envelope', lastError: '' });
    expect((await run('amqp-get', ['-q', `vcp.${slug}.dead-letter`])).code).toBe(2);
  });

  it.each([
    ['of another organization', () => 'other.command.device'],
    ['of an unknown family', () => `${slug}.command.nothing`],
  ])(
    'amqp-publish to the routing key %s exits with 1 and reports 403 in its last line [C-6.2]',
    async (_which, key) => {
      const { code, lastError } = await publish(key(), '{}');
      expect(lastError).toMatch(/403.*ACCESS_REFUSED - access to topic/);
      expect(code).toBe(1);
    },
  );

  it('amqp-get with a wrong API key exits with 1 and prints the text of the refused login [C-6.3]', async () => {
    const key = `${stack.credentials.apiKey.key}x`;
    const { code, lastError } = await run('amqp-get', ['-q', `vcp.${slug}.event.status`], key);
    expect(lastError).toMatch(/403.*ACCESS_REFUSED - Login was refused/);
    expect(code).toBe(1);
  });
});
