/** The upgrade of a device: bridge proof, then its token, then the object that serves it. */
import { createMiddleware } from 'hono/factory';
import { type DeviceDial, DIAL_HEADER, refusalResponse } from '../../durable-objects/rpc.ts';
import { verifyDeviceToken } from '../auth/device-token.ts';
import type { AppContext } from '../env.ts';
import { findDevice } from '../registry/devices.ts';
import { basicCredentials, linkVersion, verifyBridge } from './bridge-proof.ts';

export const linkMqtt = createMiddleware<AppContext>(async (c, next) => {
  const now = Date.now();
  const proof = verifyBridge(c.req.raw, c.env.BRIDGE_SECRET, now);
  // Without a proof the path does not exist: the request falls through to what answers every unknown one.
  if (!proof || c.req.header('upgrade') !== 'websocket') return await next();

  const credentials = basicCredentials(c.req.raw.headers);
  const token = credentials && (await verifyDeviceToken(c.env.TOKEN_PUBLIC_KEY, credentials.password));
  if (!token || token.deviceId !== credentials.username.toLowerCase()) {
    return refusalResponse('UNAUTHORIZED', 'Invalid or expired token');
  }
  const device = await findDevice(c.env.DB, token.deviceId);
  if (device?.status !== 'ACTIVE' || device.authMethod !== 'TOKEN') {
    return refusalResponse('UNAUTHORIZED', 'Invalid or expired token');
  }

  // A device without a plant lives in an object of its own.
  const siteId = device.plantId ?? device.id;
  const dial: DeviceDial = {
    siteId,
    plantId: device.plantId,
    deviceId: device.id,
    connection: proof.connection,
    bridge: proof.bridge,
    boot: proof.boot,
    link: linkVersion(c.req.raw.headers),
    expiresAtMs: token.expiresAtMs,
  };
  const headers = { upgrade: 'websocket', [DIAL_HEADER]: JSON.stringify(dial) };
  const stub = c.env.SITE.get(c.env.SITE.idFromName(siteId));
  const response = await stub.fetch(new Request('https://site/link', { headers }));
  return response.status === 404 ? await next() : response;
});
