/**
 * The cookies of a browser's session, which scripts in pages cannot read [C-1.4]: the access token, and the refresh token,
 * which the browser sends only to the path that takes it.
 */
import type { Context } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { LIMIT } from '../../protocol/limits.ts';
import type { AppContext } from '../env.ts';

const NAME = 'access_token';
const REFRESH_NAME = 'refresh_token';
const REFRESH_PATH = '/api/v1/auth/refresh';

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

export function readRefreshCookie(c: Context<AppContext>): string | undefined {
  return getCookie(c, REFRESH_NAME);
}

export function setRefreshCookie(c: Context<AppContext>, refreshToken: string): void {
  setCookie(c, REFRESH_NAME, refreshToken, {
    httpOnly: true,
    secure: true,
    sameSite: 'Strict',
    path: REFRESH_PATH,
    maxAge: LIMIT.refreshTokenMs / 1_000,
  });
}

export function deleteSessionCookies(c: Context<AppContext>): void {
  deleteCookie(c, NAME, { path: '/', secure: true });
  deleteCookie(c, REFRESH_NAME, { path: REFRESH_PATH, secure: true });
}
