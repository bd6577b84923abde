/** The secrets of a development stack: generated once per data folder, in files that only their owner can read. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { firstIssue } from '../protocol/issue.ts';
import { email } from '../protocol/user.ts';
import type { EdgeSecrets } from './edge.ts';

const stackSecrets = z.object({
  bridgeSecret: z.string().min(32),
  dataKeys: z.string(),
  sessionSecret: z.string().min(32),
  /** A JWK set. */
  tokenKeys: z.string(),
  metricsToken: z.string().min(32),
  operatorToken: z.string().min(32),
  admin: z.object({ email: email, password: z.string() }),
  organization: z.object({ slug: z.string() }),
});
export type StackSecrets = z.infer<typeof stackSecrets>;

/** What seeding the stack has created. */
export interface Seeded {
  organization: { id: string; slug: string };
  apiKey: { id: string; key: string; signingKey: string };
  plantId: string;
  /** The plant's gateway. It is registered here; the simulator provisions it. */
  gatewayId: string;
}

export type StackCredentials = StackSecrets & Seeded;

/** Throws a message for the user if the stored secrets are invalid: new ones could not decrypt the stored data. */
export function ensureSecrets(folder: string): StackSecrets {
  const file = join(folder, 'credentials.json');
  const secrets = existsSync(file) ? readSecrets(file, folder) : makeSecrets('acme');
  writeSecretFile(file, secrets);
  return secrets;
}

/** Writes the whole file or nothing. Only its owner can read it. */
export function writeSecretFile(file: string, content: object): void {
  writeFileSync(`${file}.new`, JSON.stringify(content, null, 2), { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

function readSecrets(file: string, folder: string): StackSecrets {
  try {
    return stackSecrets.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch (error) {
    throw new Error(
      `${file} is invalid (${reasonOf(error)}): fix it, or delete ${folder} to start with a new stack`,
    );
  }
}

/** The reason without the file's text: a parser's message would quote secrets. */
function reasonOf(error: unknown): string {
  if (error instanceof SyntaxError) return 'not JSON';
  return error instanceof z.ZodError ? firstIssue(error) : String((error as Error).message);
}

export function makeSecrets(slug: string): StackSecrets {
  return {
    bridgeSecret: randomBytes(32).toString('hex'),
    dataKeys: `1:${randomBytes(32).toString('hex')}`,
    sessionSecret: randomBytes(32).toString('hex'),
    tokenKeys: makeTokenKeys(),
    metricsToken: randomBytes(32).toString('hex'),
    operatorToken: randomBytes(32).toString('hex'),
    admin: {
      email: `admin@${slug}.example`,
      password: randomBytes(12).toString('base64url'),
    },
    organization: { slug },
  };
}

/** A JWK set with one new private key, in the form that TOKEN_KEYS takes. */
export function makeTokenKeys(): string {
  const { privateKey } = generateKeyPairSync('ed25519');
  return JSON.stringify({ keys: [privateKey.export({ format: 'jwk' })] });
}

/** The subset of the secrets that the edge is configured with. */
export function edgeSecrets(secrets: StackSecrets): EdgeSecrets {
  const { bridgeSecret, dataKeys, sessionSecret, tokenKeys, metricsToken, operatorToken } = secrets;
  return { bridgeSecret, dataKeys, sessionSecret, tokenKeys, metricsToken, operatorToken };
}
