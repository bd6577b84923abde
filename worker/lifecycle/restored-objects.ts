/**
 * Applies to a D1 that time travel has set back what the objects know: revoked keys, the status of devices, and suspended
 * organizations [C-14.8]. What is so already in D1 changes nothing.
 */

import { reasonOf } from '../../durable-objects/object/reason.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';
import type { SiteStanding, VhostStanding } from '../../durable-objects/standing-rpc.ts';
import type { AuditEventName } from '../../protocol/audit-names.ts';
import { devicesOf, keysInUse, organizationsAmong } from '../../registry/after-restore.ts';
import { revokeKey } from '../../registry/api-keys.ts';
import type { RegistryChange } from '../../registry/changes.ts';
import type { AuditEntry } from '../../registry/entries.ts';
import { setSuspended } from '../../registry/organization-end.ts';
import { objectsAfter, type SealedObject } from '../../registry/sealed.ts';
import { writeRegistry } from '../../registry/writes.ts';
import type { Env } from '../env.ts';

/** What was done with one thing, or why a person must do it. */
export interface RepairLine {
  isApplied: boolean;
  text: string;
}

/** What the steps need of the operator's request. */
export interface Repair {
  env: Env;
  now: number;
  audit(
    organizationId: string | null,
    event: AuditEventName,
    target: { type: string; id: string },
    details?: Record<string, unknown>,
  ): AuditEntry;
  announce(change: RegistryChange): void;
  /** Ends the streams of a person whose rights have ended. */
  recheckUser(userId: string): void;
}

/** Maximum number of objects in one step; together with what it writes less than Cloudflare allows a request to call. */
const OBJECTS_PER_STEP = 50;

type StandingDevice = SiteStanding['devices'][number];
type RestoredDevice = Awaited<ReturnType<typeof devicesOf>>[number];

/** Asks the next objects. `after`: the id of the last one before; `next`: null after the last object. */
export async function applyObjects(
  repair: Repair,
  after: string,
): Promise<{ lines: RepairLine[]; next: string | null }> {
  const { DB } = repair.env;
  const objects = await objectsAfter(DB, after, OBJECTS_PER_STEP);
  const idsOf = (kind: SealedObject['kind']) =>
    objects.filter((one) => one.kind === kind).map(({ id }) => id);
  const [devices, keys] = await Promise.all([devicesOf(DB, idsOf('site')), keysInUse(DB, idsOf('vhost'))]);
  const bySite = Map.groupBy(devices, ({ id, plantId }) => plantId ?? id);
  const asked = await Promise.all([
    ...[...bySite].map(([id, ofSite]) =>
      orFailure(`plant or device ${id}`, async () => {
        const standing = await objectNamed(repair.env, 'SITE', id).standing();
        return {
          standing,
          organizationId: ofSite[0]?.organizationId,
          lines: await applySite(repair, ofSite, standing),
        };
      }),
    ),
    ...keys.map((key) =>
      orFailure(`API key ${key.id}`, async () => {
        const standing = await objectNamed(repair.env, 'VHOST', key.id).standing();
        return { standing, organizationId: key.organizationId, lines: await applyKey(repair, key, standing) };
      }),
    ),
  ]);
  const lines = asked.flatMap((one) => one.lines);
  const next = objects.length < OBJECTS_PER_STEP ? null : (objects.at(-1)?.id ?? null);
  return { lines: [...lines, ...(await applySuspensions(repair, asked))], next };
}

interface Asked {
  standing?: SiteStanding | VhostStanding;
  organizationId?: string | undefined;
  lines: RepairLine[];
}

/** An object that does not answer keeps nobody from asking the others. */
async function orFailure(name: string, work: () => Promise<Asked>): Promise<Asked> {
  try {
    return await work();
  } catch (error) {
    const text = `${name}: its object did not answer (${reasonOf(error)}): run the command again`;
    return { lines: [{ isApplied: false, text }] };
  }
}

