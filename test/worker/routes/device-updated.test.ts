/** updatedAt of a device changes also when its permissions change [C-3.1], [C-3.3]. */
import { dialMqtt } from '#workerd/door.ts';
import { holdClock, passUntilSent, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import type { DeviceRecord } from '../../../protocol/device-record.ts';

holdClock();

const at = (seconds: number) => new Date(START_MS + seconds * SECOND).toISOString();

describe('updatedAt', () => {
  it.for([
    ['suspend', 'reactivate'],
    ['rotate-secret', 'suspend'],
    ['rotate-secret', 'revoke'],
    ['mqtt-token', 'revoke'],
  ])(
    'changes at %s and then at %s, in the answer and in the registry [C-3.3]',
    async (operations, { team }) => {
      const { id, siteId } = await team.newTokenDevice();
      let seconds = 0;
      expect((await team.readDevice(id)).updatedAt).toBe(at(seconds));
      for (const operation of operations) {
        seconds += 10;
        setClock(START_MS + seconds * SECOND);
        const answer = await team.admin.operate(id, operation);
        expect([operation, answer.status]).toEqual([operation, 200]);
        const record = await team.readDevice(id);
        expect([operation, record.updatedAt]).toEqual([operation, at(seconds)]);
        if (['suspend', 'reactivate', 'revoke'].includes(operation)) {
          expect((await answer.json()) as DeviceRecord).toEqual(record);
        }
        // A later report of the object to the registry has the same time.
        await evictSite(siteId);
        await passUntilSent(siteId);
        expect(await team.readDevice(id)).toEqual(record);
      }
    },
  );

  it('changes when failed logins suspend a device [C-3.11]', async ({ team }) => {
    const { id, siteId } = await team.newTokenDevice();
    setClock(START_MS + 10 * SECOND);
    for (let count = 0; count < 10; count++) await dialMqtt(id, 'x');
    await passUntilSent(siteId);
    const { status, suspendedAt, updatedAt } = await team.readDevice(id);
    expect([status, suspendedAt, updatedAt]).toEqual(['SUSPENDED', at(10), at(10)]);
  });

  it('does not change when an operation is refused [C-3.3]', async ({ team }) => {
    const { id } = await team.newTokenDevice();
    setClock(START_MS + 10 * SECOND);
    expect((await team.admin.operate(id, 'reactivate')).status).toBe(409);
    expect((await team.readDevice(id)).updatedAt).toBe(at(0));
  });
});
