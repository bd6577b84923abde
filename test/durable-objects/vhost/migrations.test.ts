/**
 * Newer code delivers the telemetry that older code stored: all of it, in order, once, and marked as
 * redelivered.
 */
import { runInDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { migrate } from '../../../durable-objects/object/migrate.ts';
import { Sql } from '../../../durable-objects/object/sql.ts';
import { VHOST_MIGRATIONS } from '../../../durable-objects/vhost/migrations.ts';
import { QueueRows } from '../../../durable-objects/vhost/queue/rows.ts';
import { telemetryQueue } from '../../support/workerd/chunked-queues.ts';
import { turnsOf } from '../../support/workerd/turns.ts';
import { vhostOf } from '../../support/workerd/world.ts';

/** The migrations that older code had. */
const BEFORE = 2;
const NOW_MS = 1_000_000;
const owner = { connectionId: 'gone', channel: 1, tag: 't' };

/** An event in the form in which older code stored it in a chunk's JSON. */
function oldEntry(number: number, deliveries: number) {
  const message = {
    routingKey: 'acme.event.telemetry',
    properties: { contentType: 'application/json', messageId: `m${number}` },
    body: `{"n":${number},"text":"line\\nbreak, \\"quotes\\", č, €, 😀, \\u0000"}`,
    encoding: 'utf8',
    createdAtMs: NOW_MS,
  };
  return { message, deliveries, lease: deliveries > 0 ? { id: number, owner } : null };
}

describe('telemetry that older code stored', () => {
  it('is delivered by newer code in order, each event once, redelivered where it was leased [C-6.4]', async () => {
    const taken = await runInDurableObject(vhostOf(crypto.randomUUID()), async (_vhost, state) => {
      const { storage } = state;
      await storage.deleteAll();
      migrate(storage, VHOST_MIGRATIONS.slice(0, BEFORE));
      for (let chunk = 0; chunk < 3; chunk++) {
        const entries = Array.from({ length: 40 }, (_, index) =>
          oldEntry(chunk * 40 + index + 1, chunk === 0 && index < 10 ? 1 : 0),
        );
        const leased = chunk === 0 ? 10 : 0;
        storage.sql.exec(
          'INSERT INTO chunk (position, message_count, byte_count, leased_count, created_at_ms, data) VALUES (?, ?, ?, ?, ?, ?)',
          chunk + 1,
          entries.length,
          4_000,
          leased,
          NOW_MS,
          JSON.stringify(entries),
        );
      }
      migrate(storage, VHOST_MIGRATIONS);
      const queue = telemetryQueue(new QueueRows(new Sql(storage)), () => false);
      const runAt = turnsOf(state, (turn) => queue.save(turn));
      const all: { body: string; redelivered: boolean }[] = [];
      for (;;) {
        const next = runAt(NOW_MS, (turn) => queue.take(turn, owner, null));
        if (!next) return all;
        all.push({ body: next.message.body, redelivered: next.redelivered });
      }
    });
    expect(taken.map(({ body }) => body)).toEqual(
      Array.from({ length: 120 }, (_, index) => oldEntry(index + 1, 0).message.body),
    );
    expect(taken.filter(({ redelivered }) => redelivered)).toHaveLength(10);
  });
});
