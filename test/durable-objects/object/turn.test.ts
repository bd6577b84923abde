/**
 * A turn: steps that are undone separately, effects that wait for the end of the writes, and the state left by a turn
 * that fails as a whole [rule 3].
 */
import { env, runInDurableObject } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { siteOf } from '#workerd/world.ts';
import { type Turn, Turns } from '../../../durable-objects/object/turn.ts';

const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');

beforeEach(() => {
  vi.spyOn(console, 'error').mockReturnValue(undefined);
});
/** Turns in their own object, which records what happens to them. Its clock is a millisecond later each time. */
interface Bench {
  turns: Turns;
  /** The events in order; work adds its own. */
  log: string[];
  /** The reason of each abort of the object. */
  aborts: unknown[];
  /** The texts in the table `note`. */
  notes(): string[];
}

async function onBench(work: (bench: Bench) => void, ending: (turn: Turn) => void = () => {}): Promise<void> {
  await runInDurableObject(siteOf(crypto.randomUUID()), (_site, { storage }) => {
    storage.sql.exec("CREATE TABLE note (text TEXT NOT NULL CHECK (text <> ''))");
    const log: string[] = [];
    const aborts: unknown[] = [];
    const ctx = {
      storage,
      abort: (reason: unknown) => aborts.push(reason),
    } as unknown as DurableObjectState;
    const hooks = {
      ending: (turn: Turn) => {
        log.push('ending');
        ending(turn);
      },
      ended: () => {
        log.push('ended');
      },
    };
    let ticks = 0;
    const clock = {
      now: () => {
        ticks += 1;
        return NOW_MS + ticks;
      },
    };
    const turns = new Turns(ctx, clock, hooks);
    const notes = () =>
      storage.sql
        .exec<{ text: string }>('SELECT text FROM note ORDER BY rowid')
        .toArray()
        .map(({ text }) => text);
    work({ turns, log, aborts, notes });
  });
}

function note(turn: Turn, text: string): void {
  turn.write('INSERT INTO note (text) VALUES (?)', text);
}

/** The work of a step that makes every kind of change a step can make, under that name. */
function changeAll(turn: Turn, log: string[], name: string): void {
  note(turn, name);
  turn.undo(() => log.push(`${name} undone`));
  turn.remember(() => log.push(`${name} remembered`));
  turn.send(() => log.push(`${name} sent`));
}

function fail(): never {
  throw new Error('poison');
}

describe('a step that throws', () => {
  it('loses its own SQL changes only; those before and after it stay [rule 3]', async () => {
    await onBench(({ turns, notes, aborts }) => {
      const stood = turns.run((turn) => {
        note(turn, 'before');
        const steps = [
          turn.step(() => note(turn, 'first')),
          turn.step(() => {
            note(turn, 'second');
            fail();
          }),
          turn.step(() => note(turn, 'third')),
        ];
        note(turn, 'after');
        return steps;
      });
      expect(stood).toEqual([true, false, true]);
      expect(notes()).toEqual(['before', 'first', 'third', 'after']);
      expect(aborts).toEqual([]);
    });
  });

  it('loses its SQL changes, too, when the database rejects one of its writes [rule 3]', async () => {
    await onBench(({ turns, notes }) => {
      turns.run((turn) => {
        const stood = turn.step(() => {
          note(turn, 'half');
          note(turn, '');
        });
        expect(stood).toBe(false);
        note(turn, 'rest');
      });
      expect(notes()).toEqual(['rest']);
    });
  });

  it('has only its own undo functions run, the last one first, before the turn continues [rule 3]', async () => {
    await onBench(({ turns, log }) => {
      turns.run((turn) => {
        turn.undo(() => log.push('undo of the turn'));
        turn.step(() => turn.undo(() => log.push('undo of a step that stands')));
        turn.step(() => {
          for (const name of ['first', 'second', 'third']) turn.undo(() => log.push(`undo ${name}`));
          fail();
        });
        log.push('rest');
      });
      expect(log).toEqual(['undo third', 'undo second', 'undo first', 'rest', 'ending', 'ended']);
    });
  });

  it('changes no memory and sends nothing; other steps do both after the commit, in order [rule 3]', async () => {
    await onBench(({ turns, log }) => {
      turns.run((turn) => {
        for (const name of ['first', 'second', 'third']) {
          turn.step(() => {
            changeAll(turn, log, name);
            if (name === 'second') fail();
          });
        }
      });
      expect(log).toEqual([
        'second undone',
        'ending',
        'first remembered',
        'third remembered',
        'first sent',
        'third sent',
        'ended',
      ]);
    });
  });
});

