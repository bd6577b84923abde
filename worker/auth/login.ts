/** The answer that opens or continues a session: its tokens, and their cookies [C-1.4]. */
import type { Context } from 'hono';
import { LIMIT } from '../../protocol/limits.ts';
import type { BrowserAnswer, LoginAnswer } from '../../protocol/user.ts';
import { membershipsOf, type UserRow, userRecordOf } from '../../registry/users.ts';
import type { AppContext } from '../env.ts';
import { setAccessCookie, setRefreshCookie } from './access-cookie.ts';
import { signAccessToken, signRefreshToken } from './session-tokens.ts';

export async function answerLogin(
  c: Context<AppContext>,
  user: UserRow,
  session: { sessionId: string; generation: number },
  now: number,
): Promise<LoginAnswer> {
  const { SESSION_SECRET, DB } = c.env;
  const access = { userId: user.id, sessionId: session.sessionId, tokenVersion: user.tokenVersion };
  const accessToken = await signAccessToken(SESSION_SECRET, access, now);
  const own = await membershipsOf(DB, user.id);
  const refreshToken = signRefreshToken(SESSION_SECRET, session);
  setAccessCookie(c, accessToken);
  setRefreshCookie(c, refreshToken);
  const [only, ...others] = own;
  return {
    user: userRecordOf(user, own, only && others.length === 0 ? only.role : null),
    accessToken,
    tokenType: 'Bearer',
    expiresIn: LIMIT.accessTokenMs / 1_000,
    refreshToken,
  };
}

/** The answer for a page of our own, whose cookies have the tokens: a script of the page must not read them [C-1.4]. */
export function forBrowser(c: Context<AppContext>, answer: LoginAnswer): BrowserAnswer {
  return c.req.header('sec-fetch-site') === 'same-origin' ? withoutTokens(answer) : answer;
}

export function withoutTokens({
  accessToken: _access,
  refreshToken: _refresh,
  ...rest
}: LoginAnswer): BrowserAnswer {
  return rest;
}
