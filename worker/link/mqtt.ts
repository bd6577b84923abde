/**
 * The dial of a device: checks the bridge proof and the device's token or certificate, then hands the socket
 * to its Site. The Site records refused logins of a known device, which may count toward its suspension
 * [C-3.11].
 */
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { type DeviceDial, DIAL_HEADER, refusalResponse, stateRefusal } from '../../durable-objects/dial.ts';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { verifyDeviceToken } from '../../durable-objects/secrets/device-tokens.ts';
import { isUuid } from '../../protocol/ids.ts';
import { type BridgeProof, LINK_PATHS } from '../../protocol/link/proof.ts';
import { noteUsedCertificate } from '../../registry/device-credentials.ts';
import { type DialingDevice, findDialingDevice } from '../../registry/devices.ts';
import type { AppContext } from '../env.ts';
import { siteIdOf, siteOf } from '../lifecycle/device-site.ts';
import { count } from '../metrics/counts.ts';
import { basicCredentials, verifyBridge } from './bridge-proof.ts';

/** Result of a credential check: when the credential was issued and expires, or why it is refused. */
type Credential =
  | { ok: true; issuedAtMs: number | null; expiresAtMs: number | null }
  | { ok: false; reason: string; failure: Failure };

/** The same for every refused device, so that the answer does not show whether a device exists. */
const REFUSED =
  'The credential is not valid for this device, or the device is not ACTIVE: see its diagnostics';

/**
 * Whose failure a rejected login is [C-14.5]. `own`: the device's, with a credential that the platform
 * issued; `foreign`: the device's, with a credential that the platform did not issue; `nobody`: no device's,
 * because anybody can cause it; `other`: that of the device to which the token belongs.
 */
type Failure = 'own' | 'foreign' | 'nobody' | { other: string };

export const linkMqtt = createMiddleware<AppContext>(async (c, next) => {
  const now = Date.now();
  const proof = verifyBridge(c.req.raw, c.env.BRIDGE_SECRET, now);
  // Without a valid proof the path does not exist: `next` answers 404 as for any unknown path.
  if (!proof || c.req.header('upgrade') !== 'websocket') return await next();

  const credentials = basicCredentials(c.req.raw.headers);
  const deviceId = credentials?.username.toLowerCase() ?? '';
  const device = isUuid(deviceId) ? await findDialingDevice(c.env.DB, deviceId) : undefined;
  const credential =
    proof.fingerprint === ''
      ? await tokenOf(c.env.TOKEN_KEYS, device, credentials?.password ?? '')
      : certificateOf(device, proof.fingerprint, credentials?.password ?? '', now);
  if (!credential.ok) {
    count(c, 'refused_dials/device/bad credential');
    return await refuse(c, device, proof, credential);
  }
  if (device?.status !== 'ACTIVE') {
    count(c, 'refused_dials/device/not active');
    const reason = `the device is ${device?.status ?? 'unknown'}`;
    await refuse(c, device, proof, { reason, failure: 'own' });
    return stateRefusal(REFUSED);
  }

  if (device.isSuspended) {
    count(c, 'refused_dials/device/not active');
    await refuse(c, device, proof, { reason: 'the organization is suspended', failure: 'nobody' });
    return stateRefusal(REFUSED);
  }

  const dial: DeviceDial = {
    organizationId: device.organizationId,
    siteId: siteIdOf(device),
    plantId: device.plantId,
    deviceId: device.id,
    connection: proof.connection,
    bridge: proof.bridge,
    boot: proof.boot,
    address: proof.address,
    issuedAtMs: credential.issuedAtMs,
    expiresAtMs: credential.expiresAtMs,
  };
  const headers = { upgrade: 'websocket', [DIAL_HEADER]: JSON.stringify(dial) };
  const response = await siteOf(c.env, device).fetch(new Request('https://site/link', { headers }));
  if (response.status === 401) count(c, 'refused_dials/device/not active');
  if (response.status === 101 && proof.fingerprint !== '') noteCertificate(c, device, proof.fingerprint);
  return response.status === 404 ? await next() : response;
});

