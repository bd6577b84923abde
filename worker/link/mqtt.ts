/**
 * The upgrade of a device: bridge proof, then its token or certificate, then the object that serves it. Who is refused as
 * a device that D1 knows is kept there, and may count toward its suspension [C-3.11].
 */
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { type DeviceDial, DIAL_HEADER, refusalResponse } from '../../durable-objects/rpc.ts';
import { verifyDeviceToken } from '../../durable-objects/secrets/device-tokens.ts';
import { isUuid } from '../../protocol/ids.ts';
import { type BridgeProof, LINK_PATHS } from '../../protocol/link/proof.ts';
import type { AppContext } from '../env.ts';
import { siteIdOf, siteOf } from '../lifecycle/device-site.ts';
import { count } from '../metrics/counts.ts';
import { type DialingDevice, findDialingDevice } from '../registry/devices.ts';
import { basicCredentials, linkVersion, verifyBridge } from './bridge-proof.ts';

/** Who a credential says that its client is, until when; or why it does not. */
type Credential =
  | { ok: true; issuedAtMs: number | null; expiresAtMs: number | null }
  /** `isOurs`: of a credential that we once made. */
  | { ok: false; isOurs: boolean; reason: string };

export const linkMqtt = createMiddleware<AppContext>(async (c, next) => {
  const now = Date.now();
  const proof = verifyBridge(c.req.raw, c.env.BRIDGE_SECRET, now);
  // Without a proof the path does not exist: the request falls through to what answers every unknown one.
  if (!proof || c.req.header('upgrade') !== 'websocket') return await next();

  const credentials = basicCredentials(c.req.raw.headers);
  const deviceId = credentials?.username.toLowerCase() ?? '';
  const device = isUuid(deviceId) ? await findDialingDevice(c.env.DB, deviceId) : undefined;
  const credential =
    proof.fingerprint === ''
      ? await tokenOf(c.env.TOKEN_KEYS, device, credentials?.password ?? '')
      : certificateOf(device, proof.fingerprint, now);
  if (!credential.ok) {
    count(c, 'refused_dials/device/bad credential');
    return await refuse(c, device, proof, credential);
  }
  if (device?.status !== 'ACTIVE') {
    count(c, 'refused_dials/device/not active');
    const reason = `the device is ${device?.status ?? 'unknown'}`;
    return await refuse(c, device, proof, { isOurs: true, reason });
  }

  const dial: DeviceDial = {
    siteId: siteIdOf(device),
    plantId: device.plantId,
    deviceId: device.id,
    connection: proof.connection,
    bridge: proof.bridge,
    boot: proof.boot,
    link: linkVersion(c.req.raw.headers),
    address: proof.address,
    issuedAtMs: credential.issuedAtMs,
    expiresAtMs: credential.expiresAtMs,
  };
  const headers = { upgrade: 'websocket', [DIAL_HEADER]: JSON.stringify(dial) };
  const response = await siteOf(c.env, device).fetch(new Request('https://site/link', { headers }));
  if (response.status === 401) count(c, 'refused_dials/device/not active');
  return response.status === 404 ? await next() : response;
});

async function tokenOf(
  tokenKeys: string,
  device: DialingDevice | undefined,
  token: string,
): Promise<Credential> {
  const verdict = await verifyDeviceToken(tokenKeys, token);
  if (!verdict.ok) return verdict;
  const { deviceId, issuedAtMs, expiresAtMs } = verdict.token;
  if (!device || deviceId !== device.id) return { ok: false, isOurs: true, reason: "another device's token" };
  if (device.authMethod !== 'TOKEN')
    return { ok: false, isOurs: true, reason: 'a token, and the device has a certificate' };
  return { ok: true, issuedAtMs, expiresAtMs };
}

/** The listener has seen that it is of our authority, and is good today; here it is the device's own. */
function certificateOf(device: DialingDevice | undefined, fingerprint: string, now: number): Credential {
  if (device?.authMethod !== 'MTLS')
    return { ok: false, isOurs: true, reason: 'a certificate that is not of a device with one' };
  const expiresAtMs = goodUntilMs(device, fingerprint);
  if (expiresAtMs === undefined) return { ok: false, isOurs: true, reason: "not this device's certificate" };
  if (expiresAtMs <= now) return { ok: false, isOurs: true, reason: 'certificate expired, or replaced' };
  return { ok: true, issuedAtMs: null, expiresAtMs };
}

function goodUntilMs(device: DialingDevice, fingerprint: string): number | undefined {
  if (fingerprint === device.certificateFingerprint) return device.certificateExpiresAtMs ?? 0;
  if (fingerprint === device.previousFingerprint) return device.previousUntilMs ?? 0;
  return undefined;
}

async function refuse(
  c: Context<AppContext>,
  device: DialingDevice | undefined,
  { address }: BridgeProof,
  { isOurs, reason }: { isOurs: boolean; reason: string },
): Promise<Response> {
  // Only these are in an object.
  if (device && (device.status === 'ACTIVE' || device.status === 'SUSPENDED')) {
    const { organizationId, settings } = device;
    const isThrottled = c.req.path === LINK_PATHS.mqttUncounted;
    const counts = !isThrottled && (isOurs || settings.authFailurePolicy === 'any');
    try {
      await siteOf(c.env, device).noteRefusedLogin(device.id, { address, reason, counts, organizationId });
    } catch (error) {
      console.warn('refused login not kept', { deviceId: device.id, reason: reasonOf(error) });
    }
  }
  return refusalResponse('UNAUTHORIZED', 'Invalid or expired credential');
}
