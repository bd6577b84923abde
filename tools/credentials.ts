/** The secrets of a development stack: made once per data folder, kept readable by their owner alone. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { firstIssue } from '../protocol/issue.ts';
import type { EdgeSecrets } from './edge.ts';

const stackSecrets = z.object({
  bridgeSecret: z.string().min(32),
  dataKeys: z.string(),
  // Folders of before have none.
  sessionSecret: z
    .string()
    .min(32)
    .default(() => randomBytes(32).toString('hex')),
  /** A JWK set: folders of before have one key, under other names. */
  tokenKeys: z.string().default(() => makeTokenKeys()),
  metricsToken: z
    .string()
    .min(32)
    .default(() => randomBytes(32).toString('hex')),
  admin: z.object({ email: z.email(), password: z.string() }),
  organization: z.object({ slug: z.string() }),
});
export type StackSecrets = z.infer<typeof stackSecrets>;

/** What the platform gave when the stack was seeded. */
export interface Seeded {
  organization: { id: string; slug: string };
  apiKey: { id: string; key: string; signingKey: string };
  plantId: string;
  /** The plant's gateway, which provisions itself. */
  gatewayId: string;
}

export type StackCredentials = StackSecrets & Seeded;

/** Throws a sentence for a person when what is there is broken: new ones would not open what they once opened. */
export function ensureSecrets(folder: string): StackSecrets {
  const file = join(folder, 'credentials.json');
  const secrets = existsSync(file) ? readSecrets(file, folder) : makeSecrets('acme');
  writeSecretFile(file, secrets);
  return secrets;
}

/** Whole or not at all, readable by its owner alone. */
export function writeSecretFile(file: string, content: object): void {
  writeFileSync(`${file}.new`, JSON.stringify(content, null, 2), { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

function readSecrets(file: string, folder: string): StackSecrets {
  try {
    return stackSecrets.parse(JSON.parse(readFileSync(file, 'utf8')));
  } catch (error) {
    throw new Error(`${file} is broken (${reasonOf(error)}): mend it, or remove ${folder} to begin anew`);
  }
}

/** Without the text itself, which a parser would quote: it is secret. */
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
    admin: {
      email: `admin@${slug}.example`,
      password: randomBytes(12).toString('base64url'),
    },
    organization: { slug },
  };
}

/** A JWK set of one private key, as TOKEN_KEYS has it. */
export function makeTokenKeys(): string {
  const { privateKey } = generateKeyPairSync('ed25519');
  return JSON.stringify({ keys: [privateKey.export({ format: 'jwk' })] });
}

/** What an edge is configured with. */
export function edgeSecrets(secrets: StackSecrets): EdgeSecrets {
  const { bridgeSecret, dataKeys, sessionSecret, tokenKeys, metricsToken } = secrets;
  return { bridgeSecret, dataKeys, sessionSecret, tokenKeys, metricsToken };
}
