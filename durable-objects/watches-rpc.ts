/** The RPC contract of a person's plant streams. Add fields, never change the meaning of one (see rpc.ts). */

/** Who has opened a stream: the session of a user, or a support session, and the organization of the plant. */
export interface Watcher {
  kind: 'user' | 'support';
  /** The id of the user, or of the support session. */
  id: string;
  /** The id of the session; of a support session the same as `id`. */
  sessionId: string;
  organizationId: string;
  plantId: string;
}

/** The header in which the Worker passes the `Watcher` of a new stream, as JSON. */
export const WATCHER_HEADER = 'sitewire-watcher';

export interface WatchesRpc {
  /** Ends the streams whose session or membership has ended. Call it after the end is in D1. */
  recheck(): Promise<void>;
}

/** The name of the object for the streams of a user, or of a support session. */
export function watchesName({ kind, id }: Pick<Watcher, 'kind' | 'id'>): string {
  return `${kind}:${id}`;
}
