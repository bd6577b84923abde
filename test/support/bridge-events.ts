/** The events that connections reported, for AMQP and MQTT alike. */
import type { ConnectionEvents, Refusal } from '../../bridge/connection-report.ts';
import type { EndReason, PublishResult } from '../../bridge/reasons.ts';
import { Signal } from './bridge-signal.ts';

export class SeenEvents implements ConnectionEvents {
  readonly opens: { username: string; vhost?: string }[] = [];
  /** The reasons of connections that were never opened, and of those that were. */
  readonly refusedWhy: string[] = [];
  readonly closedWhy: string[] = [];
  endReason: EndReason | undefined;
  readonly results: Record<PublishResult, number> = { confirmed: 0, nacked: 0, refused: 0 };
  publishedCount = 0;
  deliveredCount = 0;
  readonly #signal = new Signal();

  /** The reasons of all ends. */
  get endedWhy(): string[] {
    return [...this.refusedWhy, ...this.closedWhy];
  }
  get openedNames(): string[] {
    return this.opens.map(({ username }) => username.toLowerCase());
  }
  opened(details: { username: string; vhost?: string }): void {
    this.opens.push(details);
  }
  refused({ why }: Refusal): void {
    this.refusedWhy.push(why);
  }
  closed(why: string, reason: EndReason): void {
    this.endReason = reason;
    this.closedWhy.push(why);
    this.#signal.changed();
  }
  answered(result: PublishResult, count: number): void {
    this.results[result] += count;
    this.#signal.changed();
  }
  published(count: number): void {
    this.publishedCount += count;
  }
  delivered(count: number): void {
    this.deliveredCount += count;
  }
  /** Resolves in the turn of the answer: what the bridge writes at the end of that turn is not written yet. */
  untilAnswered(result: PublishResult): Promise<number> {
    return this.#signal.until(() => this.results[result] || undefined);
  }
  untilClosed(): Promise<string> {
    return this.#signal.until(() => this.closedWhy[0]);
  }
}
