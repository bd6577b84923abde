/** The size of D1 in `GET /metrics`: a database has at most 10 GB, for ever. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { parseExposition } from '#support/exposition.ts';
import { runSql } from '#workerd/d1.ts';
import { restRequest, sendRequest } from '#workerd/rest.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';

const MIB = 1_048_576;
const NAME = 'sitewire_edge_database_bytes';

async function scrape() {
  const headers = { authorization: `Bearer ${env.METRICS_TOKEN}` };
  const response = await sendRequest(restRequest('/metrics', { headers }));
  expect(response.status).toBe(200);
  return parseExposition(await response.text());
}

async function size(): Promise<number> {
  const family = (await scrape()).get(NAME);
  expect(family).toMatchObject({ type: 'gauge', samples: [{ labels: {} }] });
  return family?.samples[0]?.value ?? 0;
}

describe('the size of the database', () => {
  it('is what D1 says about itself, and grows with what is stored', async () => {
    const before = await size();
    expect(before).toBeGreaterThan(0);
    await runSql('CREATE TABLE filling (bytes BLOB)');
    try {
      await runSql('INSERT INTO filling (bytes) VALUES (zeroblob(?))', MIB);
      const after = await size();
      expect(after - before).toBeGreaterThanOrEqual(MIB);
      expect(after - before).toBeLessThan(1.1 * MIB);
      expect(after).toBe((await env.DB.prepare('SELECT 1').run()).meta.size_after);
    } finally {
      await runSql('DROP TABLE filling');
    }
  });

  it('is read with one query in a scrape', async () => {
    const prepare = vi.spyOn(env.DB, 'prepare');
    await size();
    expect(prepare).toHaveBeenCalledTimes(1);
  });

  it('is absent while D1 does not answer, and the other metrics are there', async () => {
    const warn = vi.spyOn(console, 'warn').mockReturnValue(undefined);
    vi.spyOn(env.DB, 'prepare').mockImplementation(() => {
      throw new Error('D1 is away');
    });
    const families = await scrape();
    expect(families.has(NAME)).toBe(false);
    expect(families.has('sitewire_edge_build_info')).toBe(true);
    expect(JSON.stringify(warn.mock.calls)).toContain('D1 is away');
  });

  it('is absent if the database names no size', async () => {
    expect(await size()).toBeGreaterThan(0);
    const real = env.DB.prepare.bind(env.DB);
    vi.spyOn(env.DB, 'prepare').mockImplementation((sql) => {
      const statement = real(sql);
      const without = async () => ({ ...(await statement.run()), meta: {} });
      return Object.assign(Object.create(statement), { run: without }) as D1PreparedStatement;
    });
    expect((await scrape()).has(NAME)).toBe(false);
  });
});
