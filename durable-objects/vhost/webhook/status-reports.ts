/** Writes the changed status of webhooks to D1, until D1 has it. */

import type { WebhookStatusChange } from '../../../registry/webhook-status.ts';
import type { Calls } from '../../object/calls.ts';
import type { Clock } from '../../object/clock.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Endpoint } from './endpoint.ts';

const REPORT_MS = 5_000;
const RETRY_MS = 60_000;

interface ReportsHost {
  clock: Clock;
  calls: Calls;
  writeStatus(change: WebhookStatusChange): Promise<void>;
  keepAlive(work: Promise<void>): void;
  /** A report of this webhook has ended: its state must be stored. */
  settled(id: string): void;
  /** Due times may have changed. */
  changed(): void;
}

export class StatusReports {
  readonly #host: ReportsHost;
  readonly #underWay = new WeakSet<Endpoint>();
  #nextAtMs = 0;

  constructor(host: ReportsHost) {
    this.#host = host;
  }

  /** When the status must be reported; undefined: D1 has it, or a report is under way. */
  dueMs(endpoint: Endpoint): number | undefined {
    return endpoint.state.isReported || this.#underWay.has(endpoint) ? undefined : this.#nextAtMs;
  }

  report(endpoint: Endpoint): void {
    const { clock, keepAlive } = this.#host;
    const dueMs = this.dueMs(endpoint);
    if (dueMs === undefined || clock.now() < dueMs) return;
    this.#underWay.add(endpoint);
    keepAlive(this.#reportOnce(endpoint));
  }

  async #reportOnce(endpoint: Endpoint): Promise<void> {
    const { clock, calls, writeStatus, settled, changed } = this.#host;
    const { webhook, status } = endpoint;
    const { url, disabled: reason, statusAtMs: atMs } = endpoint.state;
    try {
      const change = { id: webhook.id, url, status, reason, atMs };
      await calls.until(clock.now() + REPORT_MS, writeStatus(change));
      if (endpoint.state.statusAtMs === atMs) endpoint.reported();
    } catch (error) {
      this.#nextAtMs = clock.now() + RETRY_MS;
      console.warn('status of a webhook not confirmed by the registry, its vhost will retry', {
        webhookId: webhook.id,
        reason: reasonOf(error),
      });
    } finally {
      this.#underWay.delete(endpoint);
    }
    settled(webhook.id);
    changed();
  }
}
