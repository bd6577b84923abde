/**
 * A read of one site under two paths with the same answer: for partners with an API key, and for members of the
 * organization with a session [C-2.6].
 */
import type * as z from 'zod';
import type { SiteStub } from '../../../durable-objects/env.ts';
import type { JsonText } from '../../../protocol/json-text.ts';
import { requirePlant, requireSite } from '../../auth/access.ts';
import type { Who } from '../../auth/door.ts';
import { idParameter } from '../../http/query.ts';
import { siteById } from '../../lifecycle/device-site.ts';
import { type AnyRoute, route } from '../../route.ts';
import { siteParameters, VCP_READ } from './vcp-read.ts';

const MEMBERS: Who = { door: 'member', role: 'VIEWER' };

interface SiteRead<Query, Answer> {
  /** The summary for a site; that for a plant says `plant` in its place. */
  summary: string;
  query?: z.ZodObject<z.ZodRawShape> & z.ZodType<Query>;
  answer: { description: string; body: z.ZodType<Answer> };
  /** Throws if the parameters do not fit together, before the site is looked up. */
  check?(query: Query): void;
  /** `isMember`: the caller is a member of the organization, and not a partner. */
  read(
    site: SiteStub,
    siteId: string,
    query: Query,
    isMember: boolean,
  ): Promise<Answer | JsonText | ReadableStream<Uint8Array>>;
}

/** The routes of a read. `name`: the path below the site. */
export function siteRead<Query, Answer>(name: string, definition: SiteRead<Query, Answer>): AnyRoute[] {
  const { summary, query, answer, check, read } = definition;
  const asked = query ? { query } : {};
  return [
    route(`GET /api/v1/vcp/sites/{siteId}/${name}`, {
      ...asked,
      summary,
      who: VCP_READ,
      params: siteParameters,
      answer,
      errors: ['SITE_NOT_FOUND'],
      handler: async (c, { params: { siteId }, query: given }) => {
        check?.(given);
        return await read(await requireSite(c, siteId), siteId, given, false);
      },
    }),
    route(`GET /api/v1/plants/{id}/${name}`, {
      ...asked,
      summary: summary.replace('a site', 'a plant'),
      who: MEMBERS,
      params: idParameter,
      answer,
      errors: ['PLANT_NOT_FOUND'],
      handler: async (c, { params, query: given }) => {
        check?.(given);
        const { id } = await requirePlant(c, params.id);
        return await read(siteById(c.env, id), id, given, true);
      },
    }),
  ];
}
