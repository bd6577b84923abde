/**
 * Applies saved audit events again to a D1 that time travel has set back: whatever took a right away since [C-14.8]. What
 * is so already in D1 changes nothing. The events come in their order, of each thing only the last one.
 */
import type { SavedEvent } from '../../protocol/after-restore.ts';
import type { AuditEventName } from '../../protocol/audit-names.ts';
import { includesRole, ROLES } from '../../protocol/enums.ts';
import { parseInstant } from '../../protocol/ids.ts';
import {
  plantOfSubDevice,
  removeCertificates,
  removePassword,
  restoreEmail,
} from '../../registry/after-restore.ts';
import { changeSight, findKeyOf } from '../../registry/api-keys.ts';
import type { RegistryChange } from '../../registry/changes.ts';
import { deleteTemplate } from '../../registry/device-templates.ts';
import { deleteDevice, findDialingDevice } from '../../registry/devices.ts';
import { changeRole, findMember, removeMember } from '../../registry/members.ts';
import { markDeleted, setSuspended } from '../../registry/organization-end.ts';
import { findAnyOrganization } from '../../registry/organizations.ts';
import { deletePlant } from '../../registry/plants.ts';
import { deleteSubDevice } from '../../registry/sub-devices.ts';
import { releaseUser } from '../../registry/unproved.ts';
import { deleteUser, onlyAdminOf } from '../../registry/user-end.ts';
import { findUser } from '../../registry/users.ts';
import { deleteWebhook, findWebhook } from '../../registry/webhooks.ts';
import { revokeApiKey } from './api-key.ts';
import { forgetDevice } from './device.ts';
import type { Repair, RepairLine } from './restored-objects.ts';

/** An event with its target. `organizationId`: empty if it belongs to no organization. */
interface Applied {
  id: string;
  organizationId: string;
  details: Record<string, unknown>;
  /** Of a user who did it themself: their address at the time when the event was saved. */
  ownName: string | undefined;
  atMs: number;
}

/** `nothing`: it is so already, or the thing does not exist; another text: why a person must do it. */
type Outcome = { applied: string } | { open: string } | 'nothing';
type Apply = (repair: Repair, event: Applied) => Promise<Outcome>;

const LAST_ADMIN = 'no ORG_ADMIN would be left: invite another one, then run the command again';

const APPLY: Partial<Record<string, Apply>> = {
  'api_key.revoked': async ({ env, now, audit, announce }, { id, organizationId }) => {
    const found = await findKeyOf(env.DB, organizationId, id);
    if (!found || found.row.revokedAtMs !== null) return 'nothing';
    const entry = audit(organizationId, 'api_key.revoked', { type: 'API_KEY', id });
    const change = await revokeApiKey(env, found.row, entry, now);
    if (change) announce(change);
    return { applied: 'revoked' };
  },
  'api_key.updated': async ({ env, now, audit, announce }, { id, organizationId, details }) => {
    const { sees } = details;
    const found = await findKeyOf(env.DB, organizationId, id);
    if (!found || found.row.sees === sees) return 'nothing';
    if (sees !== 'PARTNER') return { open: 'it read the commands of all partners: change it again' };
    const entry = audit(organizationId, 'api_key.updated', { type: 'API_KEY', id }, { sees });
    const change = await changeSight(env.DB, found.row, sees, entry, now);
    if (change !== 'gone') announce(change);
    return { applied: 'reads only the commands of its partner' };
  },
  'device.certificate_issued': async ({ env }, { id, organizationId, atMs }) =>
    (await removeCertificates(env.DB, { id, organizationId }, atMs))
      ? {
          open: 'its certificate of that time is refused, and the one since then is unknown: issue another one',
        }
      : 'nothing',
  'device.deleted': async ({ env, now, audit, announce }, { id, organizationId }) => {
    const device = await findDialingDevice(env.DB, id);
    if (!device || device.organizationId !== organizationId) return 'nothing';
    await forgetDevice(env, device);
    const entry = audit(device.organizationId, 'device.deleted', { type: 'DEVICE', id });
    return deletedBy(announce, await deleteDevice(env.DB, device, entry, now));
  },
  'device_template.deleted': async ({ env, now, audit }, { id, organizationId }) => {
    const entry = audit(organizationId, 'device_template.deleted', { type: 'DEVICE_TEMPLATE', id });
    const done = await deleteTemplate(env.DB, organizationId, id, entry, now);
    if (done === 'used') return { open: 'devices have it: give them another one and delete it' };
    return done === 'gone' ? 'nothing' : { applied: 'deleted' };
  },
  'member.left': applyRemoval,
  'member.removed': applyRemoval,
  'member.role_changed': async ({ env, now, audit, recheckUser }, { id, organizationId, details }) => {
    const member = await findMember(env.DB, organizationId, id);
    const to = ROLES.find((role) => role === details.to);
    if (!member || to === undefined || member.role === to) return 'nothing';
    const from = member.role;
    if (!includesRole(from, to)) return { open: `their role was ${to}, and is ${from}: change it again` };
    const entry = audit(organizationId, 'member.role_changed', { type: 'USER', id }, { from, to });
    if (!(await changeRole(env.DB, organizationId, id, { from, to }, entry, now)))
      return { open: LAST_ADMIN };
    recheckUser(id);
    return { applied: `role ${to} in organization ${organizationId}` };
  },
  'organization.suspended': async (repair, { id }) =>
    (await suspend(repair, id)) ? { applied: 'suspended' } : 'nothing',
  'organization.deleted': async (repair, { id }) => {
    const { env, now, audit, announce } = repair;
    await suspend(repair, id);
    const entry = audit(id, 'organization.deleted', { type: 'ORGANIZATION', id });
    return deletedBy(announce, await markDeleted(env.DB, id, entry, now));
  },
  'plant.deleted': async ({ env, now, audit, announce }, { id, organizationId }) => {
    const entry = audit(organizationId, 'plant.deleted', { type: 'PLANT', id });
    const change = await deletePlant(env.DB, { organizationId, id }, entry, now);
    if (change === 'devices') return { open: 'it has devices: delete or move them, then delete it' };
    return deletedBy(announce, change);
  },
  'sub_device.deleted': async ({ env, now, audit, announce }, { id, organizationId }) => {
    const plantId = await plantOfSubDevice(env.DB, id);
    if (plantId === undefined) return 'nothing';
    const entry = audit(organizationId, 'sub_device.deleted', { type: 'SUB_DEVICE', id });
    return deletedBy(announce, await deleteSubDevice(env.DB, { organizationId, plantId }, id, entry, now));
  },
  'user.deleted': async ({ env, now, audit, recheckUser }, { id }) => {
    const user = await findUser(env.DB, id);
    if (!user || user.deletedAtMs !== null) return 'nothing';
    if ((await onlyAdminOf(env.DB, id)).length > 0) return { open: LAST_ADMIN };
    await deleteUser(env.DB, user, audit(null, 'user.deleted', { type: 'USER', id }), now);
    recheckUser(id);
    return { applied: 'deleted, with everything personal' };
  },
  'user.released': async ({ env, now, audit }, { id }) => {
    const user = await findUser(env.DB, id);
    if (!user) return 'nothing';
    const isReleased = await releaseUser(
      env.DB,
      user,
      audit(null, 'user.released', { type: 'USER', id }),
      now,
    );
    return isReleased ? { applied: 'deleted' } : { open: 'has proved the address: use delete-user' };
  },
  'user.email_changed': async ({ env }, { id, ownName: email }) => {
    const user = await findUser(env.DB, id);
    if (!user || user.deletedAtMs !== null || user.email === email) return 'nothing';
    if (email && (await restoreEmail(env.DB, id, email))) return { applied: `the address is ${email} again` };
    return { open: 'the address of that time is back: change it again' };
  },
  'user.password_changed': applyPassword,
  'user.password_reset': applyPassword,
  'webhook.deleted': async ({ env, now, audit, announce }, { id, organizationId }) => {
    const found = await findWebhook(env.DB, organizationId, id);
    if (!found) return 'nothing';
    const entry = audit(organizationId, 'webhook.deleted', { type: 'WEBHOOK', id });
    return deletedBy(announce, await deleteWebhook(env.DB, found.row, entry, now));
  },
} satisfies Partial<Record<AuditEventName, Apply>>;

