/** Configuration of a plant on the admin surface [C-2.3]. The plant's Site stores it and checks If-Match. */
import type { Context } from 'hono';
import type { SiteStub } from '../../../durable-objects/env.ts';
import { includesRole } from '../../../protocol/enums.ts';
import { siteConfig, siteConfigRequest } from '../../../protocol/site-config.ts';
import { writeAudit } from '../../../registry/audit.ts';
import { requirePlant } from '../../auth/access.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import type { AppContext } from '../../env.ts';
import { ApiError } from '../../http/error-response.ts';
import { idParameter } from '../../http/query.ts';
import { siteById } from '../../lifecycle/device-site.ts';
import { route } from '../../route.ts';

const LIMITS = { maxChargeKw: 50, maxDischargeKw: 50, minSocPercent: 10, maxSocPercent: 95 };

export const plantConfigRoutes = [
  route('GET /api/v1/plants/{id}/config', {
    summary: 'Get the configuration of a plant',
    who: { door: 'member', role: 'VIEWER', scope: 'config:read' },
    params: idParameter,
    answer: { description: 'The configuration', body: siteConfig },
    hasTag: true,
    errors: ['PLANT_NOT_FOUND'],
    handler: async (c, { params }) => {
      const site = await siteOfPlant(c, params.id);
      const { config, etag } = await site.readConfiguration(params.id);
      c.header('etag', etag);
      return config;
    },
  }),
  route('PUT /api/v1/plants/{id}/config', {
    summary: 'Set the configuration of a plant',
    who: { door: 'member', role: 'ADMIN', scope: 'config:write' },
    params: idParameter,
    body: siteConfigRequest,
    examples: {
      body: {
        constraints: { maxImportKw: 120, maxExportKw: 90, ...LIMITS, maxRampKwPerMinute: null },
        fallback: { mode: 'STANDARD', afterSeconds: 300, action: 'MODE', setpointKw: null },
        operatingMode: 'STANDARD',
      },
    },
    answer: {
      description: 'The configuration, now in force. `hardLimits` change only if an ORG_ADMIN includes them',
      body: siteConfig,
    },
    hasTag: true,
    errors: ['PLANT_NOT_FOUND', 'CONFLICT', 'FORBIDDEN', 'INSUFFICIENT_ORG_PERMISSIONS'],
    errorStatuses: { CONFLICT: 412 },
    handler: async (c, { params, body }) => {
      const site = await siteOfPlant(c, params.id);
      const { role, actor } = c.get('tenant');
      const answer = await site.putConfiguration(params.id, {
        config: body,
        ifMatch: ifMatchOf(c.req.header('if-match')),
        mayChangeHardLimits: role !== null && includesRole(role, 'ORG_ADMIN'),
        // Partners see `source` in the command log, so it must not be the user's e-mail address.
        source: actor.type === 'USER' ? 'admin' : actor.name,
      });
      if (answer.refused === 'stale') {
        const message =
          'The configuration has changed since you read it: read it again, and send its new ETag';
        throw new ApiError('CONFLICT', message, { status: 412 });
      }
      if (answer.refused === 'hard-limits') {
        const code = role === null ? 'FORBIDDEN' : 'INSUFFICIENT_ORG_PERMISSIONS';
        throw new ApiError(code, 'hardLimits: only an ORG_ADMIN may change it: omit it');
      }
      const audit = auditEntry(
        c,
        'plant.config_updated',
        { type: 'PLANT', id: params.id },
        { ...answer.config },
      );
      await writeAudit(c.env.DB, audit, Date.now());
      c.header('etag', answer.etag);
      return answer.config;
    },
  }),
];

async function siteOfPlant(c: Context<AppContext>, plantId: string): Promise<SiteStub> {
  await requirePlant(c, plantId);
  return siteById(c.env, plantId);
}

/** Returns the tags of `If-Match`; null when every version matches. A weak tag never matches (RFC 9110). */
function ifMatchOf(header: string | undefined): string[] | null {
  if (header === undefined || header.trim() === '*') return null;
  return header.split(',').map((tag) => tag.trim());
}