describe('a step within a step', () => {
  it('is undone alone if it throws: the changes of the outer step stay [rule 3]', async () => {
    await onBench(({ turns, log, notes }) => {
      turns.run((turn) => {
        const stood = turn.step(() => {
          changeAll(turn, log, 'outer');
          const inner = turn.step(() => {
            changeAll(turn, log, 'inner');
            fail();
          });
          expect(inner).toBe(false);
          note(turn, 'rest of outer');
        });
        expect(stood).toBe(true);
      });
      expect(notes()).toEqual(['outer', 'rest of outer']);
      expect(log).toEqual(['inner undone', 'ending', 'outer remembered', 'outer sent', 'ended']);
    });
  });

  it('is undone, though it succeeded, when the outer step throws; the last change is undone first [rule 3]', async () => {
    await onBench(({ turns, log, notes }) => {
      turns.run((turn) => {
        const stood = turn.step(() => {
          changeAll(turn, log, 'outer');
          expect(turn.step(() => changeAll(turn, log, 'inner'))).toBe(true);
          turn.undo(() => log.push('rest of outer undone'));
          fail();
        });
        expect(stood).toBe(false);
        note(turn, 'rest');
      });
      expect(notes()).toEqual(['rest']);
      expect(log).toEqual(['rest of outer undone', 'inner undone', 'outer undone', 'ending', 'ended']);
    });
  });

  it('is undone only once when both steps throw [rule 3]', async () => {
    await onBench(({ turns, log, notes }) => {
      turns.run((turn) =>
        turn.step(() => {
          changeAll(turn, log, 'outer');
          turn.step(() => {
            changeAll(turn, log, 'inner');
            fail();
          });
          fail();
        }),
      );
      expect(notes()).toEqual([]);
      expect(log).toEqual(['inner undone', 'outer undone', 'ending', 'ended']);
    });
  });
});

describe('a turn that succeeds', () => {
  it('runs its work, its ending hook, the commit, memory changes, sends and the ended hook in this order [rule 3]', async () => {
    await onBench(({ turns, log }) => {
      turns.run((turn) => {
        turn.send(() => log.push('sent 1'));
        turn.remember(() => log.push('remembered 1'));
        turn.send(() => log.push('sent 2'));
        turn.remember(() => log.push('remembered 2'));
        turn.undo(() => log.push('undone'));
        log.push('work');
      });
      expect(log).toEqual(['work', 'ending', 'remembered 1', 'remembered 2', 'sent 1', 'sent 2', 'ended']);
    });
  });

  it('returns the result of its work, and has the same time from its beginning to its sends [rule 3]', async () => {
    const moments: number[] = [];
    await onBench(
      ({ turns }) => {
        const first = turns.run((turn) => {
          turn.step(() => moments.push(turn.now));
          turn.remember(() => moments.push(turn.now));
          turn.send(() => moments.push(turn.now));
          return turn.now;
        });
        expect(first).toBeGreaterThan(NOW_MS);
        // The step, the ending hook, the memory change and the send.
        expect(moments).toEqual(Array(4).fill(first));
        expect(turns.run((turn) => turn.now)).toBeGreaterThan(first);
      },
      (turn) => moments.push(turn.now),
    );
  });

  it('also commits what its ending hook writes, then runs the memory changes and sends of that hook [rule 5]', async () => {
    const effects: string[] = [];
    const ending = (turn: Turn) => {
      note(turn, 'gathered');
      turn.remember(() => effects.push('remembered'));
      turn.send(() => effects.push('sent'));
    };
    await onBench(({ turns, notes }) => {
      turns.run((turn) => note(turn, 'work'));
      expect(notes()).toEqual(['work', 'gathered']);
      expect(effects).toEqual(['remembered', 'sent']);
    }, ending);
  });

  it('calls its caller back after its sends and before its end, which comes even if the caller throws [rule 4]', async () => {
    await onBench(({ turns, log }) => {
      turns.run(
        (turn) => changeAll(turn, log, 'first'),
        () => log.push('caller'),
      );
      expect(log).toEqual(['ending', 'first remembered', 'first sent', 'caller', 'ended']);
      const failing = () => {
        throw new Error('broken');
      };
      expect(() => turns.run((turn) => changeAll(turn, log, 'second'), failing)).toThrow('broken');
      expect(log.slice(5)).toEqual(['ending', 'second remembered', 'second sent', 'ended']);
    });
  });

  it('may run another turn from its sends [rule 3]', async () => {
    await onBench(({ turns, notes, log }) => {
      turns.run((turn) => {
        note(turn, 'first');
        turn.send(() => turns.run((next) => note(next, 'second')));
      });
      expect(notes()).toEqual(['first', 'second']);
      expect(log).toEqual(['ending', 'ending', 'ended', 'ended']);
    });
  });

  it('returns the row of a write with RETURNING [rule 3]', async () => {
    await onBench(({ turns }) => {
      const row = turns.run((turn) =>
        turn.writeReturning<{ rowid: number; text: string }>(
          'INSERT INTO note (text) VALUES (?) RETURNING rowid, text',
          'a',
        ),
      );
      expect(row).toEqual({ rowid: 1, text: 'a' });
    });
  });
});

