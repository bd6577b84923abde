/** The identity that a client claims, by token or by certificate (spec: Device MQTT; [C-3.3]). */
import type { AuthenticateError, Client, ConnectPacket } from 'aedes';
import { isUuid } from '../../protocol/ids.ts';
import { LIMIT } from '../../protocol/limits.ts';
import type { ClientCertificate } from '../tls.ts';
import type { Origin } from './origins.ts';

/** MQTT 3.1.1 return codes of CONNACK (spec: Broker and device errors). */
export const CONNACK = { unavailable: 3, malformed: 4, refused: 5 } as const;

/** CONNACK with return code 2. */
const IDENTIFIER_REJECTED = Buffer.from([0x20, 2, 0, 2]);

/**
 * Replaces the client id and drops stored session state: a client id grants nothing and evicts no other
 * session. Returns an error if the client may not connect.
 */
export function prepareConnect(
  { conn }: Client,
  packet: ConnectPacket,
  { connection }: Origin,
): Error | undefined {
  if (!packet.clientId && !packet.clean) {
    // [MQTT-3.1.3-8] Aedes itself does not answer this case.
    conn.write(IDENTIFIER_REJECTED);
    return new Error('an empty client id requires a clean session');
  }
  packet.clientId = connection;
  packet.clean = true;
  if (!packet.keepalive || packet.keepalive > LIMIT.mqttKeepAliveSeconds)
    packet.keepalive = LIMIT.mqttKeepAliveSeconds;
  return undefined;
}

/** The credential of a device; `fingerprint` is that of its certificate, empty with a token. */
export interface DeviceCredential {
  username: string;
  password: string;
  fingerprint: string;
}

/** Of a user name that is not that of the certificate. */
const MAX_CLAIMED_CHARS = 100;

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

/**
 * [C-3.3] The certificate names the device: a user name must match or be absent, a password is ignored. The user name
 * takes the place of the password, so that the edge records one that does not match.
 */
function certifiedLogin(
  { commonName, fingerprint }: ClientCertificate,
  username: string | undefined,
): Login | AuthenticateError {
  const deviceId = commonName.toLowerCase();
  if (!isUuid(deviceId))
    return authenticateError(CONNACK.refused, 'the common name of the certificate is not a device id');
  const claimed = (username ?? '').toLowerCase().slice(0, MAX_CLAIMED_CHARS);
  const password = claimed === deviceId ? '' : claimed;
  return { deviceId, credential: { username: deviceId, password, fingerprint } };
}

export function authenticateError(returnCode: number, message: string): AuthenticateError {
  return Object.assign(new Error(message), { returnCode });
}
