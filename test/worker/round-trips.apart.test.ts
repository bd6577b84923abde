/** How often the Worker waits for D1 in a request that partners and users send often. */
import { expect, vi } from 'vitest';
import { watchRegistry } from '#workerd/registry-reads.ts';
import { describe, test as it } from '#workerd/worker-test.ts';

/** The reads of D1 while `work` runs. Those before it are not counted: a Site reads its plant when it wakes. */
async function readsOf(work: () => Promise<Response>): Promise<number> {
  expect((await work()).status).toBe(200);
  const reads = watchRegistry();
  expect((await work()).status).toBe(200);
  vi.restoreAllMocks();
  return reads.count;
}

describe('a read', () => {
  it.for(['config', 'commands', 'schedules', 'telemetry/latest'])(
    'asks D1 once for a site with a key: %s',
    async (name, { key, plant }) => {
      expect(await readsOf(() => key.call(`/vcp/sites/${plant.id}/${name}`))).toBe(1);
    },
  );

  it('asks D1 twice for the list of sites with a key', async ({ key }) => {
    expect(await readsOf(() => key.call('/vcp/sites'))).toBe(2);
  });

  it.for(['plants', 'devices', 'alerts'])(
    'asks D1 twice for a list with a login: %s',
    async (name, { team }) => {
      expect(await readsOf(() => team.viewer.call(`/${name}`))).toBe(2);
    },
  );
});