/**
 * An object whose event `work` runs with the runtime's own storage and abort. Returns how the event failed, and what
 * stands in the table `note` after the object has restarted.
 */
async function inOwnEvent(
  work: (turns: Turns, state: DurableObjectState) => unknown,
  ending: (turn: Turn) => void = () => {},
): Promise<{ failure: unknown; stored: string[] }> {
  const id = crypto.randomUUID();
  await runInDurableObject(siteOf(id), (_site, { storage }) => {
    storage.sql.exec("CREATE TABLE note (text TEXT NOT NULL CHECK (text <> ''))");
    storage.sql.exec("INSERT INTO note (text) VALUES ('earlier')");
  });
  const event = runInDurableObject(siteOf(id), async (_site, state) => {
    await work(new Turns(state, { now: () => NOW_MS }, { ending, ended: () => {} }), state);
  });
  const failure = await event.then(
    () => undefined,
    (error: unknown) => error,
  );
  const stored = await runInDurableObject(siteOf(id), (_site, { storage }) =>
    storage.sql.exec<{ text: string }>('SELECT text FROM note ORDER BY rowid').toArray(),
  );
  return { failure, stored: stored.map(({ text }) => text) };
}

describe('rows that are inserted together', () => {
  it('are all stored, in order, also if they need more bindings than one statement has [rule 3]', async () => {
    await onBench(({ turns, notes }) => {
      const texts = Array.from({ length: 250 }, (_none, index) => `text ${index}`);
      turns.run((turn) => {
        turn.insertAll('note', []);
        turn.insertAll(
          'note',
          texts.map((text) => ({ text })),
        );
        expect(turn.rowsWritten).toBe(250);
      });
      expect(notes()).toEqual(texts);
    });
  });
});

