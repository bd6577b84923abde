/** Two programs with the identity of one device: the audit says that they take each other's place [C-3.6], [C-8.4]. */
import { deviceToken } from '#workerd/device-tokens.ts';
import type { TokenDevice } from '#workerd/devices.ts';
import { connect } from '#workerd/devices.ts';
import { HOUR, holdClock, MINUTE, passUntilSent, SECOND, setClock } from '#workerd/site-clock.ts';
import { evictSite } from '#workerd/site-rows.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import type { AuditEvent } from '../../../protocol/audit.ts';
import type { Page } from '../../../protocol/page.ts';

const EVENT = 'device.session_taken_over';
const [ONE, OTHER] = ['192.0.2.7', '198.51.100.9'];

holdClock();

/** Two programs log in by turns while the session of the other one is open. */
async function fight(device: TokenDevice, logins: number, stepMs = SECOND): Promise<void> {
  for (let login = 0; login < logins; login++) {
    setClock(Date.now() + stepMs);
    await connect(device, { proof: { address: login % 2 === 0 ? ONE : OTHER } });
  }
}

async function takeoversOf(team: Team, device: TokenDevice) {
  await passUntilSent(device.siteId);
  return (await team.auditRowsOf(device.id)).filter(({ event }) => event === EVENT);
}

describe('take-overs of the session of a device', () => {
  it('are audited at the third within ten minutes, with the addresses [C-8.4]', async ({ team, device }) => {
    await fight(device, 3);
    expect(await takeoversOf(team, device)).toEqual([]);
    await fight(device, 2);
    expect(await takeoversOf(team, device)).toEqual([
      expect.objectContaining({
        actor_type: 'SYSTEM',
        target_type: 'DEVICE',
        target: device.id,
        address: ONE,
        outcome: 'FAILURE',
        details: JSON.stringify({ takeovers: 3, minutes: 10, addresses: [ONE, OTHER] }),
        count: 1,
      }),
    ]);
  });

  it('are audited at most once an hour, also after an eviction', async ({ team, device }) => {
    await fight(device, 10);
    expect(await takeoversOf(team, device)).toHaveLength(1);
    await evictSite(device.siteId);
    // Sixty logins over half an hour.
    await fight(device, 60, 30 * SECOND);
    expect(await takeoversOf(team, device)).toHaveLength(1);
    // Past the hour of the first row; the first token has expired by then.
    setClock(Date.now() + HOUR);
    await fight({ ...device, token: await deviceToken(device.id) }, 10);
    expect(await takeoversOf(team, device)).toHaveLength(2);
  });

  it('are audited for a device without a plant, too', async ({ team }) => {
    const device = await team.newTokenDevice({ plantId: null });
    await fight(device, 6);
    expect(await takeoversOf(team, device)).toHaveLength(1);
  });

  it('are found by the name of their event', async ({ team, device }) => {
    await fight(device, 6);
    await passUntilSent(device.siteId);
    const { data } = await team.admin.read<Page<AuditEvent>>(`/audit-events?event=${EVENT}&limit=100`);
    expect(data.filter(({ target }) => target?.id === device.id)).toHaveLength(1);
  });

  it('are in no audit while they are rare', async ({ team, device }) => {
    await fight(device, 8, 5 * MINUTE + SECOND);
    expect(await takeoversOf(team, device)).toEqual([]);
  });

  it('are in the hints that an OPERATOR reads [C-3.8]', async ({ team, device }) => {
    await fight(device, 6);
    const { hints } = await team.operator.read<{ hints: string[] }>(`/devices/${device.id}/diagnostics`);
    const said = hints.filter((hint) => hint.includes("take each other's place"));
    expect(said).toEqual([expect.stringContaining(ONE)]);
    expect(said[0]).toContain(OTHER);
  });
});
