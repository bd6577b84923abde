/**
 * The edge's figures in one place: Sites and Vhosts tell it what they count and what they hold, the Worker what it
 * answered, and Prometheus reads it. What has been read is stored, so that no count goes back; what was counted within the
 * last seconds may be lost in a crash.
 */

import { DurableObject } from 'cloudflare:workers';
import type { Env } from './env.ts';
import { expose } from './figures/expose.ts';
import type { Counts } from './figures/families.ts';
import type { Ledger } from './figures/ledger.ts';
import { FIGURES_MIGRATIONS } from './figures/migrations.ts';
import type { FiguresRpc, Report } from './figures/report.ts';
import { LedgerRows } from './figures/rows.ts';
import { Clock } from './object/clock.ts';
import { migrate } from './object/migrate.ts';
import { reasonOf } from './object/reason.ts';
import { Sql } from './object/sql.ts';
import { Turns } from './object/turn.ts';

/** How long what was told waits to be stored: an object that nobody calls leaves memory after ten seconds. */
const STORE_MS = 5_000;

export class Figures extends DurableObject<Env> implements FiguresRpc {
  readonly #clock = new Clock();
  readonly #rows: LedgerRows;
  readonly #turns: Turns;
  readonly #ledger: Ledger;
  #isAlarmSet = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    migrate(ctx.storage, FIGURES_MIGRATIONS);
    this.#rows = new LedgerRows(new Sql(ctx.storage));
    this.#turns = new Turns(ctx, this.#clock, { ending: () => {}, ended: () => {} });
    this.#ledger = this.#rows.read();
  }

  report(report: Report): void {
    this.#ledger.take(report, this.#clock.now());
    // A queue that fills and is left alone is told of once: that must not be lost.
    if (report.queues || report.isOver) this.#store();
    else this.#storeLater();
  }

  add(counts: Counts): void {
    this.#ledger.add(counts);
    this.#storeLater();
  }

  expose(version: string): string {
    const now = this.#clock.now();
    this.#ledger.forgetQuiet(now);
    this.#store();
    return expose(this.#ledger, version, now);
  }

  override alarm(): void {
    this.#isAlarmSet = false;
    this.#store();
  }

  #storeLater(): void {
    if (this.#isAlarmSet || !this.#ledger.isChanged) return;
    this.#isAlarmSet = true;
    this.ctx.storage.setAlarm(this.#clock.now() + STORE_MS).catch((error: unknown) => {
      console.error('alarm not set', { reason: reasonOf(error) });
      this.#isAlarmSet = false;
    });
  }

  #store(): void {
    if (!this.#ledger.isChanged) return;
    const unstored = this.#ledger.takeUnstored();
    this.#turns.run((turn) => this.#rows.write(turn, unstored));
  }
}