async function applyKey(
  { env, now, audit, announce }: Repair,
  { id, organizationId, name, keyPrefix }: Awaited<ReturnType<typeof keysInUse>>[number],
  { isRevoked }: VhostStanding,
): Promise<RepairLine[]> {
  if (!isRevoked) return [];
  const target = { type: 'API_KEY', id };
  const entry = audit(organizationId, 'api_key.revoked', target, { keyPrefix });
  announce(await revokeKey(env.DB, { id, organizationId }, entry, now));
  return [{ isApplied: true, text: `API key ${id} (${name}): revoked` }];
}

async function applySite(
  repair: Repair,
  restored: readonly RestoredDevice[],
  { devices }: SiteStanding,
): Promise<RepairLine[]> {
  const known = new Map(devices.map((device) => [device.id, device]));
  const lines: RepairLine[] = [];
  for (const device of restored) {
    const standing = known.get(device.id);
    known.delete(device.id);
    const line = standing ? await applyDevice(repair, device, standing) : missing(device);
    if (line) lines.push(line);
  }
  for (const { id } of known.values())
    lines.push({
      isApplied: false,
      text: `device ${id}: D1 does not have it at this plant, because it was registered or moved here since: register or move it again`,
    });
  return lines;
}

async function applyDevice(
  { env, audit, now }: Repair,
  { id, organizationId, status: before, statusAtMs: beforeAtMs }: RestoredDevice,
  { status, statusAtMs, suspendReason }: StandingDevice,
): Promise<RepairLine | undefined> {
  if (status === before || statusAtMs <= beforeAtMs) return undefined;
  const isSuspended = status === 'SUSPENDED';
  const columns = {
    ...{ status, statusAtMs, updatedAtMs: now },
    suspendedAtMs: isSuspended ? statusAtMs : null,
    suspendReason: isSuspended ? suspendReason : null,
  };
  const events = {
    SUSPENDED: 'device.suspended',
    DECOMMISSIONED: 'device.revoked',
    ACTIVE: 'device.reactivated',
  } as const;
  const entry = audit(organizationId, events[status], { type: 'DEVICE', id });
  await writeRegistry(env.DB, [
    { kind: 'device', id, columns },
    { kind: 'audit', entry, atMs: now, cause: `${entry.event}|${id}|${statusAtMs}` },
  ]);
  return { isApplied: true, text: `device ${id}: ${status}` };
}

/** A device that was never provisioned has no data in its Site. */
function missing({ id, status, movingTo }: RestoredDevice): RepairLine | undefined {
  if (status === 'PENDING' || movingTo !== null) return undefined;
  return {
    isApplied: false,
    text: `device ${id}: its plant does not have it, because it was deleted or moved since, and it is refused: delete it, or move it again`,
  };
}

/** Suspends an organization if an object has a newer copy of it, in which it is suspended. */
async function applySuspensions(
  { env, now, audit, announce }: Repair,
  asked: readonly Asked[],
): Promise<RepairLine[]> {
  const newest = new Map<string, number>();
  for (const { standing, organizationId } of asked) {
    const copy = standing?.organization;
    if (copy?.isSuspended && organizationId)
      newest.set(organizationId, Math.max(copy.version, newest.get(organizationId) ?? 0));
  }
  const lines: RepairLine[] = [];
  for (const { id, slug, registryVersion, suspendedAtMs } of await organizationsAmong(env.DB, [
    ...newest.keys(),
  ])) {
    if (suspendedAtMs !== null || (newest.get(id) ?? 0) <= registryVersion) continue;
    const entry = audit(id, 'organization.suspended', { type: 'ORGANIZATION', id });
    const change = await setSuspended(env.DB, id, now, entry, now);
    if (change === 'gone') continue;
    announce(change);
    lines.push({ isApplied: true, text: `organization ${id} (${slug}): suspended` });
  }
  return lines;
}
