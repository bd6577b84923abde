/** The export of a plant's decisions and their inputs [C-13.4]. */
import type { Context } from 'hono';
import * as z from 'zod';
import type { ExportPart } from '../../../durable-objects/ask-rpc.ts';
import type { SiteStub } from '../../../durable-objects/env.ts';
import { sha256Hex } from '../../../durable-objects/secrets/hmac.ts';
import { chainedText, EXPORT_TYPE, NO_LINE } from '../../../protocol/export.ts';
import { writeAudit } from '../../../registry/audit.ts';
import { requirePlant } from '../../auth/access.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import type { Who } from '../../auth/door.ts';
import type { AppContext } from '../../env.ts';
import { idParameter, instantParameter, requireRange, requireSpan } from '../../http/query.ts';
import { siteById } from '../../lifecycle/device-site.ts';
import { route } from '../../route.ts';

const ADMIN: Who = { door: 'member', role: 'ADMIN' };
const MOST = { spanMs: 7 * 24 * 60 * 60_000, fits: 'export a week at a time' };
const HEADERS = { 'content-type': EXPORT_TYPE };

export const plantExportRoutes = [
  route('GET /api/v1/plants/{id}/export', {
    summary: 'Export what was decided about a plant, and why',
    who: ADMIN,
    params: idParameter,
    query: z.object({ from: instantParameter, to: instantParameter }),
    answer: {
      description:
        'A line of JSON for each command, each change of the plan and each moment with readings in [from, to). Each line ends with the SHA-256 of the one before; the audit event `plant.exported` has that of the last. `npm run sitewire -- replay` checks the file and decides everything again',
      body: z.string(),
      contentType: EXPORT_TYPE,
    },
    errors: ['PLANT_NOT_FOUND'],
    handler: async (c, { params, query: { from, to } }) => {
      requireRange(from, to);
      requireSpan(from, to, MOST);
      const { id } = await requirePlant(c, params.id);
      if (c.req.method === 'HEAD') return new Response(null, { headers: HEADERS });
      // What is still to come is not in the file.
      const endMs = Math.max(from + 1, Math.min(to, Date.now()));
      return new Response(await streamOf(c, siteById(c.env, id), id, from, endMs), { headers: HEADERS });
    },
  }),
];

/** Reads a part when the client has read the one before. Throws if the first part cannot be read. */
async function streamOf(
  c: Context<AppContext>,
  site: SiteStub,
  siteId: string,
  fromMs: number,
  toMs: number,
): Promise<ReadableStream<Uint8Array>> {
  const encoder = new TextEncoder();
  let prev = NO_LINE;
  let count = 0;
  const chained = (line: object): string => {
    const text = chainedText(line, prev);
    prev = sha256Hex(text);
    count += 1;
    return `${text}\n`;
  };
  const read = async (partMs: number, isFirst: boolean): Promise<ExportPart> => {
    const query = { fromMs: partMs, toMs, ...(isFirst ? { isFirst: true as const } : {}) };
    const ask = () => site.ask({ kind: 'export', siteId, query });
    // One object reload must not lose a long export.
    const text = isFirst ? await ask() : await ask().catch(ask);
    return JSON.parse(text ?? '');
  };
  const audit = async (isComplete: boolean): Promise<void> => {
    const details = { fromMs, toMs, lines: count, sha256: prev, complete: isComplete };
    const entry = auditEntry(c, 'plant.exported', { type: 'PLANT', id: siteId }, details);
    await writeAudit(c.env.DB, entry, Date.now());
  };
  let part: ExportPart = await read(fromMs, true);
  return new ReadableStream({
    pull: async (controller) => {
      const texts = part.lines.map((line) => chained(JSON.parse(line)));
      if (part.nextMs === null) {
        texts.push(chained({ kind: 'end', lines: count + 1 }));
        // Nobody has a whole file whose hash is not in the audit log.
        await audit(true);
      }
      controller.enqueue(encoder.encode(texts.join('')));
      if (part.nextMs === null) controller.close();
      else part = await read(part.nextMs, false);
    },
    // The client left with a part of the file.
    cancel: async () => {
      await audit(false);
    },
  });
}
