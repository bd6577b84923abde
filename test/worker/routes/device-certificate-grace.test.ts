/** How long a certificate lets its device in: its own time, and an hour behind its successor [C-3.3]. */
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import type { DeviceLinkDown, DeviceLinkUp } from '../../../protocol/link/device.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import { dialWith } from '../../support/workerd/certificates.ts';
import { createTeamAtStart, postDevice, provision } from '../../support/workerd/devices.ts';
import { postPlant } from '../../support/workerd/fleet.ts';
import { type DeviceTestLink, openLink } from '../../support/workerd/links.ts';
import type { Team } from '../../support/workerd/people.ts';
import { holdClock, MINUTE, passTime, SECOND, START_MS, setClock } from '../../support/workerd/site-clock.ts';
import { answerPings } from '../../support/workerd/site-devices.ts';

interface Issued {
  id: string;
  certificate: string;
  certificateExpiresAt: string;
}

let team: Team;

beforeAll(async () => {
  team = await createTeamAtStart();
});

holdClock();

async function newDevice(plantId: string): Promise<Issued> {
  const { id } = await postDevice(team.operator, { authMethod: 'MTLS', plantId });
  const { certificate = '', certificateExpiresAt = '' } = (await provision(team, id)).security;
  return { id, certificate, certificateExpiresAt };
}

async function reissue({ id }: Issued): Promise<Issued & { previousUntil: string }> {
  return await team.admin.read(`/devices/${id}/certificate`, { method: 'POST' }, 201);
}

async function statusOf(id: string, { certificate }: Issued): Promise<number> {
  return (await dialWith(id, certificate)).status;
}

async function linkOf(id: string, { certificate }: Issued): Promise<DeviceTestLink> {
  return openLink<DeviceLinkUp, DeviceLinkDown>(await dialWith(id, certificate));
}

describe('a certificate', () => {
  it('is good until the moment that it names, and not behind it [C-3.3]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const device = await newDevice(plantId);
    const endsAtMs = Date.parse(device.certificateExpiresAt);
    expect(endsAtMs % SECOND).toBe(0);
    setClock(endsAtMs - 1);
    expect(await statusOf(device.id, device)).toBe(101);
    setClock(endsAtMs);
    expect(await statusOf(device.id, device)).toBe(401);
  });

  it('lets in for 60 minutes behind its successor, to the millisecond [C-3.3]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const first = await newDevice(plantId);
    const second = await reissue(first);
    expect(second.previousUntil).toBe(new Date(START_MS + 60 * MINUTE).toISOString());
    setClock(START_MS + 60 * MINUTE - 1);
    expect([await statusOf(first.id, first), await statusOf(first.id, second)]).toEqual([101, 101]);
    setClock(START_MS + 60 * MINUTE);
    expect([await statusOf(first.id, first), await statusOf(first.id, second)]).toEqual([401, 101]);
  });

  it('ends the session that it opened when that is over, and that of its successor not [C-3.3]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const [stays, comes] = [await newDevice(plantId), await newDevice(plantId)];
    const [old, older] = [await linkOf(stays.id, stays), await linkOf(comes.id, comes)];
    await reissue(stays);
    const next = await reissue(comes);
    const fresh = await linkOf(comes.id, next);
    expect(await older.untilClosed()).toMatchObject({ code: CLOSE_CODES.takenOver });
    await answerPings(plantId);
    await passTime(plantId, 60 * MINUTE - 1);
    expect(old.closed).toBeUndefined();
    await passTime(plantId, 1);
    expect(await old.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
    expect(fresh.closed).toBeUndefined();
  });

  it('is as good as another that was asked for at the same moment [C-3.3]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const first = await newDevice(plantId);
    const both = await Promise.all([reissue(first), reissue(first)]);
    for (const issued of both) expect(await statusOf(first.id, issued)).toBe(101);
    expect(await statusOf(first.id, first)).toBe(401);
  });

  it('has no longer grace than its own time [C-3.3]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const first = await newDevice(plantId);
    const endsAtMs = START_MS + 10 * MINUTE;
    const shorten = env.DB.prepare('UPDATE devices SET certificate_expires_at_ms = ? WHERE id = ?');
    await shorten.bind(endsAtMs, first.id).run();
    const second = await reissue(first);
    expect(second.previousUntil).toBe(new Date(endsAtMs).toISOString());
    setClock(endsAtMs);
    expect([await statusOf(first.id, first), await statusOf(first.id, second)]).toEqual([401, 101]);
  });
});
