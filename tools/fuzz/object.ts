/**
 * A random Vhost on a link without a socket: it answers every request, and stores, rejects or delays
 * publishes at random.
 */
import type { Link, LinkHandlers, ObjectLink } from '../../bridge/link.ts';
import {
  type Death,
  type Delivery,
  type VhostLinkDown,
  type VhostLinkUp,
  vhostLinkUp,
} from '../../protocol/link/vhost.ts';
import type { Chance } from './chance.ts';
import { properties } from './frames.ts';

const DEATH: Death = {
  reason: 'rejected',
  queue: 'mine',
  exchange: 'vcp',
  routingKeys: ['acme.event.alarm'],
  atMs: 1_800_000_000_000,
  count: 2,
};
/** One answer in this number is a rejection. */
const REFUSED = 12;

export class FuzzObject implements ObjectLink<VhostLinkUp> {
  isClosed = false;
  /** The first frame that a real edge could not parse. */
  unreadable: string | undefined;
  readonly #chance: Chance;
  readonly #consumers: { channel: number; tag: string; queue: string }[] = [];
  #handlers: LinkHandlers<VhostLinkDown> | undefined;
  #answers: VhostLinkDown[] = [];
  #lastSeq = 0;
  #lastLease = 0;

  constructor(chance: Chance) {
    this.#chance = chance;
  }

  /** The type that the handshake expects. */
  get link(): Link<VhostLinkUp, VhostLinkDown> {
    return this as unknown as Link<VhostLinkUp, VhostLinkDown>;
  }

  attach(handlers: LinkHandlers<VhostLinkDown>): void {
    this.#handlers = handlers;
  }

  nextSeq(): number {
    this.#lastSeq += 1;
    return this.#lastSeq;
  }

  close(): void {
    this.isClosed = true;
  }

  send(frame: VhostLinkUp): void {
    const parsed = vhostLinkUp.safeParse(frame);
    if (!parsed.success) this.unreadable ??= `${frame.kind}: ${parsed.error.message}`;
    const answer = this.#answerTo(frame);
    if (answer) this.#answer(answer);
  }

  #answer(frame: VhostLinkDown): void {
    if (this.isClosed) return;
    if (this.#answers.length === 0) setImmediate(() => this.#flush());
    this.#answers.push(frame);
  }

  #flush(): void {
    const answers = this.#answers;
    this.#answers = [];
    if (this.isClosed) return;
    for (const { channel, tag } of this.#consumers) {
      if (this.#chance.isOneIn(3))
        answers.push({ kind: 'deliver', channel, tag, delivery: this.#delivery() });
    }
    this.#handlers?.frames(answers);
    if (this.#chance.isOneIn(2_000))
      this.#handlers?.closed(this.#chance.pick([1000, 1006, 4001]), 'by chance');
  }

  #answerTo(frame: VhostLinkUp): VhostLinkDown | undefined {
    if (!('seq' in frame)) return undefined;
    const { seq } = frame;
    const chance = this.#chance;
    if (chance.isOneIn(REFUSED)) {
      const severity = chance.isOneIn(10) ? 'connection' : 'channel';
      return {
        kind: 'refused',
        seq,
        severity,
        code: 403,
        text: `ACCESS_REFUSED - ${'é'.repeat(chance.below(200))}`,
      };
    }
    switch (frame.kind) {
      case 'publish':
        if (chance.isOneIn(60)) return { kind: 'wait', seqs: [seq], ms: 1, count: 1 + chance.below(8) };
        return { kind: chance.isOneIn(8) ? 'unstored' : 'stored', seqs: [seq] };
      case 'get': {
        const delivery = chance.isOneIn(3) ? null : this.#delivery();
        return { kind: 'got', seq, messageCount: chance.below(100), delivery };
      }
      case 'consume':
        this.#consumers.push({ channel: frame.channel, tag: frame.tag, queue: frame.queue });
        return { kind: 'ok', seq };
      case 'declare': {
        const made = frame.queue === '' ? { queue: `amq.gen-${seq}` } : {};
        return { kind: 'ok', seq, ...made, messageCount: chance.below(10), consumerCount: chance.below(10) };
      }
      case 'delete':
        this.#cancel(frame.queue);
        return { kind: 'ok', seq, messageCount: chance.below(10) };
      default:
        return { kind: 'ok', seq, messageCount: chance.below(10), consumerCount: chance.below(10) };
    }
  }

  /**
   * Cancels the consumers of a deleted queue; some are left out, because they may have been cancelled by
   * their client.
   */
  #cancel(gone: string): void {
    for (const { channel, tag, queue } of this.#consumers) {
      if (queue === gone && !this.#chance.isOneIn(4)) this.#answer({ kind: 'cancelled', channel, tag });
    }
  }

  /** A delivery with properties as another publisher may have sent them, valid or not. */
  #delivery(): Delivery {
    this.#lastLease += 1;
    const chance = this.#chance;
    const body = 'x'.repeat(chance.pick([0, 1, 255, 5_000]));
    return {
      lease: chance.isOneIn(5) ? 0 : this.#lastLease,
      redelivered: chance.isOneIn(2),
      routingKey: 'acme.event.alarm',
      properties: {
        ...(chance.isOneIn(2) ? { messageId: 'm' } : { raw: properties(chance).toString('base64') }),
        ...(chance.isOneIn(10) ? { death: DEATH, headers: { 'x-death-reason': 'rejected' } } : {}),
      },
      body,
      encoding: 'utf8',
      bytes: 64 + body.length,
    };
  }
}
