/** Certificates of devices as the listener on 8883 sees them: the proof of a dial has their fingerprint. */
import 'reflect-metadata';
import * as x509 from '@peculiar/x509';
import { dialMqtt } from './door.ts';

export interface Issued {
  certificate: string;
  certificateExpiresAt: string;
  privateKey?: string;
}

/** SHA-256 in lower-case hex. */
export async function fingerprintOf(pem: string): Promise<string> {
  const print = await new x509.X509Certificate(pem).getThumbprint('SHA-256');
  return [...new Uint8Array(print)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The answer to a dial with this certificate. */
export async function dialWith(id: string, pem: string, password = ''): Promise<Response> {
  return await dialMqtt(id, password, { proof: { fingerprint: await fingerprintOf(pem) } });
}