describe('a turn that fails', () => {
  const aborted = expect.objectContaining({ message: 'write failed' });
  const failures: [string, (turn: Turn) => void, (turn: Turn) => void, string][] = [
    ['during its work', fail, () => {}, 'poison'],
    ['in a write that the database refuses', (turn) => note(turn, ''), () => {}, 'CHECK constraint failed'],
    ['during its ending', () => {}, fail, 'poison'],
  ];

  it.each(failures)(
    '%s stores nothing, changes no memory, sends nothing, and aborts the object [rule 3]',
    async (_where, work, ending, message) => {
      const log: string[] = [];
      const answers: boolean[] = [];
      const failing = (turn: Turn) => {
        changeAll(turn, log, 'all');
        answers.push(turn.step(() => changeAll(turn, log, 'step')));
        work(turn);
      };
      const { failure, stored } = await inOwnEvent((turns) => turns.run(failing), ending);
      expect(JSON.stringify(vi.mocked(console.error).mock.calls)).toContain(message);
      expect(failure).toEqual(aborted);
      expect(answers).toEqual([true]);
      expect(log).toEqual([]);
      expect(stored).toEqual(['earlier']);
    },
  );

  it('takes with it what the same event wrote before it, and nothing of the event runs after it [rule 3]', async () => {
    const log: string[] = [];
    const { failure, stored } = await inOwnEvent((turns) => {
      turns.run((turn) => note(turn, 'a turn before'));
      try {
        turns.run((turn) => {
          note(turn, 'half');
          fail();
        });
      } catch {
        log.push('caught');
      } finally {
        log.push('went on');
      }
    });
    expect(failure).toEqual(aborted);
    expect(log).toEqual([]);
    expect(stored).toEqual(['earlier']);
  });

  it('leaves what an earlier event stored, and turns of the restarted object work [rule 3]', async () => {
    const { failure, stored } = await inOwnEvent(async (turns, { storage }) => {
      turns.run((turn) => note(turn, 'stored'));
      await storage.sync();
      turns.run((turn) => {
        note(turn, 'half');
        fail();
      });
    });
    expect(failure).toEqual(aborted);
    expect(stored).toEqual(['earlier', 'stored']);
  });

  it.each([
    ['does not let out what a turn of the same event sent before it', fail, 0],
    ['has no part in what another turn sends if it does not fail', () => {}, 1],
  ])('%s [rule 3]', async (_what, second, arrived) => {
    const most = 10;
    const counter = () => env.REQUESTS.get(env.REQUESTS.idFromName('receiver'));
    const before = (await counter().take(most)).remaining;
    await inOwnEvent((turns) => {
      turns.run((turn) => {
        note(turn, 'sender');
        turn.send(
          () =>
            void counter()
              .take(most)
              .then(undefined, () => {}),
        );
      });
      turns.run(second);
    });
    expect(before - (await counter().take(most)).remaining).toBe(1 + arrived);
  });

  it('counts none of its rows as written [rule 9]', async () => {
    await onBench(({ turns, aborts }) => {
      const run = () =>
        turns.run((turn) => {
          note(turn, 'half');
          fail();
        });
      expect(run).toThrow('poison');
      expect(aborts).toEqual(['write failed']);
      expect(turns.rowsWritten).toBe(0);
    });
  });
});

describe('a turn within a turn', () => {
  it('throws: the outer turn fails too, stores nothing, and aborts the object [rule 3]', async () => {
    const { failure, stored } = await inOwnEvent((turns) =>
      turns.run((turn) => {
        note(turn, 'outer');
        turns.run((inner) => note(inner, 'inner'));
      }),
    );
    expect(failure).toMatchObject({ message: 'write failed' });
    expect(stored).toEqual(['earlier']);
  });

  it('throws in a step: that step fails, and the outer turn succeeds [rule 3]', async () => {
    await onBench(({ turns, notes, aborts }) => {
      turns.run((turn) => {
        note(turn, 'outer');
        const stood = turn.step(() => {
          note(turn, 'step');
          turns.run((inner) => note(inner, 'inner'));
        });
        expect(stood).toBe(false);
        expect(() => turns.run(() => {})).toThrow('a turn began inside another one');
      });
      expect(notes()).toEqual(['outer']);
      expect(aborts).toEqual([]);
    });
  });
});

describe('the count of written rows', () => {
  it('includes every write of all turns, also those of ending hooks, and no read [rule 9]', async () => {
    await onBench(
      ({ turns, notes }) => {
        const perTurn = [
          (turn: Turn) => note(turn, 'a'),
          (turn: Turn) => turn.write(`INSERT INTO note (text) VALUES ('b'), ('c')`),
          (turn: Turn) => turn.write(`UPDATE note SET text = 'd' WHERE text = 'a'`),
          (turn: Turn) => turn.write(`UPDATE note SET text = 'e' WHERE text = 'nobody'`),
          (turn: Turn) => turn.writeReturning(`INSERT INTO note (text) VALUES ('f') RETURNING text`),
          (turn: Turn) => turn.write('DELETE FROM note'),
          () => notes(),
        ].map((work) => {
          const before = turns.rowsWritten;
          const own = turns.run((turn) => {
            work(turn);
            return turn.rowsWritten;
          });
          return [own, turns.rowsWritten - before];
        });
        expect(perTurn).toEqual([
          [1, 2],
          [2, 3],
          [1, 2],
          [0, 1],
          [1, 2],
          // The rows that the endings wrote are removed too.
          [9, 10],
          [0, 1],
        ]);
      },
      (turn) => note(turn, 'ending'),
    );
  });
});
