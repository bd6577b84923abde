/**
 * Sessions of a device: which socket is valid (the newest, from the newest boot of its bridge, while its
 * credential is valid), and how a session ends.
 */
import { runInDurableObject } from 'cloudflare:test';
import { dialSite, telemetryMessage } from '#workerd/links.ts';
import { setScene } from '#workerd/scene.ts';
import { alarmAt, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  commandsOf,
  connectListening,
  connectTo,
  nthCommand,
  publish,
  sendTelemetry,
} from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { columnOf, evictSite, numberOf, openSessions } from '#workerd/site-rows.ts';
import { powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, siteOf } from '#workerd/world.ts';
import { CLOSE_CODES, SIGN_OF_LIFE_MS } from '../../../../protocol/link/live.ts';

describe('two links of one device', () => {
  it('the newest link of a device stays open, and the Site closes the older one as taken over [C-3.6]', async () => {
    const { plant } = await setScene({ plant: true });
    const older = await connectListening(plant, plant.gateway, { bridge: 'bridge-1' });
    const newer = await connectListening(plant, plant.gateway, { bridge: 'bridge-2', boot: 'boot-9' });
    expect(await older.untilClosed()).toMatchObject({ code: CLOSE_CODES.takenOver });
    expect(await sendTelemetry(newer, plant.gateway, { gridPowerKw: 3 })).toBe(true);
    expect(newer.closed).toBeUndefined();
    expect(await openSessions(plant.id)).toBe(1);
  });

  it('frames that arrive on the older link after it was closed have no effect and get no answer [rule 2]', async () => {
    const { plant, partner, link: older } = await setScene({ gateway: 'listening' });
    const answered = older.received.length;
    const sockets: WebSocket[] = [];
    await runInDurableObject(siteOf(plant.id), (_site, state) => {
      sockets.push(...state.getWebSockets(plant.gateway.id));
    });
    const newer = await connectTo(plant.id, plant.gateway.id, { bridge: 'bridge-2' });
    await older.untilClosed();

    const payload = telemetryMessage(plant.gateway, '{"gridPowerKw":666}');
    const frames = [
      { kind: 'publish', seq: 900, topic: 'telemetry', payload },
      { kind: 'subscribed', commands: true },
    ];
    await runInDurableObject(siteOf(plant.id), (site) => {
      for (const socket of sockets) site.webSocketMessage(socket, JSON.stringify(frames));
    });
    expect(sockets).toHaveLength(1);
    expect(older.received.filter((frame) => frame.kind !== 'goodbye')).toHaveLength(answered);
    expect(await sendTelemetry(newer, plant.gateway, { fvePowerKw: 1 })).toBe(true);
    expect(await gridPowerKw(plant)).toBeNull();
    const ack = await partner.acknowledge(submission('site-setpoint', powerSetpoint(5)));
    expect(ack.status).toBe('QUEUED');
  });

  it('commands go only to the newest link, and only once it has subscribed [rule 2]', async () => {
    const { plant, partner, link: older } = await setScene({ gateway: 'listening' });
    const newer = await connectTo(plant.id, plant.gateway.id, { bridge: 'bridge-2' });
    const ack = await partner.acknowledge(submission('site-setpoint', powerSetpoint(5)));
    expect(ack.status).toBe('QUEUED');
    newer.send({ kind: 'subscribed', commands: true });
    expect((await nthCommand(newer, 1)).action).toBe('SITE_SETPOINT');
    expect(commandsOf(older)).toEqual([]);
  });

  it('when the older link closes, the session of the newer one continues [rule 2]', async () => {
    const { plant, link: older } = await setScene({ gateway: 'listening' });
    const newer = await connectListening(plant, plant.gateway, { bridge: 'bridge-2' });
    older.socket.close(1000, 'late');
    await older.untilClosed();
    await evictSite(plant.id);
    expect(await publish(newer, telemetryMessage(plant.gateway, '{"gridPowerKw":5}'))).toBe(true);
    expect(await openSessions(plant.id)).toBe(1);
  });

  it('after twenty reconnects only the last session is open, and commands reach it [C-3.6]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const links = [];
    for (let cut = 0; cut < 20; cut++) {
      setClock(START_MS + cut * SECOND);
      const link = await connectListening(plant, plant.gateway, { bridge: `bridge-${cut % 3}` });
      links.push(link);
      if (cut % 2 === 0) link.socket.close(1000, 'cut');
    }
    const last = links.pop();
    if (!last) throw new Error('twenty links');
    for (const link of links.filter((_link, cut) => cut % 2 === 1)) await link.untilClosed();
    expect(last.closed).toBeUndefined();
    expect(await openSessions(plant.id)).toBe(1);
    expect(await numberOf(plant.id, 'SELECT epoch FROM device')).toBe(20);
    expect((await partner.acknowledge(submission('site-setpoint', powerSetpoint(5)))).status).toBe(
      'ACCEPTED',
    );
    expect((await nthCommand(last, 1)).action).toBe('SITE_SETPOINT');
    expect(links.flatMap(commandsOf)).toEqual([]);
  });
});

