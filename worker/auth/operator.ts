/**
 * The operator of the deployment: the holder of one of OPERATOR_TOKEN, or a session of a SUPER_ADMIN. Only
 * the operator can create organizations for other people, and set ceilings [C-14.1], [C-14.2].
 */
import type { Context } from 'hono';
import { equalText, sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import type { Actor } from '../../registry/entries.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { requireUser } from './authenticate.ts';

const MIN_TOKEN_CHARACTERS = 32;

/** Sets the operator as the actor of the request; throws 401 or 403 for anybody else. */
export async function requireOperator(c: Context<AppContext>): Promise<void> {
  const tokens = tokensOf('OPERATOR_TOKEN', c.env.OPERATOR_TOKEN);
  if (isOneOf(tokens, bearerOf(c.req.raw.headers))) {
    c.set('operator', { type: 'SYSTEM', id: 'operator', name: 'The operator' });
    return;
  }
  const user = await requireUser(c);
  if (!user.row.superAdmin)
    throw new ApiError(
      'SUPER_ADMIN_REQUIRED',
      'Only the operator may do this: send one of OPERATOR_TOKEN as bearer token, or log in as a SUPER_ADMIN',
    );
  const actor: Actor = { type: 'USER', id: user.row.id, name: user.row.email };
  c.set('operator', actor);
}

/** The configured tokens. Throws if one of them is too short. */
export function tokensOf(name: string, setting = ''): string[] {
  if (setting.trim() === '') return [];
  const tokens = setting.split(',').map((token) => token.trim());
  if (tokens.some((token) => token.length < MIN_TOKEN_CHARACTERS))
    throw new Error(`each token in ${name} must have at least ${MIN_TOKEN_CHARACTERS} characters`);
  return tokens;
}

export function bearerOf(headers: Headers): string {
  return /^Bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '')?.[1] ?? '';
}

/**
 * Whether the shown token is one of the configured ones. Compares digests and always all of them, so that the
 * duration reveals nothing about the tokens.
 */
export function isOneOf(tokens: readonly string[], shown: string): boolean {
  const digest = sha256Hex(shown);
  return tokens.map((token) => equalText(sha256Hex(token), digest)).includes(true);
}

/**
 * Checks the bearer token of a request against configured tokens. Used for `GET /metrics`, which has its own
 * tokens.
 */
export function requireToken(tokens: readonly string[], headers: Headers, name: string): void {
  if (isOneOf(tokens, bearerOf(headers))) return;
  throw new ApiError('UNAUTHORIZED', `The bearer token is missing or wrong: send one of ${name}`, {
    headers: { 'www-authenticate': 'Bearer' },
  });
}
