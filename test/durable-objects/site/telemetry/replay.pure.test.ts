/** Seen nonces: a re-send, a replay or new, per device, and exactly how long a nonce counts [C-3.8]. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { SITE_BOUNDS } from '../../../../durable-objects/site/bounds.ts';
import {
  type NonceUse,
  partOf,
  REPLAY_HORIZON_MS,
  ReplayGuard,
} from '../../../../durable-objects/site/telemetry/replay.ts';

const MIB = 1_024 * 1_024;
/** The maximum number of frames in one link message. */
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
    ['that is used again in the same message', 'repeat', {}],
    ['that is used again in another message', 'replay', { digest: 'e' }],
    ['that only another device used', 'new', { deviceId: 'device-2', digest: 'e' }],
    ['that differs from a used one only in case', 'new', { nonce: 'N', digest: 'e' }],
  ])('%s counts as %s [C-3.8]', (_what, expected, changes) => {
    expect(guardThatSaw(use(T)).judge(use(T + 1, changes))).toBe(expected);
  });

  it('an unused nonce is new, also for a device that used others [C-3.8]', () => {
    expect(new ReplayGuard().judge(use(T))).toBe('new');
    expect(guardThatSaw(use(T, { nonce: 'a' }), use(T, { nonce: 'b' })).judge(use(T))).toBe('new');
  });

  it('judging a nonce does not store it [C-3.8]', () => {
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
    'counts, for a message %s, until 300 s after its ts or its arrival, whichever is later, inclusive [C-3.8]',
    (_dated, ts, untilMs) => {
      const guard = guardThatSaw(use(T, { ts }));
      expect(guard.judge(use(untilMs, { digest: 'e' }))).toBe('replay');
      expect(guard.judge(use(untilMs))).toBe('repeat');
      expect(guard.judge(use(untilMs + 1, { digest: 'e' }))).toBe('new');
    },
  );

  it('an expired nonce can be used again, and then counts with its new message [C-3.8]', () => {
    const guard = guardThatSaw(use(T), use(T + WINDOW_MS + 1, { digest: 'e' }));
    expect(guard.judge(use(T + WINDOW_MS + 2))).toBe('replay');
    expect(guard.judge(use(T + WINDOW_MS + 2, { digest: 'e' }))).toBe('repeat');
  });

  it('each nonce is known until its own expiry and no longer, while other nonces are deleted [C-3.8]', () => {
    const guard = new ReplayGuard();
    const stepMs = 1_000;
    const stored = WINDOW_MS / stepMs;
    for (let step = 0; step < 3 * stored; step++) {
      const now = T + step * stepMs;
      guard.remember(use(now, { nonce: `n-${step}`, deviceId: `device-${step % 3}` }));
      const oldest = Math.max(0, step - stored);
      const judge = (n: number) =>
        guard.judge(use(now, { nonce: `n-${n}`, deviceId: `device-${n % 3}`, digest: 'e' }));
      expect(judge(oldest)).toBe('replay');
      if (oldest > 0) expect(judge(oldest - 1)).toBe('new');
    }
  });

  it('the only nonce of a device is known until its expiry, although another device uses nonces [C-3.8]', () => {
    const guard = guardThatSaw(use(T), use(T + 31_000, { deviceId: 'device-2' }));
    expect(guard.judge(use(T + WINDOW_MS, { digest: 'e' }))).toBe('replay');
  });

  it('no nonce counts longer than ten minutes, for which a site reads its journal back after a wake [C-3.8]', () => {
    expect(REPLAY_HORIZON_MS).toBe(600_000);
    const latest = use(T, { ts: T + WINDOW_MS });
    const guard = guardThatSaw(latest);
    expect(guard.judge(use(T + REPLAY_HORIZON_MS, { digest: 'e' }))).toBe('replay');
    expect(guard.judge(use(T + REPLAY_HORIZON_MS + 1, { digest: 'e' }))).toBe('new');
  });
});

describe('the parts of the nonces that move with a device', () => {
  const uses = (count: number, receivedMs = T) =>
    Array.from({ length: count }, (_none, index) => use(receivedMs, { nonce: `n${index}` }));

  it('contain each nonce once, at most 20 000 in a part, also if the first ones expire between two parts [C-3.8]', () => {
    const [old, fresh] = [uses(15_000, T - 1_000), uses(60_000).slice(15_000)];
    const first = partOf([...fresh, ...old]);
    expect(first.nonces).toHaveLength(20_000);
    const moved = [...first.nonces];
    for (let { next } = first; next; ) {
      const part = partOf(fresh, next);
      moved.push(...part.nonces);
      next = part.next;
    }
    expect(moved).toHaveLength(60_000);
    expect(new Set(moved.map(({ nonce }) => nonce)).size).toBe(60_000);
  });

  it('are one without a next for 20 000 nonces, and for none', () => {
    expect(partOf(uses(20_000)).next).toBeUndefined();
    expect(partOf([])).toEqual({ nonces: [] });
  });
});

describe('the memory of nonces', () => {
  /** Records the sizes in bytes of the tables that the guard allocates, in order. */
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

  it('a full nonce memory plus one batch fits in 32 MiB, and in 64 MiB while it grows [rule 9]', () => {
    const tables = tablesMade();
    const guard = new ReplayGuard();
    const count = SITE_BOUNDS.nonces;
    for (let n = 0; n < count; n++) {
      if (guard.isFull(T)) throw new Error(`it is full at ${n}`);
      guard.remember(use(T, { nonce: `n-${n}` }));
    }
    // A batch is checked as a whole before it is remembered.
    for (let n = count; n < count + BATCH; n++) guard.remember(use(T, { nonce: `n-${n}` }));
    expect(guard.isFull(T)).toBe(true);
    const asked = tables.length;
    for (let n = 0; n < 10; n++) expect(guard.isFull(T + n)).toBe(true);
    vi.unstubAllGlobals();
    // A waiting caller asks again and again: the answer must not allocate a table each time.
    expect(tables.length - asked).toBeLessThanOrEqual(1);
    const atOnce = tables.map((bytes, index) => bytes + (tables[index - 1] ?? 0));
    expect(Math.max(...atOnce)).toBeLessThanOrEqual(64 * MIB);
    expect(tables.at(-1)).toBeLessThanOrEqual(32 * MIB);
    for (const n of [0, 1, count / 2, count - 1]) {
      expect(guard.judge(use(T + 1, { nonce: `n-${n}`, digest: 'e' }))).toBe('replay');
    }
    expect(guard.isFull(T + WINDOW_MS + 1_000)).toBe(false);
  }, 60_000);

  it('the nonce memory does not grow over time: expired nonces make room for new ones [rule 9]', () => {
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