describe('a link that its bridge closes', () => {
  it('the session of the device ends immediately [C-3.10]', async () => {
    const { plant, link } = await setScene({ gateway: 'listening' });
    expect(await openSessions(plant.id)).toBe(1);
    link.socket.close(1000, 'disconnected');
    await link.untilClosed();
    expect(await openSessions(plant.id)).toBe(0);
  });

  it('the Site closes its side immediately, too [architecture: one idea]', async () => {
    const { link } = await setScene({ gateway: 'listening' });
    link.socket.close(1000, 'disconnected');
    // The clock stands still: no alarm closes it.
    expect(await link.untilClosed()).toMatchObject({ code: 1000 });
  });
});

describe('a restarted bridge', () => {
  it('ends the sessions of its older boot with its first new link, and no other sessions [rule 8]', async () => {
    const { organization, plant } = await setScene({ plant: true });
    const second = await createDevice(organization, plant.id, 'SENSOR');
    const third = await createDevice(organization, plant.id, 'SENSOR');
    const stale = await connectListening(plant, second, { bridge: 'bridge-1', boot: 'boot-1' });
    const foreign = await connectListening(plant, third, { bridge: 'bridge-2', boot: 'boot-1' });
    await connectListening(plant, plant.gateway, { bridge: 'bridge-1', boot: 'boot-2' });
    expect(await stale.untilClosed()).toMatchObject({ code: CLOSE_CODES.takenOver });
    const left = 'SELECT id FROM device WHERE connection_id IS NOT NULL ORDER BY id';
    expect(await columnOf(plant.id, left)).toEqual([plant.gateway.id, third.id].sort());
    expect(await sendTelemetry(foreign, third, { powerKw: 1 })).toBe(true);
  });
});

