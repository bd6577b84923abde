/** A person's own sessions [C-11.5]. */
import * as z from 'zod';
import { type SessionRecord, sessionRecord } from '../../../protocol/account.ts';
import { success } from '../../../protocol/user.ts';
import { withInstants } from '../../../registry/d1.ts';
import {
  listSessions,
  revokeOtherSessions,
  revokeSession,
  type SessionRow,
} from '../../../registry/sessions.ts';
import { auditUser } from '../../auth/user-audit.ts';
import { ApiError } from '../../http/error-response.ts';
import { idParameter } from '../../http/query.ts';
import { recheckStreams } from '../../lifecycle/watches.ts';
import { route } from '../../route.ts';

const ACCOUNT = { door: 'account' } as const;

export const sessionRoutes = [
  route('GET /api/v1/auth/sessions', {
    summary: 'List your sessions',
    who: ACCOUNT,
    answer: {
      description: 'Your sessions, the last used one first',
      body: z.strictObject({ data: z.array(sessionRecord) }),
    },
    handler: async (c) => {
      const { row, sessionId } = c.get('user');
      const rows = await listSessions(c.env.DB, row.id, Date.now());
      return { data: rows.map((one) => sessionRecordOf(one, sessionId)) };
    },
  }),
  route('DELETE /api/v1/auth/sessions/{id}', {
    summary: 'End one of your other sessions',
    who: ACCOUNT,
    params: idParameter,
    answer: { description: 'The session has ended', body: success },
    errors: ['NOT_FOUND', 'CANNOT_REVOKE_CURRENT_SESSION'],
    handler: async (c, { params: { id } }) => {
      const { row, sessionId } = c.get('user');
      if (id === sessionId)
        throw new ApiError('CANNOT_REVOKE_CURRENT_SESSION', 'This is your current session: log out instead');
      if (!(await revokeSession(c.env.DB, row.id, id, Date.now())))
        throw new ApiError('NOT_FOUND', 'You have no open session with this id: list your sessions');
      recheckStreams(c, { kind: 'user', id: row.id });
      auditUser(c, row, 'session.revoked', { session: id });
      return { success: true as const };
    },
  }),
  route('DELETE /api/v1/auth/sessions', {
    summary: 'End all your other sessions',
    who: ACCOUNT,
    answer: {
      description: 'All sessions but this one have ended',
      body: z.strictObject({ success: z.literal(true), revoked: z.int() }),
    },
    handler: async (c) => {
      const { row, sessionId } = c.get('user');
      const revoked = await revokeOtherSessions(c.env.DB, row.id, sessionId, Date.now());
      if (revoked > 0) recheckStreams(c, { kind: 'user', id: row.id });
      if (revoked > 0) auditUser(c, row, 'session.revoked', { sessions: revoked });
      return { success: true as const, revoked };
    },
  }),
];

function sessionRecordOf(row: SessionRow, currentId: string): SessionRecord {
  const { id, createdAtMs, lastUsedAtMs, address, userAgent } = row;
  const current = id === currentId;
  return { id, ...withInstants({ createdAtMs, lastUsedAtMs }), address, userAgent, current };
}
