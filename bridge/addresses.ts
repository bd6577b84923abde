/**
 * Limits per client address (IPv6: per network): concurrent dials (further dials are queued), and rejected
 * logins a minute. The AMQP clients of an address may have a certain number of rejected logins with one
 * credential, and ten times as many with all credentials together; `#isThrottled` has the rule for devices.
 * Beyond these limits the bridge answers without asking the edge, so that no address fills the edge or the
 * audit log, or blocks other addresses. A client that keeps retrying one bad credential does not lock out
 * clients with other credentials until the limit for all [C-3.11], [C-6.5].
 */
import { networkOf } from '../protocol/address-range.ts';
import { LIMIT } from '../protocol/limits.ts';
import type { DialResult } from './link-dial.ts';
import type { NoLink } from './refusal.ts';

const MINUTE_MS = 60_000;
/** Concurrent and queued dials of one address. */
const DIALS_AT_ONCE = 8;
const MAX_IN_LINE = 512;
/**
 * Maximum number of remembered addresses; above it the oldest address without a running or queued dial is
 * forgotten.
 */
const MAX_ADDRESSES = 10_000;
/**
 * Maximum number of rejected logins a minute of one address with all credentials, and how many credentials of
 * an address are counted separately.
 */
const REFUSED_OF_ALL = 10 * LIMIT.refusedLoginsPerMinute;
const MAX_CREDENTIALS = 64;
/**
 * An address counts as guessing if its rejected logins of a minute named this many devices, or if there were as
 * many as one credential may have [C-3.11].
 */
const MAX_DEVICES = 3;

interface Known {
  dials: number;
  line: (() => void)[];
  /** Rejected logins since `sinceMs`: in total, and by credential (at most `MAX_CREDENTIALS` of them). */
  refused: number;
  refusedBy: Map<string, number>;
  /** Rejected dials that claimed to be a connection test, but with a nonce that the edge does not know. */
  refusedProbes: number;
  /** The devices that the rejected logins named. */
  refusedAs: Set<string>;
  sinceMs: number;
  /**
   * Until this time the address counts as guessing, and its rejected logins do not count toward the
   * suspension of a device [C-3.11].
   */
  uncountedUntilMs: number;
}

/** The client that dials. `credential` is a digest: equal for equal credentials, without revealing them. */
export interface Dialing {
  isGone?: () => boolean;
  credential?: string;
  /** The device that the client claims to be. */
  device?: string;
  /** The client says that it is the connection test of a key. */
  isProbe?: boolean;
}

export class Addresses {
  readonly #known = new Map<string, Known>();
  #isStopped = false;

  /** Fails all queued dials and starts no new ones. */
  stop(): void {
    this.#isStopped = true;
    for (const { line } of this.#known.values()) for (const go of line.splice(0)) go();
  }

  /**
   * Waits for a free dial of this address, then dials with `work`. Refuses without asking the edge if the address is
   * throttled, its line is full or the client has left. The rejection of an `uncounted` dial does not count toward the
   * suspension of a device.
   */
  async dial<Up, Down>(
    address: string,
    work: (uncounted: boolean) => Promise<DialResult<Up, Down>>,
    { isGone = () => false, credential = '', device, isProbe = false }: Dialing = {},
  ): Promise<DialResult<Up, Down>> {
    if (this.#isStopped) return left();
    const known = this.#of(address);
    const isThrottled = () =>
      this.#isThrottled(known, credential, { isDevice: device !== undefined, isProbe });
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
      // A failed connection test is not counted as a guess. All connection tests come from the edge's
      // address, so counting would lock out the tests of others [C-14.6].
      if (result.outcome !== 'refused' || result.isProbe) return result;
      if (isProbe) known.refusedProbes += 1;
      // A good token must not be kept out for a minute after its device was reactivated [C-3.11].
      else noteRefused(known, result.isState && device !== undefined ? undefined : credential, device);
      return result;
    } finally {
      known.dials -= 1;
      known.line.shift()?.();
    }
  }

  /**
   * Whether the address has too many rejected logins. A device is throttled only for its own credential and
   * only while the address counts as guessing, so other clients at its address cannot lock out a device with a
   * valid token.
   */
  #isThrottled(
    known: Known,
    credential: string,
    { isDevice, isProbe }: { isDevice: boolean; isProbe: boolean },
  ): boolean {
    const now = Date.now();
    if (now - known.sinceMs >= MINUTE_MS) {
      known.refused = 0;
      known.refusedProbes = 0;
      known.refusedBy.clear();
      known.refusedAs.clear();
      known.sinceMs = now;
    }
    // Only the edge knows whether the nonce of a connection test is valid, so the limits of logins do not
    // apply before the edge has checked it.
    if (isProbe) return known.refusedProbes >= REFUSED_OF_ALL;
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
        refusedProbes: 0,
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

/** `credential`: the one that was refused; undefined if it is good and the device was refused for its status. */
function noteRefused(known: Known, credential: string | undefined, device: string | undefined): void {
  known.refused += 1;
  const before = credential === undefined ? undefined : known.refusedBy.get(credential);
  if (credential !== undefined && (before !== undefined || known.refusedBy.size < MAX_CREDENTIALS)) {
    known.refusedBy.set(credential, (before ?? 0) + 1);
  }
  if (device === undefined) return;
  known.refusedAs.add(device);
  const isGuessing = known.refusedAs.size >= MAX_DEVICES || known.refused >= LIMIT.refusedLoginsPerMinute;
  if (isGuessing) known.uncountedUntilMs = Date.now() + MINUTE_MS;
}

function left(): NoLink {
  return { outcome: 'trouble', reason: 'the client disconnected while queued, or the bridge is stopping' };
}

function crowded(): NoLink {
  return { outcome: 'trouble', reason: 'too many concurrent dials from this address', unasked: 'crowded' };
}

function throttled(): NoLink {
  return {
    outcome: 'refused',
    status: 401,
    code: 'UNAUTHORIZED',
    message: 'too many rejected logins from this address',
    unasked: 'throttled',
  };
}