describe('a dial', () => {
  it('is answered with 404 if its connection id was used [rule 1]', async () => {
    const { plant } = await setScene({ plant: true });
    const connection = crypto.randomUUID();
    const link = await connectTo(plant.id, plant.gateway.id, { connection });
    const replayed = await dialSite(plant.id, plant.gateway.id, { connection });
    expect(replayed.status).toBe(404);
    expect(await replayed.json()).toMatchObject({ code: 'NOT_FOUND' });
    expect(await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 })).toBe(true);

    setClock(START_MS + 2 * MINUTE);
    await evictSite(plant.id);
    expect((await dialSite(plant.id, plant.gateway.id, { connection })).status).toBe(404);
    expect(await openSessions(plant.id)).toBe(1);
  });

  it('concurrent dials with one connection id open one link [rule 1]', async () => {
    const { plant } = await setScene({ plant: true });
    const connection = crypto.randomUUID();
    const dials = Array.from({ length: 5 }, () => dialSite(plant.id, plant.gateway.id, { connection }));
    const statuses = (await Promise.all(dials)).map((response) => response.status);
    expect(statuses.sort()).toEqual([101, 404, 404, 404, 404]);
  });

  it('is answered with 404 if it has no header of the Worker, or is no upgrade [rule 1]', async () => {
    const { plant } = await setScene({ plant: true });
    const site = siteOf(plant.id);
    expect((await site.fetch('https://site/link', { headers: { upgrade: 'websocket' } })).status).toBe(404);
    expect((await site.fetch('https://site/link', { headers: { 'sitewire-dial': '{}' } })).status).toBe(404);
  });

  it.for(['SUSPENDED', 'DECOMMISSIONED'] as const)(
    'is answered for a %s device with 401, and its connection id is not stored [rule 6]',
    async (status, { plainSite: { plant } }) => {
      await siteOf(plant.id).setDeviceStatus(plant.gateway.id, status);
      const response = await dialSite(plant.id, plant.gateway.id);
      expect(response.status).toBe(401);
      expect(await response.json()).toMatchObject({ code: 'UNAUTHORIZED' });
      expect(await numberOf(plant.id, 'SELECT count(*) FROM seen_connection')).toBe(0);
    },
  );
});

describe('the end of a session', () => {
  it('the Site closes the link when its token expires, even if the device sends nothing [C-3.6]', async () => {
    const { plant } = await setScene({ plant: true });
    const expiresAtMs = START_MS + MINUTE;
    const link = await connectListening(plant, plant.gateway, { expiresAtMs });
    expect(await alarmAt(plant.id)).toBeLessThanOrEqual(expiresAtMs);
    await passTime(plant.id, MINUTE);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
    expect(await openSessions(plant.id)).toBe(0);
  });

  it('a frame after the token expired has no effect and closes the link, even if the alarm is late [rule 6]', async () => {
    const { plant } = await setScene({ plant: true });
    const link = await connectListening(plant, plant.gateway, { expiresAtMs: START_MS + MINUTE });
    setClock(START_MS + MINUTE);
    const payload = telemetryMessage(plant.gateway, '{"gridPowerKw":1}');
    link.send({ kind: 'publish', seq: 901, topic: 'telemetry', payload });
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.expired });
    const latest = await siteOf(plant.id).readLatestTelemetry(plant.id);
    expect(latest.payload.gridPowerKw).toBeNull();
  });

  it('a suspension closes the link immediately, and a reactivated device can connect again [C-3.3]', async () => {
    const { plant, link } = await setScene({ gateway: 'listening' });
    await siteOf(plant.id).setDeviceStatus(plant.gateway.id, 'SUSPENDED');
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    await siteOf(plant.id).setDeviceStatus(plant.gateway.id, 'ACTIVE');
    const again = await connectListening(plant);
    expect(await sendTelemetry(again, plant.gateway, { gridPowerKw: 1 })).toBe(true);
  });

  it('a suspended device stays suspended when the Worker registers it at the Site again [C-3.11]', async () => {
    const { plant } = await setScene({ plant: true });
    const { id: deviceId, hmacSecret } = plant.gateway;
    await siteOf(plant.id).setDeviceStatus(deviceId, 'SUSPENDED');
    const grant = { siteId: plant.id, plantId: plant.id, deviceId, type: 'GATEWAY' as const, hmacSecret };
    await siteOf(plant.id).adoptDevice({ ...grant, version: 1 });
    expect((await dialSite(plant.id, deviceId)).status).toBe(401);
  });

  it('a link on which nothing arrives gets no commands after 60 s, and the Site closes it after 90 s [rule 2]', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'listening' });
    setClock(START_MS + SIGN_OF_LIFE_MS + 1);
    expect((await partner.acknowledge(submission('site-setpoint', powerSetpoint(5)))).status).toBe('QUEUED');
    expect(commandsOf(link)).toEqual([]);
    await passTime(plant.id, 30 * SECOND);
    await link.untilClosed();
    expect(await openSessions(plant.id)).toBe(0);
  });
});
