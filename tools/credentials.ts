/** The secrets of a development stack: made once per data folder, kept readable by their owner alone. */
import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { importJWK, type JWK, SignJWT } from 'jose';
import { z } from 'zod';
import { composeApiKey } from '../protocol/api-key.ts';
import { firstIssue } from '../protocol/issue.ts';
import { topicPermissions } from '../protocol/topics.ts';

const publicKey = z.object({ kty: z.literal('OKP'), crv: z.literal('Ed25519'), x: z.string() });
const hex = z.string().regex(/^[0-9a-f]{64}$/, 'not 64 hex characters');

const stackCredentials = z.object({
  bridgeSecret: z.string().min(32),
  dataKeys: z.string(),
  tokenPrivateKey: publicKey.extend({ d: z.string() }),
  tokenPublicKey: publicKey,
  admin: z.object({ id: z.uuid(), email: z.email(), password: z.string() }),
  organization: z.object({ id: z.uuid(), slug: z.string() }),
  apiKey: z.object({ id: z.uuid(), key: z.string(), signingKey: hex }),
  plantId: z.uuid(),
  gateway: z.object({ id: z.uuid(), hmacSecret: hex }),
});
export type StackCredentials = z.infer<typeof stackCredentials>;

/** Throws a sentence for a person when what is there is broken: new ones would not open what they once opened. */
export function ensureCredentials(folder: string): StackCredentials {
  const file = join(folder, 'credentials.json');
  if (existsSync(file)) return readCredentials(file, folder);
  const credentials = makeCredentials('acme');
  writeFileSync(`${file}.new`, JSON.stringify(credentials, null, 2), { mode: 0o600 });
  renameSync(`${file}.new`, file);
  return credentials;
}

function readCredentials(file: string, folder: string): StackCredentials {
  try {
    return stackCredentials.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch (error) {
    throw new Error(`${file} is broken (${reasonOf(error)}): mend it, or remove ${folder} to begin anew`);
  }
}

/** Without the text itself, which a parser would quote: it is secret. */
function reasonOf(error: unknown): string {
  if (error instanceof SyntaxError) return 'not JSON';
  return error instanceof z.ZodError ? firstIssue(error) : String((error as Error).message);
}

export function makeCredentials(slug: string): StackCredentials {
  const pair = generateKeyPairSync('ed25519');
  return {
    bridgeSecret: randomBytes(32).toString('hex'),
    dataKeys: `1:${randomBytes(32).toString('hex')}`,
    tokenPrivateKey: pair.privateKey.export({ format: 'jwk' }) as StackCredentials['tokenPrivateKey'],
    tokenPublicKey: pair.publicKey.export({ format: 'jwk' }) as StackCredentials['tokenPublicKey'],
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
