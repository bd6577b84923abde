/** A certificate lets its device in until it expires, and for an hour after it was replaced [C-3.3]. */
import { dialWith, type Issued } from '#workerd/certificates.ts';
import { runSql } from '#workerd/d1.ts';
import { type DeviceTestLink, openLink } from '#workerd/links.ts';
import { holdClock, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { answerPings } from '#workerd/site-devices.ts';
import { describe, expect, test } from '#workerd/worker-test.ts';
import type { DeviceLinkDown, DeviceLinkUp } from '../../../protocol/link/device.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';

holdClock();

type Certified = Issued & { id: string };

const it = test.extend('newDevice', ({ team, plantId }) => async (): Promise<Certified> => {
  const { id, security } = await team.newMtlsDevice({ plantId });
  return { id, ...security };
});

async function statusOf(id: string, { certificate }: Issued): Promise<number> {
  return (await dialWith(id, certificate)).status;
}

async function linkOf(id: string, { certificate }: Issued): Promise<DeviceTestLink> {
  return openLink<DeviceLinkUp, DeviceLinkDown>(await dialWith(id, certificate));
}

describe('a certificate', () => {
  it('lets its device connect until 1 ms before certificateExpiresAt, and not from then on [C-3.3]', async ({
    newDevice,
  }) => {
    const device = await newDevice();
    const endsAtMs = Date.parse(device.certificateExpiresAt);
    expect(endsAtMs % SECOND).toBe(0);
    setClock(endsAtMs - 1);
    expect(await statusOf(device.id, device)).toBe(101);
    setClock(endsAtMs);
    expect(await statusOf(device.id, device)).toBe(401);
  });

  it('stays valid for an hour after it was replaced; the new one is valid immediately [C-3.3]', async ({
    team,
    newDevice,
  }) => {
    const first = await newDevice();
    const second = await team.reissue(first.id);
    expect(second.previousUntil).toBe(new Date(START_MS + 60 * MINUTE).toISOString());
    setClock(START_MS + 60 * MINUTE - 1);
    expect([await statusOf(first.id, first), await statusOf(first.id, second)]).toEqual([101, 101]);
    setClock(START_MS + 60 * MINUTE);
    expect([await statusOf(first.id, first), await statusOf(first.id, second)]).toEqual([401, 101]);
  });

  it('has its open link closed when the grace period after its replacement ends [C-3.3]', async ({
    team,
    plantId,
    newDevice,
  }) => {
    const [stays, comes] = [await newDevice(), await newDevice()];
    const [old, older] = [await linkOf(stays.id, stays), await linkOf(comes.id, comes)];
    await team.reissue(stays.id);
    const next = await team.reissue(comes.id);
    const fresh = await linkOf(comes.id, next);
    expect(await older.untilClosed()).toMatchObject({ code: CLOSE_CODES.takenOver });
    await answerPings(plantId);
    await passTime(plantId, 60 * MINUTE - 1);
    expect(old.closed).toBeUndefined();
    await passTime(plantId, 1);
    expect(await old.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
    expect(fresh.closed).toBeUndefined();
  });

  it('is invalid once it was replaced twice concurrently; both new certificates are valid [C-3.3]', async ({
    team,
    newDevice,
  }) => {
    const first = await newDevice();
    const both = await Promise.all([team.reissue(first.id), team.reissue(first.id)]);
    for (const issued of both) expect(await statusOf(first.id, issued)).toBe(101);
    expect(await statusOf(first.id, first)).toBe(401);
  });

  it('stays valid while its device uses it when two others are issued in a row [C-3.3]', async ({
    team,
    newDevice,
  }) => {
    const first = await newDevice();
    const dialAll = async (...issued: Issued[]) => {
      const statuses: number[] = [];
      for (const one of issued) statuses.push(await statusOf(first.id, one));
      return statuses;
    };
    expect(await dialAll(first)).toEqual([101]);
    const lost = await team.reissue(first.id);
    setClock(START_MS + 10 * MINUTE);
    await team.reissue(first.id);
    const last = await team.reissue(first.id);
    // The first of the three new ones is neither the current, the previous, nor the used one.
    expect(await dialAll(first, lost, last)).toEqual([101, 401, 101]);
  });

  it('ends, though its device uses it, an hour after it was replaced, also if others are issued since [C-3.3]', async ({
    team,
    newDevice,
  }) => {
    const first = await newDevice();
    expect(await statusOf(first.id, first)).toBe(101);
    await team.reissue(first.id);
    setClock(START_MS + 10 * MINUTE);
    const last = await team.reissue(first.id);
    setClock(START_MS + 60 * MINUTE - 1);
    expect(await statusOf(first.id, first)).toBe(101);
    setClock(START_MS + 60 * MINUTE);
    expect([await statusOf(first.id, first), await statusOf(first.id, last)]).toEqual([401, 101]);
  });

  it('still expires at its own time once it was replaced, even within the grace period [C-3.3]', async ({
    team,
    newDevice,
  }) => {
    const first = await newDevice();
    const endsAtMs = START_MS + 10 * MINUTE;
    await runSql('UPDATE devices SET certificate_expires_at_ms = ? WHERE id = ?', endsAtMs, first.id);
    const second = await team.reissue(first.id);
    expect(second.previousUntil).toBe(new Date(endsAtMs).toISOString());
    setClock(endsAtMs);
    expect([await statusOf(first.id, first), await statusOf(first.id, second)]).toEqual([401, 101]);
  });
});
