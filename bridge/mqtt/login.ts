/** Who a client says that it is, by what its listener asks for: a token, or a certificate (spec: Device MQTT; [C-3.3]). */
import type { AuthenticateError } from 'aedes';
import { isUuid } from '../../protocol/ids.ts';
import type { ClientCertificate } from '../tls.ts';

/** MQTT 3.1.1 return codes of CONNACK (spec: Broker and device errors). */
export const CONNACK = { unavailable: 3, malformed: 4, refused: 5 } as const;

/** Where a client comes from; its certificate, where its listener asks for one. */
export interface Origin {
  address: string;
  certificate: ClientCertificate | undefined;
}

/** What a device logs in with; `fingerprint`: of its certificate, empty for a token. */
export interface DeviceCredential {
  username: string;
  password: string;
  fingerprint: string;
}

type Login = { deviceId: string; credential: DeviceCredential };

export function loginOf(
  { certificate }: Origin,
  username: string | undefined,
  password: string | undefined,
): Login | AuthenticateError {
  return certificate ? certifiedLogin(certificate, username) : tokenLogin(username, password);
}

function tokenLogin(username: string | undefined, password: string | undefined): Login | AuthenticateError {
  if (!username || !isUuid(username) || !password)
    return authenticateError(CONNACK.malformed, 'malformed user name or password');
  const deviceId = username.toLowerCase();
  return { deviceId, credential: { username: deviceId, password, fingerprint: '' } };
}

/** [C-3.3] Its name is in the certificate: a user name says the same or nothing, a password is ignored. */
function certifiedLogin(
  { commonName, fingerprint }: ClientCertificate,
  username: string | undefined,
): Login | AuthenticateError {
  const deviceId = commonName.toLowerCase();
  if (!isUuid(deviceId)) return authenticateError(CONNACK.refused, 'a certificate of no device');
  if (username && username.toLowerCase() !== deviceId)
    return authenticateError(CONNACK.refused, "another device's certificate");
  return { deviceId, credential: { username: deviceId, password: '', fingerprint } };
}

export function authenticateError(returnCode: number, message: string): AuthenticateError {
  return Object.assign(new Error(message), { returnCode });
}
