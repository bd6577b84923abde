/**
 * Audit events about users' own accounts [C-14.3]. A user may belong to several organizations: each of them
 * gets a row, so no row is written for a user without an organization.
 */
import type { Context } from 'hono';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { writeAudits } from '../../registry/audit.ts';
import { membershipsOf } from '../../registry/users.ts';
import type { AppContext } from '../env.ts';
import { addressOf } from './address.ts';

export type UserEvent =
  | 'user.logged_in'
  | 'user.login_failed'
  | 'user.locked'
  | 'user.password_changed'
  | 'user.password_reset'
  | 'user.email_changed'
  | 'user.email_verified'
  | 'session.revoked'
  | 'session.reuse_detected';

const FAILURES: readonly UserEvent[] = ['user.login_failed', 'user.locked', 'session.reuse_detected'];

/** Written after the answer, so that the time of a login does not reveal whether the address has an account. */
export function auditUser(
  c: Context<AppContext>,
  user: { id: string; email: string },
  event: UserEvent,
  details: Record<string, unknown> = {},
): void {
  const now = Date.now();
  const address = addressOf(c);
  const write = async () => {
    const own = await membershipsOf(c.env.DB, user.id);
    const entries = own.map(({ organizationId }) => ({
      organizationId,
      event,
      actor: { type: 'USER' as const, id: user.id, name: user.email },
      target: { type: 'USER', id: user.id },
      address,
      outcome: FAILURES.includes(event) ? ('FAILURE' as const) : ('SUCCESS' as const),
      details,
    }));
    await writeAudits(c.env.DB, entries, now);
  };
  c.executionCtx.waitUntil(
    write().catch((error: unknown) => {
      console.error('audit event of an account not written, it stays missing', {
        event,
        userId: user.id,
        reason: reasonOf(error),
      });
    }),
  );
}
