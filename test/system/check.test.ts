/** `npm run sitewire -- admin check` uses a deployment as a partner would: it names the step that fails, and leaves nothing behind. */
import { afterEach, describe, expect, it } from 'vitest';
import { suiteStack } from '#support/suite-stack.ts';
import { check } from '../../tools/check.ts';
import type { Gateway } from '../../tools/simulator/gateway.ts';

const stack = suiteStack();
let gateway: Gateway | undefined;

afterEach(async () => {
  await gateway?.stop();
  gateway = undefined;
});

/** Runs the check; returns its steps, and the error of the one that failed. */
async function checked(options: { plantId?: string; timeoutMs?: number; password?: string } = {}) {
  const { admin, organization, plantId } = stack.credentials;
  const steps: string[] = [];
  const failure = await check({
    baseUrl: stack.edge.url,
    login: { ...admin, password: options.password ?? admin.password },
    organizationId: organization.id,
    plantId: options.plantId ?? plantId,
    timeoutMs: options.timeoutMs ?? 10_000,
    done: (step) => steps.push(step),
  }).then(
    () => undefined,
    (error: Error) => error.message,
  );
  return { steps, failure };
}

/** The keys of checks that are still valid. */
async function keysLeft(): Promise<unknown[]> {
  const keys = await stack.admin.list<{ partnerId: string; isActive: boolean }>('/partner/api-keys');
  return keys.filter(({ partnerId, isActive }) => partnerId === 'synthetic-check' && isActive);
}

describe('a check of a deployment', () => {
  it('creates a key, sends a command, reads the plant and revokes the key', async () => {
    gateway = await stack.gateway();
    expect(await checked()).toEqual({
      steps: [
        'the edge is ready',
        'an admin logs in',
        'the plant has an asset that obeys',
        'a key is created, and its connection tested',
        'a partner connects',
        'a signed command is COMPLETED',
        'the key reads the site',
        'the key is revoked',
        'the revoked key is refused',
      ],
      failure: undefined,
    });
    expect(await keysLeft()).toEqual([]);
  });

  it('fails at the command if the gateway does not execute it, and revokes the key all the same', async () => {
    gateway = await stack.gateway(undefined, () => false);
    const { steps, failure } = await checked();
    expect(failure).toMatch(/^a signed command is COMPLETED: the command is FAILED: /);
    expect(steps.at(-1)).toBe('the key is revoked');
    expect(await keysLeft()).toEqual([]);
  });

  it('fails at the command if no gateway answers in time', async () => {
    const { failure } = await checked({ timeoutMs: 200 });
    expect(failure).toBe('a signed command is COMPLETED: no matching event within 200 ms');
    expect(await keysLeft()).toEqual([]);
  });

  it('names a wrong password, and a plant that nothing can be sent to', async () => {
    expect((await checked({ password: 'a wrong password' })).failure).toMatch(/^an admin logs in: .*401/);
    const { id } = await stack.admin.call<{ id: string }>('POST', '/plants', { name: 'Empty' });
    const { failure } = await checked({ plantId: id });
    expect(failure).toBe('the plant has an asset that obeys: give the test plant a battery or a PV system');
  });
});
