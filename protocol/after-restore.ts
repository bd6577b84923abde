/**
 * What an audit event means once D1 was restored to a time before it: the deployment must apply it again, or it is lost
 * and a person must repeat it. `npm run sitewire -- admin after-restore` reads the events from a file that it saved before.
 */
import * as z from 'zod';
import { auditEvent } from './audit.ts';
import type { AuditEventName } from './audit-names.ts';

/** An audit event with its organization; null: it belongs to none. */
export const savedEvent = z.strictObject({ organizationId: z.string().nullable(), event: auditEvent });
export type SavedEvent = z.infer<typeof savedEvent>;

/** How many saved events one request puts back. */
export const EVENTS_PER_REQUEST = 50;

interface Meaning {
  /** `apply`: it took a right away, which must not come back. `lost`: it is not in D1 any more. */
  is: 'apply' | 'lost';
  /** Of events about the same thing of the same target only the last one counts; default: each name is a thing. */
  about?: string;
  /** The target has ended: earlier events of it do not count any more. */
  isEnd?: true;
}

const LOST: Meaning = { is: 'lost' };
const ENDS: Meaning = { is: 'apply', isEnd: true };

/**
 * Events that are not named change nothing that D1 alone knows. So a device's status and secrets are not here: the
 * device's Site knows them.
 */
const MEANINGS: Partial<Record<string, Meaning>> = {
  'alert_rule.created': LOST,
  'alert_rule.updated': LOST,
  'api_key.created': LOST,
  'api_key.revoked': ENDS,
  'api_key.updated': { is: 'apply' },
  'device.certificate_issued': { is: 'apply' },
  'device.deleted': ENDS,
  'device.moved': LOST,
  'device.registered': LOST,
  'device.updated': LOST,
  'device_template.created': LOST,
  'device_template.deleted': ENDS,
  'device_template.updated': LOST,
  'member.invited': LOST,
  'member.joined': { is: 'lost', about: 'membership' },
  'member.left': { is: 'apply', about: 'membership' },
  'member.removed': { is: 'apply', about: 'membership' },
  'member.role_changed': { is: 'apply', about: 'membership' },
  'organization.created': LOST,
  'organization.deleted': ENDS,
  'organization.limits_changed': LOST,
  'organization.reactivated': { is: 'lost', about: 'suspension' },
  'organization.suspended': { is: 'apply', about: 'suspension' },
  'organization.updated': LOST,
  'plant.created': LOST,
  'plant.deleted': ENDS,
  'plant.updated': LOST,
  'sub_device.created': LOST,
  'sub_device.deleted': ENDS,
  'sub_device.updated': LOST,
  'user.created': LOST,
  'user.deleted': ENDS,
  'user.email_changed': { is: 'apply' },
  'user.email_verified': LOST,
  'user.password_changed': { is: 'apply', about: 'password' },
  'user.password_reset': { is: 'apply', about: 'password' },
  'user.released': ENDS,
  'webhook.created': LOST,
  'webhook.deleted': ENDS,
  'webhook.secret_rotated': LOST,
  'webhook.updated': LOST,
} satisfies Partial<Record<AuditEventName, Meaning>>;

/** The last event about each thing, oldest first, with what it means. `saved`: oldest first. */
export function lastOfEach(saved: readonly SavedEvent[]): { saved: SavedEvent; is: Meaning['is'] }[] {
  const byTarget = new Map<string, Map<string, { saved: SavedEvent; is: Meaning['is'] }>>();
  for (const one of saved) {
    const { event: name, target, outcome } = one.event;
    const meaning = Object.hasOwn(MEANINGS, name) ? MEANINGS[name] : undefined;
    if (!meaning || !target || outcome !== 'SUCCESS') continue;
    const known = byTarget.get(target.id) ?? new Map();
    byTarget.set(target.id, known);
    // A person may be a member of several organizations.
    const thing =
      meaning.about === 'membership' ? `membership ${one.organizationId}` : (meaning.about ?? name);
    if (meaning.isEnd) known.clear();
    known.set(thing, { saved: one, is: meaning.is });
  }
  const all = [...byTarget.values()].flatMap((things) => [...things.values()]);
  return all.sort((a, b) => a.saved.event.createdAt.localeCompare(b.saved.event.createdAt));
}
