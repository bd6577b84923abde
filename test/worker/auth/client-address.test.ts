/** Where a client's address comes from: the platform's own front where there is one, and nothing that a client sends. */
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it } from 'vitest';
import type { Env } from '../../../worker/env.ts';
import worker from '../../../worker/index.ts';
import { expectError, restRequest } from '../../support/workerd/rest.ts';
import { createKey, createOrganization } from '../../support/workerd/world.ts';

const SITES = '/api/v1/vcp/sites';
const INSIDE = '192.0.2.7';

/** The Worker as it runs behind a front of that kind; undefined: behind none. */
async function sendBehind(front: string | undefined, request: Request): Promise<Response> {
  const context = createExecutionContext();
  const { CLIENT_ADDRESS: _, ...rest } = env as unknown as Env & { CLIENT_ADDRESS?: string };
  const bindings = front === undefined ? rest : { ...rest, CLIENT_ADDRESS: front };
  const response = await worker.fetch(request, bindings as Env, context);
  await waitOnExecutionContext(context);
  return response;
}

async function guardedKey(): Promise<string> {
  return (await createKey(await createOrganization(), { allowedIps: ['192.0.2.0/24'] })).key;
}

function from(key: string, address?: string): Request {
  const headers: Record<string, string> = address === undefined ? {} : { 'cf-connecting-ip': address };
  return restRequest(SITES, { key, headers });
}

describe('a client’s address', () => {
  it('is what the platform says, where the Worker is told that the platform is there [C-4.2]', async () => {
    const key = await guardedKey();
    const inside = await sendBehind('platform', from(key, INSIDE));
    expect(inside.status).toBe(200);
    await expectError(await sendBehind('platform', from(key, '203.0.113.1')), 403, 'FORBIDDEN');
    await expectError(await sendBehind('platform', from(key)), 403, 'FORBIDDEN');
  });

  it.each([undefined, '', 'none', 'Platform', 'true'])(
    'is nothing that a client can say for itself where no platform is (%s) [C-4.2]',
    async (front) => {
      const key = await guardedKey();
      await expectError(await sendBehind(front, from(key, INSIDE)), 403, 'FORBIDDEN');
    },
  );

  it('is not asked for where a key has no ranges, platform or not [C-4.2]', async () => {
    const { key } = await createKey(await createOrganization());
    for (const front of [undefined, 'platform']) {
      expect((await sendBehind(front, from(key))).status).toBe(200);
    }
  });
});
