/** Ends the streams of plants whose session has ended [C-15.4]. */
import type { Context } from 'hono';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';
import { type Watcher, watchesName } from '../../durable-objects/watches-rpc.ts';
import { memberIds } from '../../registry/members.ts';
import type { AppContext, Env } from '../env.ts';

const AT_ONCE = 50;

/**
 * Has the streams of a person checked after the answer. Call it when the end of a session or membership is in D1. If it
 * fails, the Worker that serves a stream sees the end with its next comment.
 */
export function recheckStreams(c: Context<AppContext>, whose: Pick<Watcher, 'kind' | 'id'>): void {
  const checked = objectNamed(c.env, 'WATCHES', watchesName(whose)).recheck();
  c.executionCtx.waitUntil(
    checked.catch((error: unknown) => {
      console.warn('event streams of a person not checked, their next comments do it', {
        kind: whose.kind,
        id: whose.id,
        reason: reasonOf(error),
      });
    }),
  );
}

/** The same of all members of an organization that was suspended. */
export async function recheckMembers(env: Env, organizationId: string): Promise<void> {
  const ids = await memberIds(env.DB, organizationId);
  for (let from = 0; from < ids.length; from += AT_ONCE)
    await Promise.all(
      ids
        .slice(from, from + AT_ONCE)
        .map((id) => objectNamed(env, 'WATCHES', watchesName({ kind: 'user', id })).recheck()),
    );
}
