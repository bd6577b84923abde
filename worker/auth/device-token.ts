/** MQTT tokens of devices: EdDSA only, our issuer, audience `mqtt`, subject the device [C-3.6]. */
import { importJWK, type JWK, jwtVerify } from 'jose';
import { isUuid } from '../../protocol/ids.ts';

const ALGORITHM = 'EdDSA';
const ISSUER = 'sitewire';
const AUDIENCE = 'mqtt';

export interface DeviceToken {
  deviceId: string;
  expiresAtMs: number;
}

/** Undefined for a token that does not hold, whatever is wrong with it. */
export async function verifyDeviceToken(publicKey: string, token: string): Promise<DeviceToken | undefined> {
  const key = await importJWK(JSON.parse(publicKey) as JWK, ALGORITHM);
  try {
    const { payload } = await jwtVerify(token, key, {
      algorithms: [ALGORITHM],
      issuer: ISSUER,
      audience: AUDIENCE,
    });
    if (!payload.sub || !isUuid(payload.sub) || typeof payload.exp !== 'number') return undefined;
    return { deviceId: payload.sub, expiresAtMs: payload.exp * 1_000 };
  } catch {
    return undefined;
  }
}
