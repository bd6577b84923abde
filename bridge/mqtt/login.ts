/** Who a client says that it is, by what its listener asks for: a token, or a certificate (spec: Device MQTT; [C-3.3]). */
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
 * A client id opens nothing and evicts nobody: each connection has its own, and no state of an earlier one. The error is
 * why it does not connect.
 */
export function prepareConnect(
  { conn }: Client,
  packet: ConnectPacket,
  { connection }: Origin,
): Error | undefined {
  if (!packet.clientId && !packet.clean) {
    // [MQTT-3.1.3-8] Aedes itself does not answer this one.
    conn.write(IDENTIFIER_REJECTED);
    return new Error('an empty client id with a kept session');
  }
  packet.clientId = connection;
  packet.clean = true;
  if (!packet.keepalive || packet.keepalive > LIMIT.mqttKeepAliveSeconds)
    packet.keepalive = LIMIT.mqttKeepAliveSeconds;
  return undefined;
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
