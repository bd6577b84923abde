/**
 * A read of one site under two paths with the same answer: for partners with an API key, and for members of the
 * organization with a session [C-2.6].
 */
import type { Context } from 'hono';
import type * as z from 'zod';
import type { Asker } from '../../../durable-objects/ask-rpc.ts';
import type { SiteStub } from '../../../durable-objects/env.ts';
import type { ApiErrorCode } from '../../../protocol/errors.ts';
import type { JsonText } from '../../../protocol/json-text.ts';
import { requirePlant, requireSite } from '../../auth/access.ts';
import type { Who } from '../../auth/door.ts';
import type { AppContext, Env } from '../../env.ts';
import { idParameter } from '../../http/query.ts';
import { siteById } from '../../lifecycle/device-site.ts';
import { type AnyRoute, route } from '../../route.ts';
import { siteParameters, VCP_READ } from './vcp-read.ts';

const MEMBERS: Who = { door: 'member', role: 'VIEWER' };

export interface Reader {
  asker: Asker;
  env: Env;
}

interface SiteRead<Path, Query, Answer> {
  /** The summary for a site; that for a plant says `plant` in its place. */
  summary: string;
  /** The parameters of the path below the site. */
  params?: z.ZodObject<z.ZodRawShape> & z.ZodType<Path>;
  query?: z.ZodObject<z.ZodRawShape> & z.ZodType<Query>;
  answer: { description: string; body: z.ZodType<Answer> };
  errors?: readonly ApiErrorCode[];
  /** Throws if the parameters do not fit together, before the site is looked up. */
  check?(query: Query): void;
  read(
    site: SiteStub,
    siteId: string,
    query: Query,
    reader: Reader,
    path: Path,
  ): Promise<Answer | JsonText | ReadableStream<Uint8Array>>;
}

/** The key of a request, as a Site needs to know it. */
export function askerOf(c: Context<AppContext>): Asker {
  const { partnerId, sees, slug } = c.get('apiKey');
  return { partnerId, sees, slug };
}

/** The routes of a read. `name`: the path below the site. */
export function siteRead<Path, Query, Answer>(
  name: string,
  definition: SiteRead<Path, Query, Answer>,
): AnyRoute[] {
  const { summary, params, query, answer, check, read, errors = [] } = definition;
  const asked = query ? { query } : {};
  const more = params?.shape ?? {};
  type Given = { params: unknown; query: Query };
  return [
    route(`GET /api/v1/vcp/sites/{siteId}/${name}`, {
      ...asked,
      ...{ summary, who: VCP_READ, params: siteParameters.extend(more), answer },
      errors: ['SITE_NOT_FOUND', ...errors],
      handler: async (c: Context<AppContext>, { params: path, query: given }: Given) => {
        check?.(given);
        const { siteId } = path as z.infer<typeof siteParameters>;
        const reader = { asker: askerOf(c), env: c.env };
        return await read(await requireSite(c, siteId), siteId, given, reader, path as Path);
      },
    }),
    route(`GET /api/v1/plants/{id}/${name}`, {
      ...asked,
      summary: summary.replace('a site', 'a plant'),
      ...{ who: MEMBERS, params: idParameter.extend(more), answer },
      errors: ['PLANT_NOT_FOUND', ...errors],
      handler: async (c: Context<AppContext>, { params: path, query: given }: Given) => {
        check?.(given);
        const { id } = await requirePlant(c, (path as z.infer<typeof idParameter>).id);
        const reader = { asker: 'member' as const, env: c.env };
        return await read(siteById(c.env, id), id, given, reader, path as Path);
      },
    }),
  ];
}
