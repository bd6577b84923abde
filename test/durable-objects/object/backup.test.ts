/** The size up to which an object takes the parts of a backup [C-14.8]. */
import { runInDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { siteOf } from '#workerd/world.ts';
import { Backup } from '../../../durable-objects/object/backup.ts';
import { Fence } from '../../../durable-objects/object/fence.ts';
import { SITE_BACKUP } from '../../../durable-objects/site/migrations.ts';

const PART = 'x'.repeat(400_000);

describe('the parts of a backup that is to be restored', () => {
  it('are refused from the size on that the object may have', async () => {
    await runInDurableObject(siteOf(crypto.randomUUID()), (_site, state) => {
      state.storage.kv.put('fence', { id: 'fence', untilMs: Date.now() + 60_000 });
      const fence = new Fence(state, { now: () => Date.now() });
      const { databaseSize } = state.storage.sql;
      const backup = new Backup(state.storage, fence, SITE_BACKUP, databaseSize + 5 * PART.length);
      const answers = Array.from({ length: 10 }, (_, part) => backup.stage('fence', part, PART));
      const full = answers.findIndex((answer) => answer !== undefined);
      expect(full).toBeGreaterThanOrEqual(3);
      expect(full).toBeLessThanOrEqual(5);
      expect(new Set(answers.slice(full).map((answer) => answer?.refused))).toEqual(
        new Set(['it does not fit beside the data that the object has']),
      );
    });
  });
});
