/**
 * What one client address may cost: so many dials at once, the others in line, and so many refused logins a minute, of
 * one credential and ten times that of all. Beyond these the bridge answers by itself, so that no address fills the
 * edge, the audit log or another's way in; and who comes from the same address with another credential is not kept
 * out by one that loops [C-3.11], [C-6.5].
 */
import ipaddr from 'ipaddr.js';
import { LIMIT } from '../protocol/limits.ts';
import type { DialResult } from './link.ts';
import type { NoLink } from './refusal.ts';

const MINUTE_MS = 60_000;
/** Dials of one address under way, and in line behind them. */
const DIALS_AT_ONCE = 8;
const MAX_IN_LINE = 512;
/** Addresses remembered; beyond it, the oldest that has no dial under way makes room. */
const MAX_ADDRESSES = 10_000;
/** Refused logins a minute of all credentials, and how many credentials are told apart. */
const REFUSED_OF_ALL = 10 * LIMIT.refusedLoginsPerMinute;
const MAX_CREDENTIALS = 64;
/** Who is refused as so many devices is none of them. */
const MAX_DEVICES = 3;

interface Known {
  dials: number;
  line: (() => void)[];
  /** Refused logins since then, in all and by credential, of so many at most. */
  refused: number;
  refusedBy: Map<string, number>;
  /** As which devices, of so many at most. */
  refusedAs: Set<string>;
  sinceMs: number;
  /** Until then a refusal of a device counts against none [C-3.11]. */
  uncountedUntilMs: number;
}

/** Who dials. `credential` stands for what the client logs in with: the same for the same, and nothing of it. */
export interface Dialing {
  isGone?: () => boolean;
  credential?: string;
  /** The device that it says it is. */
  device?: string;
}

export class Addresses {
  readonly #known = new Map<string, Known>();
  #isStopped = false;

  /** Those in line are told no, and none is dialled any more. */
  stop(): void {
    this.#isStopped = true;
    for (const { line } of this.#known.values()) for (const go of line.splice(0)) go();
  }

  /**
   * Dials for an address when its turn comes and its client is still there, or answers in the edge's place. `work`: the
   * dial; a refusal of one that is `uncounted` counts against no device.
   */
  async dial<Up, Down>(
    address: string,
    work: (uncounted: boolean) => Promise<DialResult<Up, Down>>,
    { isGone = () => false, credential = '', device }: Dialing = {},
  ): Promise<DialResult<Up, Down>> {
    if (this.#isStopped) return left();
    const known = this.#of(address);
    const isThrottled = () => this.#isThrottled(known, credential, device !== undefined);
    if (isThrottled()) return throttled();
    if (known.dials >= DIALS_AT_ONCE) {
      if (known.line.length >= MAX_IN_LINE) return crowded();
      await new Promise<void>((resolve) => known.line.push(resolve));
      const answer = isThrottled() ? throttled() : isGone() || this.#isStopped ? left() : undefined;
      if (answer) {
        known.line.shift()?.();
        return answer;
      }
    }
    known.dials += 1;
    try {
      const result = await work(device !== undefined && Date.now() < known.uncountedUntilMs);
      if (result.outcome === 'refused') noteRefused(known, credential, device);
      return result;
    } finally {
      known.dials -= 1;
      known.line.shift()?.();
    }
  }

  /** Whoever has a token that is good is never kept out for what comes from the same address. */
  #isThrottled(known: Known, credential: string, isDevice: boolean): boolean {
    const now = Date.now();
    if (now - known.sinceMs >= MINUTE_MS) {
      known.refused = 0;
      known.refusedBy.clear();
      known.refusedAs.clear();
      known.sinceMs = now;
    }
    const ofCredential = known.refusedBy.get(credential) ?? 0;
    if (isDevice) return ofCredential > 0 && now < known.uncountedUntilMs;
    return ofCredential >= LIMIT.refusedLoginsPerMinute || known.refused >= REFUSED_OF_ALL;
  }

  #of(clientAddress: string): Known {
    const address = networkOf(clientAddress);
    let known = this.#known.get(address);
    if (!known) {
      if (this.#known.size >= MAX_ADDRESSES) this.#makeRoom();
      known = {
        dials: 0,
        line: [],
        refused: 0,
        refusedBy: new Map(),
        refusedAs: new Set(),
        sinceMs: Date.now(),
        uncountedUntilMs: 0,
      };
      this.#known.set(address, known);
    }
    return known;
  }

  #makeRoom(): void {
    for (const [address, { dials, line }] of this.#known) {
      if (dials > 0 || line.length > 0) continue;
      this.#known.delete(address);
      return;
    }
  }
}

function noteRefused(known: Known, credential: string, device: string | undefined): void {
  known.refused += 1;
  const before = known.refusedBy.get(credential);
  if (before !== undefined || known.refusedBy.size < MAX_CREDENTIALS) {
    known.refusedBy.set(credential, (before ?? 0) + 1);
  }
  if (device === undefined) return;
  known.refusedAs.add(device);
  const isGuessing = known.refusedAs.size >= MAX_DEVICES || known.refused >= LIMIT.refusedLoginsPerMinute;
  if (isGuessing) known.uncountedUntilMs = Date.now() + MINUTE_MS;
}

/** A client has all addresses of an IPv6 network of 64 bits. */
function networkOf(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address;
  return ipaddr.IPv6.parse(address).parts.slice(0, 4).join(':');
}

function left(): NoLink {
  return { outcome: 'trouble', reason: 'the client went while it waited in line, or the bridge goes' };
}

function crowded(): NoLink {
  return { outcome: 'trouble', reason: 'too many dials at once from this address', unasked: 'crowded' };
}

function throttled(): NoLink {
  return {
    outcome: 'refused',
    status: 401,
    code: 'UNAUTHORIZED',
    message: 'too many refused logins from this address',
    unasked: 'throttled',
  };
}
