/**
 * GET /platform/data-keys asks every object of the deployment, so it has a runtime of its own: among all suites it would
 * ask their objects, too.
 */
import { vi } from 'vitest';
import { operator } from '#workerd/operator.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import { Vhost } from '../../durable-objects/vhost.ts';

describe('GET /platform/data-keys', () => {
  it('counts an object that fails as unreadable, the others by their key [C-14.7]', async ({ ownTeam }) => {
    for (let count = 0; count < 2; count++) await ownTeam.newKey();
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    vi.spyOn(Vhost.prototype, 'sealedBy').mockImplementationOnce(() => {
      throw new Error('the value cannot be opened');
    });
    const versions: Record<string, number> = {};
    for (let next: string | null = ''; next !== null; ) {
      const page: { versions: Record<string, number>; next: string | null } = await operator.read(
        `/platform/data-keys${next === '' ? '' : `?after=${next}`}`,
      );
      for (const [version, count] of Object.entries(page.versions))
        versions[version] = (versions[version] ?? 0) + count;
      next = page.next;
    }
    expect(versions).toEqual({ 2: expect.any(Number), unreadable: 1 });
    vi.restoreAllMocks();
  });
});
