/** Event streams over real sockets: clients that leave, and keys that are revoked. */
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Streamer } from '#support/journal-readers.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { VhostCaller } from '#support/vhost-caller.ts';
import { LIMIT } from '../../protocol/limits.ts';

const KEYS = 10;

describe('event streams', () => {
  const stack = suiteStack();

  it('are free again when a hundred clients leave without a word, all ten of each key [C-12.3]', async () => {
    const leaving: AbortController[] = [];
    const keys = await Promise.all(Array.from({ length: KEYS }, () => stack.addKey()));
    const open = async (key: string) => {
      const leave = new AbortController();
      leaving.push(leave);
      const { signal } = leave;
      const answer = await fetch(`${stack.edge.url}/api/v1/vcp/events/stream`, {
        headers: { 'x-api-key': key },
        signal,
      });
      if (answer.status !== 200) await answer.arrayBuffer();
      return answer;
    };
    const leaveAll = () => {
      for (const leave of leaving.splice(0)) leave.abort();
    };
    const first = await Promise.all(
      keys.flatMap(({ key }) => Array.from({ length: LIMIT.streamsPerKey }, () => open(key))),
    );
    expect(new Set(first.map(({ status }) => status))).toEqual(new Set([200]));
    const { status } = await stack.rest('/vcp/events/stream', keys[0]?.key);
    expect(status).toBe(409);
    leaveAll();
    // A refused attempt takes no place, and one that is let in keeps it. Each client tries as often as an EventSource does.
    const left = keys.map(() => LIMIT.streamsPerKey);
    const endsAt = Date.now() + 20_000;
    while (left.some((count) => count > 0) && Date.now() < endsAt) {
      for (const [index, { key }] of keys.entries())
        while ((left[index] ?? 0) > 0 && (await open(key)).status === 200)
          left[index] = (left[index] ?? 0) - 1;
      if (left.some((count) => count > 0)) await pause(LIMIT.streamRetryMs);
    }
    expect(left).toEqual(keys.map(() => 0));
    leaveAll();
  }, 60_000);

  it('end at once when their key is revoked, and get no event of it afterwards [C-12.3]', async () => {
    const key = await stack.addKey();
    const vhost = await VhostCaller.of(stack, key.id);
    const streamer = new Streamer({ url: stack.edge.url, key: key.key });
    try {
      await eventually(() => streamer.opened === 1 || undefined);
      await vhost.events('alarm', 3, 10);
      await eventually(() => streamer.texts.length === 3 || undefined);
      const answer = await fetch(`${stack.edge.url}/api/v1/vcp/events/stream`, {
        headers: { 'x-api-key': key.key },
      });
      const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      await vhost.revoke();
      expect((await reader.read()).done).toBe(true);
      await vhost.events('alarm', 3, 10);
      expect(streamer.texts).toHaveLength(3);
    } finally {
      await streamer.stop();
    }
  });
});
