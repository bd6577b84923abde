/**
 * A turn: steps that are undone separately, effects that wait for the commit, and the state left by a turn
 * that fails as a whole [rule 3].
 */
import { runInDurableObject } from 'cloudflare:test';
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
    let depth = 0;
    const transactionSync = <Value>(body: () => Value): Value => {
      depth += 1;
      try {
        const value = storage.transactionSync(body);
        if (depth === 1) log.push('committed');
        return value;
      } finally {
        depth -= 1;
      }
    };
    const ctx = {
      storage: { sql: storage.sql, transactionSync },
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
      expect(log).toEqual([
        'undo third',
        'undo second',
        'undo first',
        'rest',
        'ending',
        'committed',
        'ended',
      ]);
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
        'committed',
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
  it('that throws is undone alone: the changes of the outer step stay [rule 3]', async () => {
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
      expect(log).toEqual(['inner undone', 'ending', 'committed', 'outer remembered', 'outer sent', 'ended']);
    });
  });

  it('that succeeded is undone when the outer step throws; the last change is undone first [rule 3]', async () => {
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
      expect(log).toEqual([
        'rest of outer undone',
        'inner undone',
        'outer undone',
        'ending',
        'committed',
        'ended',
      ]);
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
      expect(log).toEqual(['inner undone', 'outer undone', 'ending', 'committed', 'ended']);
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
      expect(log).toEqual([
        'work',
        'ending',
        'committed',
        'remembered 1',
        'remembered 2',
        'sent 1',
        'sent 2',
        'ended',
      ]);
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
      expect(log).toEqual(['ending', 'committed', 'first remembered', 'first sent', 'caller', 'ended']);
      const failing = () => {
        throw new Error('broken');
      };
      expect(() => turns.run((turn) => changeAll(turn, log, 'second'), failing)).toThrow('broken');
      expect(log.slice(6)).toEqual(['ending', 'committed', 'second remembered', 'second sent', 'ended']);
    });
  });

  it('may run another turn from its sends [rule 3]', async () => {
    await onBench(({ turns, notes, log }) => {
      turns.run((turn) => {
        note(turn, 'first');
        turn.send(() => turns.run((next) => note(next, 'second')));
      });
      expect(notes()).toEqual(['first', 'second']);
      expect(log).toEqual(['ending', 'committed', 'ending', 'committed', 'ended', 'ended']);
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

describe('a turn that fails', () => {
  const failures: [string, (turn: Turn) => void, (turn: Turn) => void, RegExp][] = [
    ['during its work', fail, () => {}, /^poison$/],
    ['in a write that the database refuses', (turn) => note(turn, ''), () => {}, /CHECK constraint failed/],
    ['during its ending', () => {}, fail, /^poison$/],
  ];

  it.each(failures)(
    '%s writes nothing, changes no memory, sends nothing, and aborts the object [rule 3]',
    async (_where, work, ending, message) => {
      let isFailing = true;
      await onBench(
        ({ turns, log, aborts, notes }) => {
          const run = () =>
            turns.run((turn) => {
              changeAll(turn, log, 'all');
              turn.step(() => changeAll(turn, log, 'step'));
              if (isFailing) work(turn);
            });
          expect(run).toThrow(message);
          expect(notes()).toEqual([]);
          expect(log.filter((word) => word !== 'ending')).toEqual([]);
          expect(aborts).toEqual(['write failed']);
          expect(turns.rowsWritten).toBe(0);

          isFailing = false;
          run();
          expect(notes()).toEqual(['all', 'step']);
          expect(aborts).toHaveLength(1);
        },
        (turn) => {
          if (isFailing) ending(turn);
        },
      );
    },
  );

  it('undoes the steps that succeeded in it, although they returned true [rule 3]', async () => {
    await onBench(({ turns, notes }) => {
      const answers: boolean[] = [];
      const run = () =>
        turns.run((turn) => {
          answers.push(turn.step(() => note(turn, 'stood')));
          fail();
        });
      expect(run).toThrow('poison');
      expect(answers).toEqual([true]);
      expect(notes()).toEqual([]);
    });
  });
});

describe('a turn within a turn', () => {
  it('throws: the outer turn fails too, writes nothing, and aborts the object [rule 3]', async () => {
    await onBench(({ turns, notes, aborts }) => {
      const run = () =>
        turns.run((turn) => {
          note(turn, 'outer');
          turns.run((inner) => note(inner, 'inner'));
        });
      expect(run).toThrow('a turn began inside another one');
      expect(notes()).toEqual([]);
      expect(aborts).toEqual(['write failed']);
    });
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
