/**
 * The metrics of the whole edge: one object has what Sites and Vhosts report about themselves, and several have the
 * counts of all (`metrics/report.ts`). Prometheus scrapes them together. Every scrape stores the counts first, so a
 * count never decreases; a crash may lose the counts of the last few seconds.
 */

import { DurableObject } from 'cloudflare:workers';
import type { Env } from './env.ts';
import { expose } from './metrics/expose.ts';
import type { Counts } from './metrics/families.ts';
import { type Ledger, METRICS_MIGRATIONS, readLedger, storeLedger } from './metrics/ledger.ts';
import type { MetricsRpc, Report } from './metrics/report.ts';
import { Clock } from './object/clock.ts';
import { migrate } from './object/migrate.ts';
import { reasonOf } from './object/reason.ts';
import { Sql } from './object/sql.ts';
import { Turns } from './object/turn.ts';

/**
 * How long a report may be only in memory. The runtime evicts an idle object after ten seconds, and the
 * memory is lost then.
 */
const STORE_MS = 5_000;

export class Metrics extends DurableObject<Env> implements MetricsRpc {
  readonly #clock = new Clock();
  readonly #turns: Turns;
  readonly #ledger: Ledger;
  #isAlarmSet = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    migrate(ctx.storage, METRICS_MIGRATIONS);
    this.#turns = new Turns(ctx, this.#clock, { ending: () => {}, ended: () => {} });
    this.#ledger = readLedger(new Sql(ctx.storage));
  }

  report(report: Report): void {
    this.#ledger.take(report, this.#clock.now());
    // The object may report its queues again only after one has changed, so this report must not be lost.
    if (report.queues || report.isOver) this.#store();
    else this.#storeLater();
  }

  add(counts: Counts): void {
    this.#ledger.add(counts);
    this.#storeLater();
  }

  totals(): Counts {
    this.#store();
    return Object.fromEntries(this.#ledger.totals);
  }

  expose(version: string, others: readonly Counts[]): string {
    const now = this.#clock.now();
    this.#ledger.forgetQuiet(now);
    this.#store();
    return expose(this.#ledger, version, now, others);
  }

  override alarm(): void {
    this.#isAlarmSet = false;
    this.#store();
  }

  #storeLater(): void {
    if (this.#isAlarmSet || !this.#ledger.isChanged) return;
    this.#isAlarmSet = true;
    this.ctx.storage.setAlarm(this.#clock.now() + STORE_MS).catch((error: unknown) => {
      console.error('alarm to store metrics not set, the latest counts may be lost', {
        reason: reasonOf(error),
      });
      this.#isAlarmSet = false;
    });
  }

  #store(): void {
    if (!this.#ledger.isChanged) return;
    this.#turns.run((turn) => storeLedger(turn, this.#ledger));
  }
}
