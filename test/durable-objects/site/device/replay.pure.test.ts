/** Nonces seen: a re-send, a replay or new, per device, and for exactly how long [C-3.8]. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  type NonceUse,
  REPLAY_HORIZON_MS,
  ReplayGuard,
} from '../../../../durable-objects/site/device/replay.ts';

const T = Date.parse('2030-03-05T09:00:00.000Z');
const WINDOW_MS = 300_000;

function use(receivedMs: number, changes: Partial<NonceUse> = {}): NonceUse {
  return { deviceId: 'device-1', nonce: 'n', digest: 'd', ts: receivedMs, receivedMs, ...changes };
}

afterEach(() => {
  vi.restoreAllMocks();
});

function guardThatSaw(...uses: NonceUse[]): ReplayGuard {
  const guard = new ReplayGuard();
  for (const one of uses) guard.remember(one);
  return guard;
}

describe('a nonce', () => {
  it.each<[string, string, Partial<NonceUse>]>([
    ['again with the same bytes', 'repeat', {}],
    ['again with other bytes', 'replay', { digest: 'e' }],
    ['of another device', 'new', { deviceId: 'device-2', digest: 'e' }],
    ['that is another', 'new', { nonce: 'N', digest: 'e' }],
  ])('%s is %s [C-3.8]', (_what, expected, changes) => {
    expect(guardThatSaw(use(T)).judge(use(T + 1, changes))).toBe(expected);
  });

  it('that nobody used is new, also of a device that used others [C-3.8]', () => {
    expect(new ReplayGuard().judge(use(T))).toBe('new');
    expect(guardThatSaw(use(T, { nonce: 'a' }), use(T, { nonce: 'b' })).judge(use(T))).toBe('new');
  });

  it('is not remembered by being judged [C-3.8]', () => {
    const guard = new ReplayGuard();
    guard.judge(use(T));
    expect(guard.judge(use(T, { digest: 'e' }))).toBe('new');
  });

  it.each<[string, number, number]>([
    ['dated when it was received', T, T + WINDOW_MS],
    ['dated five minutes ahead', T + WINDOW_MS, T + 2 * WINDOW_MS],
    ['dated a minute ahead', T + 60_000, T + 60_000 + WINDOW_MS],
    ['dated five minutes back', T - WINDOW_MS, T + WINDOW_MS],
  ])(
    'of a message %s counts until 300 s after the later of both, that moment included [C-3.8]',
    (_dated, ts, untilMs) => {
      const guard = guardThatSaw(use(T, { ts }));
      expect(guard.judge(use(untilMs, { digest: 'e' }))).toBe('replay');
      expect(guard.judge(use(untilMs))).toBe('repeat');
      expect(guard.judge(use(untilMs + 1, { digest: 'e' }))).toBe('new');
    },
  );

  it('that counts no more is free, and counts anew with what it then says [C-3.8]', () => {
    const guard = guardThatSaw(use(T), use(T + WINDOW_MS + 1, { digest: 'e' }));
    expect(guard.judge(use(T + WINDOW_MS + 2))).toBe('replay');
    expect(guard.judge(use(T + WINDOW_MS + 2, { digest: 'e' }))).toBe('repeat');
  });

  it('outlives the purges that others bring: each is kept to its own end and no longer [C-3.8]', () => {
    const guard = new ReplayGuard();
    const stepMs = 1_000;
    const kept = WINDOW_MS / stepMs;
    for (let step = 0; step < 3 * kept; step++) {
      const now = T + step * stepMs;
      guard.remember(use(now, { nonce: `n-${step}`, deviceId: `device-${step % 3}` }));
      const oldest = Math.max(0, step - kept);
      const judge = (n: number) =>
        guard.judge(use(now, { nonce: `n-${n}`, deviceId: `device-${n % 3}`, digest: 'e' }));
      expect(judge(oldest)).toBe('replay');
      if (oldest > 0) expect(judge(oldest - 1)).toBe('new');
    }
  });

  it('of a device that used no other outlives them too [C-3.8]', () => {
    const guard = guardThatSaw(use(T), use(T + 31_000, { deviceId: 'device-2' }));
    expect(guard.judge(use(T + WINDOW_MS, { digest: 'e' }))).toBe('replay');
  });

  it('leaves memory with its end: a purge each half minute, with the next message of anybody [rule 9]', () => {
    const guard = new ReplayGuard();
    const forgotten = vi.spyOn(Map.prototype, 'delete');
    /** What a message at that moment makes the guard forget: nonces, and devices without any. */
    const forgottenAt = (receivedMs: number) => {
      forgotten.mockClear();
      guard.remember(use(receivedMs, { deviceId: 'device-9', nonce: `at ${receivedMs}` }));
      return forgotten.mock.calls.map(([key]) => key);
    };
    for (const nonce of ['a', 'b']) guard.remember(use(T, { nonce }));
    guard.remember(use(T + 1_000, { deviceId: 'device-2', nonce: 'c' }));
    expect(forgottenAt(T + WINDOW_MS)).toEqual([]);
    expect(forgottenAt(T + WINDOW_MS + 29_999)).toEqual([]);
    expect(forgottenAt(T + WINDOW_MS + 30_000)).toEqual(['a', 'b', 'device-1', 'c', 'device-2']);
    expect(forgottenAt(T + WINDOW_MS + 60_000)).toEqual([]);
  });

  it('is asked for in blocks of the last ten minutes: none older can count [C-3.8]', () => {
    expect(REPLAY_HORIZON_MS).toBe(600_000);
    const latest = use(T, { ts: T + WINDOW_MS });
    const guard = guardThatSaw(latest);
    expect(guard.judge(use(T + REPLAY_HORIZON_MS, { digest: 'e' }))).toBe('replay');
    expect(guard.judge(use(T + REPLAY_HORIZON_MS + 1, { digest: 'e' }))).toBe('new');
  });
});