/** Applies one event. Undefined if there is nothing to do. */
export async function applyEvent(
  repair: Repair,
  { organizationId, event }: SavedEvent,
): Promise<RepairLine | undefined> {
  const { target, actor, details, createdAt } = event;
  // The name comes from a file, and could be that of a member which every object has.
  const apply = Object.hasOwn(APPLY, event.event) ? APPLY[event.event] : undefined;
  if (!target || !apply) return undefined;
  const atMs = parseInstant(createdAt) ?? 0;
  const ownName = actor.id === target.id ? actor.name : undefined;
  const outcome = await apply(repair, {
    ...{ id: target.id, organizationId: organizationId ?? '', details, ownName, atMs },
  });
  if (outcome === 'nothing') return undefined;
  const name = `${target.type.toLowerCase().replaceAll('_', ' ')} ${target.id}`;
  return 'applied' in outcome
    ? { isApplied: true, text: `${name}: ${outcome.applied}` }
    : { isApplied: false, text: `${name}: ${outcome.open}` };
}

function deletedBy(announce: Repair['announce'], change: RegistryChange | 'gone'): Outcome {
  if (change === 'gone') return 'nothing';
  announce(change);
  return { applied: 'deleted' };
}

async function applyRemoval(
  { env, now, audit, recheckUser }: Repair,
  { id, organizationId }: Applied,
): Promise<Outcome> {
  const member = await findMember(env.DB, organizationId, id);
  if (!member) return 'nothing';
  const { role } = member;
  const entry = audit(organizationId, 'member.removed', { type: 'USER', id }, { role });
  if (!(await removeMember(env.DB, organizationId, id, role, entry, now))) return { open: LAST_ADMIN };
  recheckUser(id);
  return { applied: `removed from organization ${organizationId}` };
}

async function applyPassword({ env }: Repair, { id, atMs }: Applied): Promise<Outcome> {
  return (await removePassword(env.DB, id, atMs))
    ? { open: 'the password of that time is refused, and the one since then is unknown: it must be reset' }
    : 'nothing';
}

async function suspend({ env, now, audit, announce }: Repair, id: string): Promise<boolean> {
  const found = await findAnyOrganization(env.DB, id);
  if (!found) return false;
  const entry = audit(id, 'organization.suspended', { type: 'ORGANIZATION', id });
  const change = await setSuspended(env.DB, id, now, entry, now);
  if (change === 'gone') return false;
  announce(change);
  return true;
}
