/**
 * GET /platform/data-keys asks every object of the deployment, so it has a runtime of its own: among all suites it would
 * ask their objects, too.
 */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { rowsFrom, runSql } from '#workerd/d1.ts';
import { operator } from '#workerd/operator.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import { SecretBox } from '../../durable-objects/secrets/secret-box.ts';
import { Vhost } from '../../durable-objects/vhost.ts';

const HOUR = 60 * 60_000;

/** How many values each data key seals. */
async function countVersions(): Promise<Record<string, number>> {
  const versions: Record<string, number> = {};
  for (let next: string | null = ''; next !== null; ) {
    const page: { versions: Record<string, number>; next: string | null } = await operator.read(
      `/platform/data-keys${next === '' ? '' : `?after=${next}`}`,
    );
    for (const [version, count] of Object.entries(page.versions))
      versions[version] = (versions[version] ?? 0) + count;
    next = page.next;
  }
  return versions;
}

describe('GET /platform/data-keys', () => {
  it('counts an object that fails as unreadable, the others by their key [C-14.7]', async ({ ownTeam }) => {
    for (let count = 0; count < 2; count++) await ownTeam.newKey();
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    vi.spyOn(Vhost.prototype, 'sealedBy').mockImplementationOnce(() => {
      throw new Error('the value cannot be opened');
    });
    expect(await countVersions()).toEqual({ 2: expect.any(Number), unreadable: 1 });
    vi.restoreAllMocks();
  });

  it('seals the secrets of webhooks again, and forgets a previous one that is no longer valid [C-14.7]', async ({
    ownTeam,
  }) => {
    vi.spyOn(globalThis, 'fetch').mockImplementation(async () => new Response());
    const { id: keyId } = await ownTeam.newKey();
    const before = (await countVersions())[2] ?? 0;
    const older = new SecretBox(env.DATA_KEYS.split(',').reverse().join(','));
    const now = Date.now();
    const columns = `id, organization_id, key_id, url, types, description, secret_sealed, previous_sealed,
      previous_until_ms, status, status_at_ms, created_at_ms, updated_at_ms`;
    for (const [id, untilMs] of [
      ['w1', now + HOUR],
      ['w2', now - HOUR],
    ] as const) {
      const seal = (secret: string) => older.seal(`webhook:${id}`, secret);
      await runSql(
        `INSERT INTO webhooks (${columns}) VALUES (?, ?, ?, 'https://a.example', '["ack"]', '', ?, ?, ?, 'ENABLED', 1, 1, 1)`,
        ...[id, ownTeam.id, keyId, seal('whsec_new'), seal('whsec_old'), untilMs],
      );
    }
    expect(await countVersions()).toEqual({ 2: before + 3 });
    const box = new SecretBox(env.DATA_KEYS);
    const rows = await rowsFrom<{ id: string; secret_sealed: string; previous_sealed: string | null }>(
      'SELECT * FROM webhooks ORDER BY id',
    );
    const opened = rows.map(({ id, secret_sealed, previous_sealed }) =>
      [secret_sealed, previous_sealed].map((sealed) => sealed && box.open(`webhook:${id}`, sealed)),
    );
    expect(opened).toEqual([
      ['whsec_new', 'whsec_old'],
      ['whsec_new', null],
    ]);
    expect(rows.some(({ secret_sealed }) => box.isOld(secret_sealed))).toBe(false);
    vi.restoreAllMocks();
  });
});
