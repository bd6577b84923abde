/**
 * The hosts of a development stack [C-15.7]: a page of another site can give its own name to this machine, and would then
 * read the stack from a browser here. A deployment has no such list, because only its own domain reaches it.
 */
import type { MiddlewareHandler } from 'hono';
import type { AppContext } from '../env.ts';
import { ApiError } from './error-response.ts';

/** The name in a Host header, without its port. */
const NAME = /^(\[[^\]]*\]|[^:]*)(:\d*)?$/;

export const requireAllowedHost: MiddlewareHandler<AppContext> = async (c, next) => {
  const { ALLOWED_HOSTS } = c.env;
  if (ALLOWED_HOSTS !== undefined && !ALLOWED_HOSTS.split(',').includes(nameOf(c.req.header('host') ?? '')))
    throw new ApiError('BAD_REQUEST', `This stack answers only to ${ALLOWED_HOSTS.replaceAll(',', ', ')}`, {
      status: 421,
    });
  await next();
};

function nameOf(host: string): string {
  return NAME.exec(host.toLowerCase())?.[1] ?? '';
}
