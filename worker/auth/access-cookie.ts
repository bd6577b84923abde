/**
 * The cookie of a browser's session. It contains only the access token, and scripts in pages cannot read it
 * [C-1.4].
 */
import type { Context } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { LIMIT } from '../../protocol/limits.ts';
import type { AppContext } from '../env.ts';

const NAME = 'access_token';

export function readAccessCookie(c: Context<AppContext>): string | undefined {
  return getCookie(c, NAME);
}

export function setAccessCookie(c: Context<AppContext>, accessToken: string): void {
  setCookie(c, NAME, accessToken, {
    httpOnly: true,
    secure: true,
    sameSite: 'Lax',
    path: '/',
    maxAge: LIMIT.accessTokenMs / 1_000,
  });
}

export function deleteAccessCookie(c: Context<AppContext>): void {
  deleteCookie(c, NAME, { path: '/', secure: true });
}
