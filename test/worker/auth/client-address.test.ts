/** The client address comes from the platform’s front where there is one, and never from the client. */
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import type { KeyClient } from '#workerd/client.ts';
import { restRequest } from '#workerd/rest.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import type { Env } from '../../../worker/env.ts';
import worker from '../../../worker/index.ts';

const INSIDE = '192.0.2.7';

/** The Worker with that value of CLIENT_ADDRESS; undefined: without the variable. */
async function sendThrough(front: string | undefined, request: Request): Promise<Response> {
  const context = createExecutionContext();
  const { CLIENT_ADDRESS: _, ...rest } = env as unknown as Env & { CLIENT_ADDRESS?: string };
  const bindings = front === undefined ? rest : { ...rest, CLIENT_ADDRESS: front };
  const response = await worker.fetch(request, bindings as Env, context);
  await waitOnExecutionContext(context);
  return response;
}

const it = test.extend('guardedKey', ({ newKey }) => newKey({ allowedIps: ['192.0.2.0/24'] }));

function from({ key }: KeyClient, address?: string): Request {
  const headers: Record<string, string> = address === undefined ? {} : { 'cf-connecting-ip': address };
  return restRequest('/api/v1/vcp/sites', { key, headers });
}

describe('the address of a client', () => {
  it('is that of cf-connecting-ip if CLIENT_ADDRESS is "platform" [C-4.2]', async ({ guardedKey }) => {
    const inside = await sendThrough('platform', from(guardedKey, INSIDE));
    expect(inside.status).toBe(200);
    await expectError(await sendThrough('platform', from(guardedKey, '203.0.113.1')), 403, 'FORBIDDEN');
    await expectError(await sendThrough('platform', from(guardedKey)), 403, 'FORBIDDEN');
  });

  it.for([undefined, '', 'none', 'Platform', 'true'])(
    'is not known, whatever cf-connecting-ip says, if CLIENT_ADDRESS is "%s" [C-4.2]',
    async (front, { guardedKey }) => {
      await expectError(await sendThrough(front, from(guardedKey, INSIDE)), 403, 'FORBIDDEN');
    },
  );

  it('is not needed by a key without allowedIps, whether CLIENT_ADDRESS is set or not [C-4.2]', async ({
    key,
  }) => {
    for (const front of [undefined, 'platform']) {
      expect((await sendThrough(front, from(key))).status).toBe(200);
    }
  });
});
