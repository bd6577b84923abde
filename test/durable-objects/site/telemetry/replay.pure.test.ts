/** Nonces seen: a re-send, a replay or new, per device, and for exactly how long [C-3.8]. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { SITE_BOUNDS } from '../../../../durable-objects/site/bounds.ts';
import {
  type NonceUse,
  REPLAY_HORIZON_MS,
  ReplayGuard,
} from '../../../../durable-objects/site/telemetry/replay.ts';

const MIB = 1_024 * 1_024;
/** Frames of one link message, at most. */
const BATCH = 256;
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

  it('is asked for in blocks of the last ten minutes: none older can count [C-3.8]', () => {
    expect(REPLAY_HORIZON_MS).toBe(600_000);
    const latest = use(T, { ts: T + WINDOW_MS });
    const guard = guardThatSaw(latest);
    expect(guard.judge(use(T + REPLAY_HORIZON_MS, { digest: 'e' }))).toBe('replay');
    expect(guard.judge(use(T + REPLAY_HORIZON_MS + 1, { digest: 'e' }))).toBe('new');
  });
});

describe('the memory of nonces', () => {
  /** The sizes of the tables that were made, in bytes, in order. */
  function tablesMade(): number[] {
    const made: number[] = [];
    const Table = Uint32Array;
    vi.stubGlobal(
      'Uint32Array',
      class extends Table {
        constructor(...given: [size: number]) {
          super(...given);
          if (typeof given[0] === 'number') made.push(4 * given[0]);
        }
      },
    );
    return made;
  }

  it('is filled to its cap, and by one batch more, in 32 MiB, and as much again while it grows [rule 9]', () => {
    const tables = tablesMade();
    const guard = new ReplayGuard();
    const count = SITE_BOUNDS.nonces;
    for (let n = 0; n < count; n++) {
      if (guard.isFull(T)) throw new Error(`it is full at ${n}`);
      guard.remember(use(T, { nonce: `n-${n}` }));
    }
    // A batch is asked for as a whole before it is remembered.
    for (let n = count; n < count + BATCH; n++) guard.remember(use(T, { nonce: `n-${n}` }));
    expect(guard.isFull(T)).toBe(true);
    const asked = tables.length;
    for (let n = 0; n < 10; n++) expect(guard.isFull(T + n)).toBe(true);
    vi.unstubAllGlobals();
    // Who waits asks again and again: the answer must not cost a table each time.
    expect(tables.length - asked).toBeLessThanOrEqual(1);
    const atOnce = tables.map((bytes, index) => bytes + (tables[index - 1] ?? 0));
    expect(Math.max(...atOnce)).toBeLessThanOrEqual(64 * MIB);
    expect(tables.at(-1)).toBeLessThanOrEqual(32 * MIB);
    for (const n of [0, 1, count / 2, count - 1]) {
      expect(guard.judge(use(T + 1, { nonce: `n-${n}`, digest: 'e' }))).toBe('replay');
    }
    expect(guard.isFull(T + WINDOW_MS + 1_000)).toBe(false);
  }, 60_000);

  it('does not grow with time: what is over makes room for what comes [rule 9]', () => {
    const tables = tablesMade();
    const guard = new ReplayGuard();
    for (let second = 0; second < 24 * 3_600; second++) {
      guard.remember(use(T + second * 1_000, { nonce: `n-${second}` }));
    }
    vi.unstubAllGlobals();
    // At any moment 301 of them count.
    expect(Math.max(...tables)).toBeLessThanOrEqual(32 * 1_024);
    expect(guard.judge(use(T + 24 * 3_600_000, { nonce: 'n-86399', digest: 'e' }))).toBe('replay');
  });
});