async function tokenOf(
  tokenKeys: string,
  device: DialingDevice | undefined,
  token: string,
): Promise<Credential> {
  const verdict = await verifyDeviceToken(tokenKeys, token);
  const deviceId = verdict.ok ? verdict.token.deviceId : verdict.isOurs ? verdict.deviceId : null;
  if (deviceId !== null && deviceId !== device?.id)
    return { ok: false, reason: 'the client sent the token of another device', failure: { other: deviceId } };
  if (device && device.authMethod !== 'TOKEN') {
    const reason = 'the client sent a token, but the device authenticates with a certificate';
    return { ok: false, reason, failure: 'nobody' };
  }
  if (!verdict.ok) return { ok: false, reason: verdict.reason, failure: verdict.isOurs ? 'own' : 'foreign' };
  const { issuedAtMs, expiresAtMs } = verdict.token;
  return { ok: true, issuedAtMs, expiresAtMs };
}

/**
 * Checks that the certificate is one of the device's. The listener has already checked that our CA issued it and that it
 * is valid now. `claimed`: the user name that the client sent, if it is not that of the certificate.
 */
function certificateOf(
  device: DialingDevice | undefined,
  fingerprint: string,
  claimed: string,
  now: number,
): Credential {
  if (claimed !== '') {
    const reason = `the client sent the user name ${JSON.stringify(claimed)} with the certificate of this device: send none, or the device id`;
    return { ok: false, reason, failure: 'nobody' };
  }
  if (device?.authMethod !== 'MTLS') {
    const reason = 'the client presented a certificate, but the device authenticates with a token';
    return { ok: false, reason, failure: 'nobody' };
  }
  const expiresAtMs = goodUntilMs(device, fingerprint);
  if (expiresAtMs === undefined)
    return {
      ok: false,
      reason: 'the client presented a certificate that is not the current or previous one of this device',
      failure: 'own',
    };
  if (expiresAtMs <= now)
    return { ok: false, reason: 'the certificate has expired or was replaced', failure: 'own' };
  return { ok: true, issuedAtMs: null, expiresAtMs };
}

/** Notes which certificate the device uses: it keeps its grace period, whatever is issued later [C-3.3]. */
function noteCertificate(c: Context<AppContext>, device: DialingDevice, fingerprint: string): void {
  if (fingerprint === device.usedFingerprint) return;
  const noted = noteUsedCertificate(c.env.DB, device.id, fingerprint).catch((error: unknown) => {
    console.warn('used certificate of a device not written, its next connect writes it', {
      deviceId: device.id,
      reason: reasonOf(error),
    });
  });
  c.executionCtx.waitUntil(noted);
}

function goodUntilMs(device: DialingDevice, fingerprint: string): number | undefined {
  if (fingerprint === device.certificateFingerprint) return device.certificateExpiresAtMs ?? 0;
  if (fingerprint === device.previousFingerprint) return device.previousUntilMs ?? 0;
  if (fingerprint === device.usedFingerprint) return device.usedUntilMs ?? 0;
  return undefined;
}

async function refuse(
  c: Context<AppContext>,
  device: DialingDevice | undefined,
  { address }: BridgeProof,
  { reason, failure }: { reason: string; failure: Failure },
): Promise<Response> {
  const isForeign = failure === 'foreign' && device?.settings.authFailurePolicy !== 'any';
  await noteRefused(c, device, {
    address,
    reason,
    counts: !isForeign && typeof failure === 'string' && failure !== 'nobody',
  });
  if (typeof failure !== 'string') {
    const owner = await findDialingDevice(c.env.DB, failure.other);
    const counts = owner?.authMethod === 'TOKEN';
    await noteRefused(c, owner, {
      address,
      reason: `a client used the token of this device to log in as device ${device?.id ?? 'unknown'}`,
      counts,
    });
  }
  return refusalResponse('UNAUTHORIZED', REFUSED);
}

/**
 * Records a rejected login in the device's Site. It does not count toward suspension if the bridge dialled
 * the path for uncounted logins, because the client's address is guessing.
 */
async function noteRefused(
  c: Context<AppContext>,
  device: DialingDevice | undefined,
  { address, reason, counts }: { address: string; reason: string; counts: boolean },
): Promise<void> {
  // Only devices with these statuses are in a Site.
  if (!device || (device.status !== 'ACTIVE' && device.status !== 'SUSPENDED')) return;
  const { id, organizationId } = device;
  const refused = {
    address,
    reason,
    counts: counts && c.req.path !== LINK_PATHS.mqttUncounted,
    organizationId,
  };
  try {
    await siteOf(c.env, device).noteRefusedLogin(id, refused);
  } catch (error) {
    console.warn('recording of a refused MQTT login failed, the diagnostics of the device may lack it', {
      deviceId: id,
      reason: reasonOf(error),
    });
  }
}
