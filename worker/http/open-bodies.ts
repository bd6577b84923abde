/**
 * The bodies that strangers have begun to send and not finished, by network: together they may be 256 KiB [C-15.7]. The
 * counts are in the memory of the isolate.
 */
import type { Context } from 'hono';
import { networkOf } from '../../protocol/address-range.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { addressOf } from '../auth/address.ts';
import type { AppContext } from '../env.ts';
import { setBounded } from './bounded-map.ts';
import { tooMany } from './rate.ts';

/** In this time a body must end. It counts no longer: the platform may cancel a request, and nothing would subtract it. */
export const HELD_MS = 60_000;
const MAX_NETWORKS = 10_000;
const RETRY_AFTER_S = 5;

interface OpenBody {
  bytes: number;
  untilMs: number;
}

const open = new Map<string, OpenBody[]>();

/** Counts a body until the returned function is called. Throws 429 if its network has too much open. */
export function holdBody(c: Context<AppContext>, bytes: number): () => void {
  const address = addressOf(c);
  if (address === null) return () => {};
  const network = networkOf(address);
  const now = Date.now();
  const others = (open.get(network) ?? []).filter(({ untilMs }) => untilMs > now);
  const heldBytes = others.reduce((sum, one) => sum + one.bytes, 0);
  if (heldBytes + bytes > LIMIT.openBodiesBytes)
    throw tooMany(
      `Too many unfinished bodies from your address, ${LIMIT.openBodiesBytes} bytes are allowed`,
      RETRY_AFTER_S,
    );
  const body = { bytes, untilMs: now + HELD_MS };
  setBounded(open, network, [...others, body], MAX_NETWORKS);
  return () => {
    const left = (open.get(network) ?? []).filter((one) => one !== body);
    if (left.length > 0) open.set(network, left);
    else open.delete(network);
  };
}
