/**
 * The scheduled task of each minute: finishes what interrupted requests left, sends the mails that are due, ends
 * sessions of suspended organizations, erases deleted ones, and deletes expired rows.
 */
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { dropOldTokens } from '../../registry/accounts.ts';
import { dropOldAlerts } from '../../registry/alerts.ts';
import { dropOldAuditEvents } from '../../registry/audit.ts';
import { dropOldInvitations } from '../../registry/invitations.ts';
import { dropOldFailures } from '../../registry/login-failures.ts';
import { dropOldShares } from '../../registry/mails.ts';
import { dropExpiredSessions } from '../../registry/sessions.ts';
import { dropOldSupport } from '../../registry/support-sessions.ts';
import { dropUnproved } from '../../registry/unproved.ts';
import type { Env } from '../env.ts';
import { deliverMails } from '../mail/outbox.ts';
import { mailAlerts } from './alert-mails.ts';
import { discardStranded } from './api-key.ts';
import { finishMoves } from './device-move.ts';
import { endPlantlessSessions, eraseRemains } from './organization-end.ts';
import { announceDue } from './registry-change.ts';
import { mailDisabledWebhooks } from './webhook.ts';

/**
 * Maximum number of rows of each kind that one round deletes. Of accounts a round deletes fewer, because
 * their ids are sent to D1 in one parameter; audit events and deleted organizations have limits of their own.
 */
const ROWS_PER_ROUND = 5_000;
const ACCOUNTS_PER_ROUND = 1_000;

export async function keepHouse(env: Env, now: number): Promise<void> {
  const duties: [name: string, duty: () => Promise<void>][] = [
    ['registry changes', () => announceDue(env, now)],
    ['stranded keys', () => discardStranded(env, now)],
    ['device moves', () => finishMoves(env, now)],
    ['sessions', () => dropExpiredSessions(env.DB, now, ROWS_PER_ROUND)],
    ['invitations', () => dropOldInvitations(env.DB, now, ROWS_PER_ROUND)],
    ['alert mails', () => mailAlerts(env, now)],
    ['webhook mails', () => mailDisabledWebhooks(env, now)],
    ['mails', () => deliverMails(env, now)],
    ['shares of mail', () => dropOldShares(env.DB, now, ROWS_PER_ROUND)],
    ['account tokens', () => dropOldTokens(env.DB, now, ROWS_PER_ROUND)],
    ['unproved accounts', () => dropUnproved(env.DB, now, ACCOUNTS_PER_ROUND)],
    ['login failures', () => dropOldFailures(env.DB, now, ROWS_PER_ROUND)],
    ['alerts', () => dropOldAlerts(env.DB, now, ROWS_PER_ROUND)],
    ['support sessions', () => dropOldSupport(env.DB, now, ROWS_PER_ROUND)],
    ['suspended organizations', () => endPlantlessSessions(env, now)],
    ['deleted organizations', () => eraseRemains(env)],
    ['audit events', () => dropOldAuditEvents(env.DB, now)],
  ];
  // A duty that fails does not stop the others.
  for (const [name, duty] of duties) {
    await duty().catch((error: unknown) => {
      console.error('housekeeping task failed, the next round will retry in a minute', {
        name,
        reason: reasonOf(error),
      });
    });
  }
}
