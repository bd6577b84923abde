/**
 * The dial of a link of a partner's client or a device: the upgrade request by which the Worker passes the
 * socket to its object, the responses that refuse a dial, and the ids of the connections that have already
 * opened a link. During a deploy old and new code run at the same time: add fields, never change the meaning of
 * one.
 */

import { type ApiErrorCode, errorBody } from '../protocol/errors.ts';
import { formatInstant } from '../protocol/ids.ts';
import { PROOF_TOLERANCE_MS, STATE_HEADER } from '../protocol/link/proof.ts';
import type { Sql } from './object/sql.ts';
import type { Turn } from './object/turn.ts';

/**
 * A proof is valid for the tolerance before and after its time. The connection id is remembered a little
 * longer, so that a proof cannot open a second link.
 */
const REMEMBERED_MS = 2.5 * PROOF_TOLERANCE_MS;

/** The data about a link that the bridge which opens it sends. */
interface Dial {
  connection: string;
  bridge: string;
  boot: string;
  address: string;
}

/** The result of the Worker's authentication of a device in a dial. */
export interface DeviceDial extends Dial {
  /** The organization of the device. Absent: that of the Site's plant. */
  organizationId?: string;
  siteId: string;
  plantId: string | null;
  deviceId: string;
  expiresAtMs: number | null;
  /** When the device's token was issued; null if the device authenticated with a certificate. */
  issuedAtMs: number | null;
}

/** The result of the Worker's authentication of a partner's client in a dial. */
export interface ClientDial extends Dial {
  keyId: string;
  /** The connection test of a new key, not a connection of the partner [C-5.4]. */
  isProbe: boolean;
}

/**
 * The header with an authenticated dial. The Worker makes a new request with this header for the object, so
 * clients cannot set it.
 */
export const DIAL_HEADER = 'sitewire-dial';

export function readDial<Read extends DeviceDial | ClientDial>(request: Request): Read | undefined {
  const header = request.headers.get(DIAL_HEADER);
  if (!header || request.headers.get('upgrade') !== 'websocket') return undefined;
  return JSON.parse(header) as Read;
}

/**
 * The connection ids that recently opened a link. The object rejects a second dial with the same id, because
 * a bridge proof opens a link only once (rule 1).
 */
export class SeenConnections {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** True if the id has already opened a link here: the proof is a replay. */
  has(id: string): boolean {
    return this.#sql.one('SELECT 1 FROM seen_connection WHERE id = ?', id) !== undefined;
  }

  remember(turn: Turn, id: string): void {
    turn.write('DELETE FROM seen_connection WHERE at_ms < ?', turn.now - REMEMBERED_MS);
    turn.insert('seen_connection', { id, at_ms: turn.now });
  }
}

/** A failed upgrade: the REST error envelope, which the bridge translates into its client's protocol. */
export function refusalResponse(
  code: ApiErrorCode,
  message: string,
  headers: Record<string, string> = {},
): Response {
  const body = errorBody(code, message);
  return Response.json(body, { status: body.statusCode, headers });
}

/** The response for a client with a good credential whose state does not allow a connection. */
export function stateRefusal(message: string, headers: Record<string, string> = {}): Response {
  return refusalResponse('UNAUTHORIZED', message, { ...headers, [STATE_HEADER]: 'refused' });
}

/** The response of an object behind a fence. */
export function fencedResponse(untilMs: number): Response {
  const message = `The plant or key is being backed up or restored until ${formatInstant(untilMs)} at the latest: connect again in a moment`;
  return refusalResponse('SERVICE_UNAVAILABLE', message, { 'retry-after': '1' });
}

/** The response for an unknown path, and for a dial without a valid bridge proof or with a used one (rule 1). */
export function notFoundResponse(): Response {
  return refusalResponse('NOT_FOUND', 'Not found');
}
