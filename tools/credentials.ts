/** The secrets of a development stack: made once per data folder, kept readable by their owner alone. */
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { importJWK, type JWK, SignJWT } from 'jose';
import { composeApiKey } from '../protocol/api-key.ts';
import { topicPermissions } from '../protocol/topics.ts';

export interface StackCredentials {
  bridgeSecret: string;
  dataKeys: string;
  tokenPrivateKey: JWK;
  tokenPublicKey: JWK;
  admin: { id: string; email: string; password: string };
  organization: { id: string; slug: string };
  apiKey: { id: string; key: string; signingKey: string };
  plantId: string;
  gateway: { id: string; hmacSecret: string };
}

export function ensureCredentials(folder: string): StackCredentials {
  const file = join(folder, 'credentials.json');
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')) as StackCredentials;
  const credentials = makeCredentials('acme');
  writeFileSync(file, JSON.stringify(credentials, null, 2), { mode: 0o600 });
  chmodSync(file, 0o600);
  return credentials;
}

export function makeCredentials(slug: string): StackCredentials {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  return {
    bridgeSecret: randomBytes(32).toString('hex'),
    dataKeys: `1:${randomBytes(32).toString('hex')}`,
    tokenPrivateKey: privateKey.export({ format: 'jwk' }) as JWK,
    tokenPublicKey: publicKey.export({ format: 'jwk' }) as JWK,
    admin: {
      id: randomUUID(),
      email: `admin@${slug}.example`,
      password: randomBytes(12).toString('base64url'),
    },
    organization: { id: randomUUID(), slug },
    apiKey: {
      id: randomUUID(),
      key: composeApiKey(randomBytes(64)),
      signingKey: randomBytes(32).toString('hex'),
    },
    plantId: randomUUID(),
    gateway: { id: randomUUID(), hmacSecret: randomBytes(32).toString('hex') },
  };
}

/** An MQTT token as provisioning will issue it (spec: Device MQTT; [C-3.6]). */
export async function signDeviceToken(
  privateKey: JWK,
  deviceId: string,
  lifetimeSeconds: number,
): Promise<string> {
  const key = await importJWK(privateKey, 'EdDSA');
  return new SignJWT({ ...topicPermissions(deviceId) })
    .setProtectedHeader({ alg: 'EdDSA' })
    .setIssuer('sitewire')
    .setAudience('mqtt')
    .setSubject(deviceId)
    .setIssuedAt()
    .setExpirationTime(`${lifetimeSeconds}s`)
    .sign(key);
}
