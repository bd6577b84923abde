/**
 * The agenda of an object and its one alarm: each due source runs, all in one turn, and the alarm is then set
 * for the next due time.
 */
import { runInDurableObject } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { HOUR, holdClock, MINUTE, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { siteOf } from '#workerd/world.ts';
import { Agenda, AlarmClock, type DueSource, earliest } from '../../../durable-objects/object/agenda.ts';
import { Clock } from '../../../durable-objects/object/clock.ts';
import { type Turn, Turns } from '../../../durable-objects/object/turn.ts';

holdClock();
beforeEach(() => {
  vi.spyOn(console, 'error').mockReturnValue(undefined);
});

/** A source whose due time the test sets; `work` is what it does when it runs. */
class Source implements DueSource {
  readonly name: string;
  dueAtMs: number | undefined;
  readonly #work: (turn: Turn, source: Source) => void;
  /** The turns in which the source ran. */
  readonly turns: Turn[] = [];

  constructor(dueAtMs: number | undefined, work: (turn: Turn, source: Source) => void = done, name = '') {
    this.name = name;
    this.dueAtMs = dueAtMs;
    this.#work = work;
  }

  dueMs(): number | undefined {
    return this.dueAtMs;
  }

  run(turn: Turn): void {
    this.turns.push(turn);
    this.#work(turn, this);
  }

  get runsAtMs(): number[] {
    return this.turns.map((turn) => turn.now);
  }
}

/** The source is never due. */
class Rider extends Source {
  readonly ride: (turn: Turn) => void;

  constructor(ride: (turn: Turn) => void) {
    super(undefined);
    this.ride = ride;
  }
}

function done(_turn: Turn, source: Source): void {
  source.dueAtMs = undefined;
}

/** Writes the name of the source. */
function whole(turn: Turn, source: Source): void {
  turn.write('INSERT INTO note (text) VALUES (?)', source.name);
  done(turn, source);
}

function fail(): never {
  throw new Error('poison');
}

interface Bench {
  agenda: Agenda;
  alarm: AlarmClock;
  storage: DurableObjectStorage;
  /** The moments for which the alarm was set, in order. */
  sets: number[];
  /** Makes the given number of calls that set the alarm fail. */
  breakAlarm(times: number): void;
  /** Runs the alarm at that moment. */
  ringAt(epochMs: number): void;
  notes(): string[];
}

/** An agenda in its own object. The object's own agenda has nothing to do and does not interfere. */
async function onBench(
  sources: readonly Source[],
  work: (bench: Bench) => void | Promise<void>,
  ending: (turn: Turn) => void = () => {},
  abort: (reason?: string) => void = () => {},
): Promise<void> {
  await runInDurableObject(siteOf(crypto.randomUUID()), async (_site, { storage }) => {
    storage.sql.exec('CREATE TABLE note (text TEXT NOT NULL)');
    const sets: number[] = [];
    let failures = 0;
    const watched = {
      getAlarm: () => storage.getAlarm(),
      setAlarm: async (epochMs: number) => {
        if (failures > 0) {
          failures -= 1;
          throw new Error('alarm not set');
        }
        sets.push(epochMs);
        await storage.setAlarm(epochMs);
      },
    } as unknown as DurableObjectStorage;
    const clock = new Clock();
    const ctx = { storage, abort } as unknown as DurableObjectState;
    const alarm = new AlarmClock(watched, clock);
    const agenda = new Agenda(sources, new Turns(ctx, clock, { ending, ended: () => {} }), alarm);
    await work({
      agenda,
      alarm,
      storage,
      sets,
      breakAlarm: (times) => {
        failures = times;
      },
      ringAt: (epochMs) => {
        setClock(epochMs);
        agenda.run();
      },
      notes: () =>
        storage.sql
          .exec<{ text: string }>('SELECT text FROM note ORDER BY rowid')
          .toArray()
          .map(({ text }) => text),
    });
  });
}

/** The same with the agenda loaded, as in an object that is awake. */
async function onLoaded(...[sources, work, ...rest]: Parameters<typeof onBench>): Promise<void> {
  const loaded = async (bench: Bench) => {
    await bench.agenda.load();
    await work(bench);
  };
  await onBench(sources, loaded, ...rest);
}

const T = START_MS;

describe('the alarm', () => {
  it.each([
    [[T + 3_000, T + 1_000, T + 2_000], T + 1_000],
    [[T + 1_000, T + 2_000], T + 1_000],
    [[undefined, T + 2_000, undefined], T + 2_000],
    [[undefined, undefined], null],
    [[], null],
  ])(
    'is set, for sources that are due at %j, for the earliest of these times: %j [rule 10]',
    async (dueMs, expected) => {
      const sources = dueMs.map((atMs) => new Source(atMs));
      await onLoaded(sources, async ({ storage }) => {
        expect(await storage.getAlarm()).toBe(expected);
      });
    },
  );

  it('is set again only for an earlier time than the current one [rule 10]', async () => {
    const source = new Source(T + 10_000);
    await onLoaded([source], async ({ agenda, storage, sets }) => {
      for (const later of [T + 10_000, T + 20_000, undefined]) {
        source.dueAtMs = later;
        agenda.arm();
      }
      expect(sets).toEqual([T + 10_000]);
      source.dueAtMs = T + 5_000;
      agenda.arm();
      expect(sets).toEqual([T + 10_000, T + 5_000]);
      expect(await storage.getAlarm()).toBe(T + 5_000);
    });
  });

  it('is not set before the agenda is loaded, because loading reads the alarm from before the wake [rule 10]', async () => {
    const source = new Source(T + 10_000);
    await onBench([source], async ({ agenda, storage, sets }) => {
      agenda.arm();
      expect(sets).toEqual([]);
      expect(await storage.getAlarm()).toBeNull();
      await agenda.load();
      expect(sets).toEqual([T + 10_000]);
    });
  });

  it.each([
    ['an earlier one', T + 4_000, []],
    ['the same one', T + 10_000, []],
    ['a later one', T + 40_000, [T + 10_000]],
  ])(
    'is replaced, if it is set when the object wakes, only if it is later than the due time: %s [rule 10]',
    async (_what, before, expected) => {
      await onBench([new Source(T + 10_000)], async ({ agenda, storage, sets }) => {
        await storage.setAlarm(before);
        await agenda.load();
        expect(sets).toEqual(expected);
        expect(await storage.getAlarm()).toBe(Math.min(before, T + 10_000));
      });
    },
  );

  it('is set for now when a source is overdue, never for the past [rule 10]', async () => {
    await onLoaded([new Source(T - MINUTE)], ({ sets }) => {
      expect(sets).toEqual([T]);
    });
  });

  it('is set again by the next arm() if it has not run one second after its time [rule 10]', async () => {
    await onLoaded([new Source(T + 10_000)], ({ agenda, sets }) => {
      setClock(T + 10_000 + SECOND - 1);
      agenda.arm();
      expect(sets).toEqual([T + 10_000]);
      setClock(T + 10_000 + SECOND);
      agenda.arm();
      expect(sets).toEqual([T + 10_000, T + 10_000 + SECOND]);
    });
  });

  it.each([T + HOUR, undefined])(
    'is set for now if it was missed before the object woke, whatever the next due time is: %s [rule 10]',
    async (dueMs) => {
      await onBench([new Source(dueMs)], async ({ agenda, storage, sets }) => {
        await storage.setAlarm(T - MINUTE);
        sets.length = 0;
        await agenda.load();
        expect(sets).toEqual([T]);
      });
    },
  );

  it('is set one millisecond after the alarm that just ran if a source is still due at that time [rule 10]', async () => {
    const source = new Source(T + 10_000, () => {});
    await onLoaded([source], async ({ storage, sets, ringAt }) => {
      ringAt(T + 10_000);
      expect(source.runsAtMs).toEqual([T + 10_000]);
      expect(sets).toEqual([T + 10_000, T + 10_001]);
      expect(await storage.getAlarm()).toBe(T + 10_001);
    });
  });

  it('is set by the next arm() if it could not be set [rule 10]', async () => {
    await onBench([new Source(T + 10_000)], async ({ agenda, sets, breakAlarm }) => {
      breakAlarm(1);
      await agenda.load();
      expect(sets).toEqual([]);
      await Promise.resolve();
      agenda.arm();
      expect(sets).toEqual([T + 10_000]);
    });
  });
});

describe('a source of an agenda', () => {
  it('runs at and after its due time, not before it, and never without a due time [rule 10]', async () => {
    const sources = [T - 1, T, T + 1, undefined].map((dueAtMs) => new Source(dueAtMs));
    await onLoaded(sources, ({ sets, ringAt }) => {
      ringAt(T);
      expect(sources.map((source) => source.runsAtMs)).toEqual([[T], [T], [], []]);
      expect(sets).toEqual([T, T + 1]);
    });
  });

  it('runs in one turn with all other due sources, in the listed order, whatever their due times are [rule 10]', async () => {
    let endings = 0;
    const sources = [new Source(T, whole, 'a'), new Source(T - 2, whole, 'b'), new Source(T - 1, whole, 'c')];
    const work = ({ ringAt, notes }: Bench) => {
      ringAt(T);
      expect(notes()).toEqual(['a', 'b', 'c']);
      expect(new Set(sources.flatMap((source) => source.turns)).size).toBe(1);
      expect(endings).toBe(1);
    };
    await onLoaded(sources, work, () => {
      endings += 1;
    });
  });

  it('runs again at the later due time that it sets itself, not before, and the alarm is set for it [rule 10]', async () => {
    const call = new Source(T, (turn, source) => {
      source.dueAtMs = turn.now + 8 * SECOND;
    });
    await onLoaded([call], async ({ storage, ringAt }) => {
      ringAt(T);
      expect(await storage.getAlarm()).toBe(T + 8 * SECOND);
      ringAt(T + 8 * SECOND - 1);
      expect(call.runsAtMs).toEqual([T]);
      ringAt(T + 8 * SECOND);
      expect(call.runsAtMs).toEqual([T, T + 8 * SECOND]);
    });
  });

  it('sets no alarm after it has run if it has no further due time [rule 10]', async () => {
    await onLoaded([new Source(T)], ({ sets, ringAt }) => {
      ringAt(T);
      expect(sets).toEqual([T]);
    });
  });
});

describe('a source that throws', () => {
  const halfway = (turn: Turn) => {
    turn.write(`INSERT INTO note (text) VALUES ('half')`);
    turn.remember(() => {
      throw new Error('remembered');
    });
    fail();
  };

  it('loses only its own changes; the sources before and after it keep theirs [rule 10]', async () => {
    const sources = [new Source(T, whole, 'a'), new Source(T, halfway), new Source(T, whole, 'c')];
    await onLoaded(sources, ({ ringAt, notes }) => {
      ringAt(T);
      expect(notes()).toEqual(['a', 'c']);
    });
  });

  it('in `ride`, its work at every alarm, stops no other source, and all `ride` work runs after the due sources [rule 10]', async () => {
    const note = (text: string) => (turn: Turn) => turn.write('INSERT INTO note (text) VALUES (?)', text);
    const riders = [new Rider((turn) => void note('first')(turn)), new Rider(fail)];
    const sources = [...riders, new Rider((turn) => void note('last')(turn)), new Source(T, whole, 'due')];
    await onLoaded(sources, ({ ringAt, notes }) => {
      ringAt(T);
      expect(notes()).toEqual(['due', 'first', 'last']);
    });
  });

  it('runs again after 60 s, while other sources run at their own times and no additional alarm is set [rule 10]', async () => {
    const broken = new Source(T, halfway);
    const steady = new Source(T, (turn, source) => {
      source.dueAtMs = turn.now + 25 * SECOND;
    });
    await onLoaded([broken, steady], async ({ storage, sets, ringAt }) => {
      const rings: number[] = [];
      for (let ring = 0; ring < 7; ring++) {
        const atMs = (await storage.getAlarm()) ?? 0;
        rings.push((atMs - T) / SECOND);
        ringAt(atMs);
      }
      expect(rings).toEqual([0, 25, 50, 60, 75, 100, 120]);
      expect(broken.runsAtMs.map((atMs) => (atMs - T) / SECOND)).toEqual([0, 60, 120]);
      expect(steady.runsAtMs.map((atMs) => (atMs - T) / SECOND)).toEqual([0, 25, 50, 75, 100]);
      expect(sets).toHaveLength(8);
    });
  });

  it('while nothing else is due has the alarm set 60 s ahead, and does not run at an earlier one [rule 10]', async () => {
    const broken = new Source(T, fail);
    await onLoaded([broken], ({ sets, ringAt }) => {
      ringAt(T);
      expect(sets).toEqual([T, T + MINUTE]);
      ringAt(T + MINUTE - 1);
      expect(broken.runsAtMs).toEqual([T]);
      ringAt(T + MINUTE);
      expect(broken.runsAtMs).toEqual([T, T + MINUTE]);
    });
  });

  it('has the alarm set for its next due time if that is more than 60 s ahead [rule 10]', async () => {
    const broken = new Source(T, (_turn, source) => {
      source.dueAtMs = T + 90 * SECOND;
      fail();
    });
    await onLoaded([broken], ({ sets, ringAt }) => {
      ringAt(T);
      expect(sets.at(-1)).toBe(T + 90 * SECOND);
    });
  });

  it('once and then succeeds runs at its own due times again [rule 10]', async () => {
    let isBroken = true;
    const source = new Source(T, (turn, self) => {
      if (isBroken) fail();
      self.dueAtMs = turn.now + SECOND;
    });
    await onLoaded([source], ({ sets, ringAt }) => {
      ringAt(T);
      isBroken = false;
      ringAt(T + MINUTE);
      ringAt(T + MINUTE + SECOND);
      expect(source.runsAtMs).toEqual([T, T + MINUTE, T + MINUTE + SECOND]);
      expect(sets.at(-1)).toBe(T + MINUTE + 2 * SECOND);
    });
  });
});

describe('an agenda whose turn fails as a whole', () => {
  it('aborts the object; if code runs on, the handler does not throw and sets the alarm again [rule 10]', async () => {
    const aborts: unknown[] = [];
    await onLoaded(
      [new Source(T, () => {})],
      ({ sets, ringAt }) => {
        ringAt(T);
        expect(aborts).toEqual(['write failed']);
        expect(sets).toEqual([T, T + 1]);
      },
      fail,
      (reason) => aborts.push(reason),
    );
  });
});

describe('earliest', () => {
  it.each([
    [[], undefined],
    [[undefined, null], undefined],
    [[5], 5],
    [[5, 3, 4], 3],
    [[undefined, 7, null, 6], 6],
    [[0, 1], 0],
    [[0, null], 0],
    [[-1, 0], -1],
  ])('finds of %j the value %j [rule 10]', (moments, expected) => {
    expect(earliest(moments)).toBe(expected);
    expect(earliest(new Set(moments))).toBe(expected);
  });
});
