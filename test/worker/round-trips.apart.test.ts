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
    'of a site with a key reads D1 once: %s',
    async (name, { key, plant }) => {
      expect(await readsOf(() => key.call(`/vcp/sites/${plant.id}/${name}`))).toBe(1);
    },
  );

  it('of the list of sites with a key reads D1 twice', async ({ key }) => {
    expect(await readsOf(() => key.call('/vcp/sites'))).toBe(2);
  });

  it.for(['plants', 'devices', 'alerts'])(
    'of a list with a login reads D1 twice: %s',
    async (name, { team }) => {
      expect(await readsOf(() => team.viewer.call(`/${name}`))).toBe(2);
    },
  );
});
