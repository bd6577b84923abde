/**
 * Who sees what of a command [C-15.1]. The keys of one partner see each other's commands, and those of the organization's
 * people. Of another partner's command a key sees only its place in the plan: a level, and until when. Every
 * answer and every event about a command asks here. Pure.
 */
import type { Asker } from '../ask-rpc.ts';

/** As much of an asker as decides what it sees. */
type Sighted = Extract<Asker, string> | Pick<Exclude<Asker, string>, 'partnerId' | 'sees'>;

/** The partner of a command that a person of the organization sent, or the platform itself. */
export const ORGANIZATION = '';

/** A member of the organization sees all commands, and so does a key with `sees: ORGANIZATION`. */
export function seesAll(asker: Sighted): boolean {
  return asker === 'member' || asker.sees === 'ORGANIZATION';
}

/** Whether the command of this partner is shown to the asker; undefined: nothing says whose the command is. */
export function isSeen(asker: Sighted, partnerId: string | undefined): boolean {
  const seen = partnersSeen(asker);
  return seen === undefined || (partnerId !== undefined && seen.includes(partnerId));
}

/** The partners whose commands are shown to the asker; undefined: all. */
export function partnersSeen(asker: Sighted): readonly string[] | undefined {
  return asker === 'member' || asker.sees === 'ORGANIZATION' ? undefined : [ORGANIZATION, asker.partnerId];
}

/** The condition of a query that these partners sent the row. */
export function sentBy(partners: readonly string[] | undefined): { sql: string; bindings: string[] } {
  if (!partners) return { sql: 'TRUE', bindings: [] };
  return { sql: `partner_id IN (${partners.map(() => '?').join(', ')})`, bindings: [...partners] };
}

/**
 * Whether what is written about a command of `partnerId` may name a command of `other`. Everybody reads what is written
 * about the commands of the organization, so these may name only each other.
 */
export function mayName(partnerId: string, other: string): boolean {
  return other === ORGANIZATION || other === partnerId;
}

/** The source of a person's command, for an asker who does not read the names of people. */
export function organizationFor(asker: Asker): string {
  return asker === 'member' ? 'organization' : asker.slug;
}
