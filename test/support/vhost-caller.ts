/** A key's Vhost as Sites and the admin API call it, for tests that need its events or its end at once. */
import { randomUUID } from 'node:crypto';
import type { PassingEvent, VhostRpc } from '../../durable-objects/rpc.ts';
import type { EventKind } from '../../protocol/routing-keys.ts';
import { type Called, vhostOf } from '../../tools/objects.ts';
import type { TestStack } from './stack.ts';

export class VhostCaller {
  readonly #vhost: Called<VhostRpc>;
  readonly #siteId: string;
  #sequence = 0;

  private constructor(vhost: Called<VhostRpc>, siteId: string) {
    this.#vhost = vhost;
    this.#siteId = siteId;
  }

  static async of(stack: TestStack, keyId: string): Promise<VhostCaller> {
    return new VhostCaller(await vhostOf(stack.edge.miniflare, keyId), stack.credentials.plantId);
  }

  /**
   * Sends the given number of events, as a Site's outbox does; each payload has `chars` characters or
   * slightly more.
   */
  async events(kind: Exclude<EventKind, 'telemetry'>, count: number, chars: number): Promise<void> {
    const events = passing(kind, count, chars).map((event) => {
      this.#sequence += 1;
      return { ...event, sequence: this.#sequence };
    });
    await this.#vhost.receive(this.#siteId, events);
  }

  async telemetry(count: number, chars: number): Promise<void> {
    await this.#vhost.receivePassing(this.#siteId, passing('telemetry', count, chars));
  }

  async revoke(): Promise<void> {
    await this.#vhost.revoke();
  }
}

function passing(kind: EventKind, count: number, chars: number): PassingEvent[] {
  const payloadText = JSON.stringify({ message: 'x'.repeat(chars) });
  return Array.from({ length: count }, () => ({
    kind,
    messageId: randomUUID(),
    correlationId: null,
    atMs: Date.now(),
    payloadText,
  }));
}
