/** A key's Vhost as Sites and the admin surface call it, for tests that want its events or its end at once. */
import { randomUUID } from 'node:crypto';
import type { EventKind } from '../../protocol/routing-keys.ts';
import type { TestStack } from './stack.ts';

interface VhostMethods {
  receive(siteId: string, events: object[]): Promise<{ received: number }>;
  receivePassing(siteId: string, events: object[]): Promise<string>;
  revoke(): Promise<void>;
}

export class VhostRpc {
  readonly #stub: VhostMethods;
  readonly #siteId: string;
  #sequence = 0;

  private constructor(stub: VhostMethods, siteId: string) {
    this.#stub = stub;
    this.#siteId = siteId;
  }

  static async of(stack: TestStack, keyId: string): Promise<VhostRpc> {
    const namespace = await stack.edge.miniflare.getDurableObjectNamespace('VHOST');
    const stub = namespace.get(namespace.idFromName(keyId)) as unknown as VhostMethods;
    return new VhostRpc(stub, stack.credentials.plantId);
  }

  /** Hands over that many events, as a Site's outbox does; each payload of `chars` characters or a few more. */
  async events(kind: Exclude<EventKind, 'telemetry'>, count: number, chars: number): Promise<void> {
    const events = passing(kind, count, chars).map((event) => {
      this.#sequence += 1;
      return { ...event, sequence: this.#sequence };
    });
    await this.#stub.receive(this.#siteId, events);
  }

  async telemetry(count: number, chars: number): Promise<void> {
    await this.#stub.receivePassing(this.#siteId, passing('telemetry', count, chars));
  }

  async revoke(): Promise<void> {
    await this.#stub.revoke();
  }
}

function passing(kind: EventKind, count: number, chars: number): object[] {
  const payloadText = JSON.stringify({ message: 'x'.repeat(chars) });
  return Array.from({ length: count }, () => ({
    kind,
    messageId: randomUUID(),
    correlationId: null,
    atMs: Date.now(),
    payloadText,
  }));
}
