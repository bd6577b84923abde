/** When a device was last changed: by whatever changes what it may, too [C-3.1], [C-3.3]. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { DeviceRecord } from '../../../protocol/device-record.ts';
import { createTeamAtStart, newTokenDevice, operate, readDevice } from '../../support/workerd/devices.ts';
import { dialMqtt } from '../../support/workerd/door.ts';
import type { Team } from '../../support/workerd/people.ts';
import { holdClock, passUntilTold, SECOND, START_MS, setClock } from '../../support/workerd/site-clock.ts';
import { evictSite } from '../../support/workerd/site-rows.ts';

let team: Team;

beforeAll(async () => {
  team = await createTeamAtStart();
});

holdClock();

const at = (seconds: number) => new Date(START_MS + seconds * SECOND).toISOString();

describe('updatedAt', () => {
  it.each([
    ['suspend', 'reactivate'],
    ['rotate-secret', 'suspend'],
    ['rotate-secret', 'revoke'],
    ['mqtt-token', 'revoke'],
  ])('moves on %s, then on %s, in the answer and in the registry [C-3.3]', async (...operations) => {
    const { id, siteId } = await newTokenDevice(team);
    let seconds = 0;
    expect((await readDevice(team, id)).updatedAt).toBe(at(seconds));
    for (const operation of operations) {
      seconds += 10;
      setClock(START_MS + seconds * SECOND);
      const answer = await operate(team.admin, id, operation);
      expect([operation, answer.status]).toEqual([operation, 200]);
      const record = await readDevice(team, id);
      expect([operation, record.updatedAt]).toEqual([operation, at(seconds)]);
      if (['suspend', 'reactivate', 'revoke'].includes(operation)) {
        expect((await answer.json()) as DeviceRecord).toEqual(record);
      }
      // What the object tells the registry after that is the same word.
      await evictSite(siteId);
      await passUntilTold(siteId);
      expect(await readDevice(team, id)).toEqual(record);
    }
  });

  it('moves where failed logins suspend a device [C-3.11]', async () => {
    const { id, siteId } = await newTokenDevice(team);
    setClock(START_MS + 10 * SECOND);
    for (let count = 0; count < 10; count++) await dialMqtt(id, 'x');
    await passUntilTold(siteId);
    const { status, suspendedAt, updatedAt } = await readDevice(team, id);
    expect([status, suspendedAt, updatedAt]).toEqual(['SUSPENDED', at(10), at(10)]);
  });

  it('stays where an operation is refused [C-3.3]', async () => {
    const { id } = await newTokenDevice(team);
    setClock(START_MS + 10 * SECOND);
    expect((await operate(team.admin, id, 'reactivate')).status).toBe(409);
    expect((await readDevice(team, id)).updatedAt).toBe(at(0));
  });
});
