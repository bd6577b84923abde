/** How long a device's session lives: as long as its credential, and as its socket shows life. */
import { describe, expect, it } from 'vitest';
import { dialSite, telemetryMessage } from '#workerd/links.ts';
import { alarmAt, holdClock, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { commandsOf, connectListening, sendTelemetry } from '#workerd/site-devices.ts';
import { openSessions } from '#workerd/site-rows.ts';
import { newSite } from '#workerd/site-scenes.ts';
import { powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { siteOf } from '#workerd/world.ts';
import { CLOSE_CODES, SIGN_OF_LIFE_MS } from '../../../../protocol/link/live.ts';

holdClock();

describe('a session ends with its credential', () => {
  it("at the token's own end the link is cut, without a frame from the device [C-3.6]", async () => {
    const { plant } = await newSite();
    const expiresAtMs = START_MS + MINUTE;
    const link = await connectListening(plant, plant.gateway, { expiresAtMs });
    expect(await alarmAt(plant.id)).toBeLessThanOrEqual(expiresAtMs);
    await passTime(plant.id, MINUTE);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
    expect(await openSessions(plant.id)).toBe(0);
  });

  it('a frame that comes behind that end has no effect, even where the alarm is late [rule 6]', async () => {
    const { plant } = await newSite();
    const link = await connectListening(plant, plant.gateway, { expiresAtMs: START_MS + MINUTE });
    setClock(START_MS + MINUTE);
    const payload = telemetryMessage(plant.gateway, '{"gridPowerKw":1}');
    link.send({ kind: 'publish', seq: 901, topic: 'telemetry', payload });
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
    const latest = await siteOf(plant.id).readLatestTelemetry(plant.id);
    expect(latest.payload.gridPowerKw).toBeNull();
  });

  it('suspended, it is cut at once, and a reactivated device dials again [C-3.3]', async () => {
    const { plant } = await newSite();
    const link = await connectListening(plant);
    await siteOf(plant.id).setDeviceStatus(plant.gateway.id, 'SUSPENDED');
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    await siteOf(plant.id).setDeviceStatus(plant.gateway.id, 'ACTIVE');
    const again = await connectListening(plant);
    expect(await sendTelemetry(again, plant.gateway, { gridPowerKw: 1 })).toBe(true);
  });

  it('a suspension stands when the same grant is handed over again [C-3.11]', async () => {
    const { plant } = await newSite();
    const { id: deviceId, hmacSecret } = plant.gateway;
    await siteOf(plant.id).setDeviceStatus(deviceId, 'SUSPENDED');
    const grant = { siteId: plant.id, plantId: plant.id, deviceId, type: 'GATEWAY' as const, hmacSecret };
    await siteOf(plant.id).adoptDevice(grant);
    expect((await dialSite(plant.id, deviceId)).status).toBe(401);
  });

  it('without a sign of life for 90 s it is cut, and from 60 s on it is sent nothing [rule 2]', async () => {
    const { plant, partner } = await newSite();
    const link = await connectListening(plant);
    setClock(START_MS + SIGN_OF_LIFE_MS + 1);
    expect((await partner.acknowledge(submission('site-setpoint', powerSetpoint(5)))).status).toBe('QUEUED');
    expect(commandsOf(link)).toEqual([]);
    await passTime(plant.id, 30 * SECOND);
    await link.untilClosed();
    expect(await openSessions(plant.id)).toBe(0);
  });
});
