/**
 * How many posts the webhooks of a key may begin now [C-15.3]: an organization has a ceiling a minute, and a host name has
 * one for all organizations together. An object of each counts, from which a Vhost takes a few posts at a time.
 */
import { ceilingsOf } from '../../../protocol/ceilings.ts';
import { hostOf } from '../../../registry/webhook-url.ts';
import { reasonOf } from '../../object/reason.ts';
import type { RequestLease } from '../../request-counter-rpc.ts';

/** A Vhost takes this part of a minute's posts at a time: few calls at a high ceiling, and little kept from other keys. */
const PART = 50;
const LEASE_MS = 5_000;
/** How long posts go on without a count when the object that counts does not answer. */
const UNCOUNTED_MS = 10_000;
/** The most shares that are remembered: a key has at most 16 webhooks, but their URLs change. */
const MOST_SHARES = 64;

interface PostCeilings {
  organizationId: string;
  /** Posts a minute of the organization. */
  perMinute: number;
  /** Posts a minute to one host name. */
  hostPerMinute: number;
}

/** Why posts wait, and until when. */
export interface Held {
  by: 'ORGANIZATION' | 'HOST';
  perMinute: number;
  untilMs: number;
}

export interface AllowanceHost {
  now(): number;
  /** Undefined: the Vhost has no copy of its organization, and posts nothing. */
  ceilings(): PostCeilings | undefined;
  /** Takes posts of this minute from the object with this name. */
  lease(name: string, perMinute: number, count: number): Promise<RequestLease>;
  /** Returns the answer, or rejects at the deadline. */
  until<Value>(deadlineMs: number, work: PromiseLike<Value>): Promise<Value>;
}

/** What is left of the posts that were taken. */
interface Share {
  left: number;
  /** The end of the minute that they are of. */
  untilMs: number;
  /** Nothing is left of the minute. */
  isFull: boolean;
  isAsking: boolean;
}

interface Ceiling {
  by: Held['by'];
  /** The name of the object that counts. */
  name: string;
  perMinute: number;
}

export class PostAllowance {
  readonly #host: AllowanceHost;
  readonly #shares = new Map<string, Share>();

  constructor(host: AllowanceHost) {
    this.#host = host;
  }

  /** Whether a post to this URL may begin now. */
  has(url: string): boolean {
    if (!this.#host.ceilings()) return false;
    const now = this.#host.now();
    return this.#ceilings(url).every(({ name }) => {
      const share = this.#shares.get(name);
      return share !== undefined && share.untilMs > now && share.left > 0;
    });
  }

  /** A post to this URL begins. */
  spend(url: string): void {
    for (const { name } of this.#ceilings(url)) {
      const share = this.#shares.get(name);
      if (share) share.left -= 1;
    }
  }

  /** Takes posts to this URL; undefined: nothing is to be asked now. */
  take(url: string): Promise<void> | undefined {
    const asked = this.#ceilings(url).filter(({ name }) => this.#mustAsk(this.#shares.get(name)));
    if (asked.length === 0) return undefined;
    return Promise.all(asked.map((one) => this.#ask(one))).then(() => {});
  }

  isAsking(url: string): boolean {
    return this.#ceilings(url).some(({ name }) => this.#shares.get(name)?.isAsking);
  }

  /** Why posts to this URL wait for the next minute; undefined: they do not. */
  held(url: string): Held | undefined {
    const now = this.#host.now();
    const held = this.#ceilings(url).flatMap(({ by, name, perMinute }) => {
      const share = this.#shares.get(name);
      return share?.isFull && share.untilMs > now ? [{ by, perMinute, untilMs: share.untilMs }] : [];
    });
    return held.toSorted((one, other) => other.untilMs - one.untilMs)[0];
  }

  #mustAsk(share: Share | undefined): boolean {
    if (!share) return true;
    if (share.isAsking) return false;
    return share.untilMs <= this.#host.now() || (share.left <= 0 && !share.isFull);
  }

  async #ask({ name, perMinute }: Ceiling): Promise<void> {
    const { now, lease, until } = this.#host;
    const share = this.#shares.get(name) ?? { left: 0, untilMs: 0, isFull: false, isAsking: false };
    if (this.#shares.size >= MOST_SHARES) this.#shares.clear();
    this.#shares.set(name, share);
    share.isAsking = true;
    const count = Math.max(1, Math.floor(perMinute / PART));
    try {
      const { granted, resetMs } = await until(now() + LEASE_MS, lease(name, perMinute, count));
      Object.assign(share, { left: granted, untilMs: now() + resetMs, isFull: granted === 0 });
    } catch (error) {
      console.warn('posts of webhooks not counted because their counter failed, they go on', {
        name,
        reason: reasonOf(error),
      });
      Object.assign(share, { left: count, untilMs: now() + UNCOUNTED_MS, isFull: false });
    } finally {
      share.isAsking = false;
    }
  }

  #ceilings(url: string): Ceiling[] {
    const all = this.#host.ceilings();
    if (!all) return [];
    const { organizationId, perMinute, hostPerMinute } = all;
    return [
      { by: 'ORGANIZATION', name: `webhook-posts:${organizationId}`, perMinute },
      { by: 'HOST', name: hostCounter(hostOf(url), all), perMinute: hostPerMinute },
    ];
  }
}

/** All organizations share the count of a host name, except one whose ceiling is raised: it would leave the others none. */
function hostCounter(host: string, { organizationId, hostPerMinute }: PostCeilings): string {
  const isRaised = hostPerMinute > ceilingsOf({}).webhookHostPostsPerMinute;
  return isRaised ? `webhook-host:${host}:${organizationId}` : `webhook-host:${host}`;
}
