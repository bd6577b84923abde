/**
 * Mails about alerts [C-9], by the scheduled task of each minute: a member gets one mail a minute at most, with all
 * alerts that began or ended since, so that a rule that fires at many plants floods nobody.
 */
import { formatInstant } from '../../protocol/ids.ts';
import { addressesOf, type DueAlert, dueAlerts, queueAlertMails } from '../../registry/alert-mails.ts';
import type { Env } from '../env.ts';
import { mailRow } from '../mail/outbox.ts';
import { alertMail } from '../mail/texts.ts';

const ALERTS_PER_ROUND = 500;
/** A mail lists this many alerts, and the number of the others. */
const ALERTS_PER_MAIL = 50;

export async function mailAlerts(env: Env, now: number): Promise<void> {
  const due = await dueAlerts(env.DB, ALERTS_PER_ROUND);
  for (const [organizationId, own] of Map.groupBy(due, (alert) => alert.organizationId)) {
    const recipients = [...new Set(own.flatMap(({ mailTo }) => mailTo))];
    const addresses = await addressesOf(env.DB, organizationId, recipients);
    const mails = [...addresses].flatMap(([userId, email]) => {
      const theirs = own.filter(({ mailTo }) => mailTo.includes(userId));
      const [first] = theirs;
      if (!first) return [];
      const lines = theirs.slice(0, ALERTS_PER_MAIL).map(lineOf);
      const mail = alertMail(email, {
        organization: first.organization,
        lines,
        more: theirs.length - lines.length,
      });
      return mailRow(env, mail, { organizationId, userId, isOfPlatform: true }, now) ?? [];
    });
    await queueAlertMails(env.DB, own, mails);
  }
}

function lineOf({ mailDue, severity, plant, message, firstSeenAtMs, resolvedAtMs }: DueAlert): string {
  const where = plant === null ? '' : ` at ${plant}`;
  const since = formatInstant(firstSeenAtMs);
  return mailDue === 1
    ? `${severity}${where}, since ${since}: ${message}`
    : `Over${where}, ${since} to ${formatInstant(resolvedAtMs ?? firstSeenAtMs)}: ${message}`;
}
