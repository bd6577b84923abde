/** The envelope shared by all publishes and events (spec: Command payloads; [C-7.1]). */
import { z } from 'zod';
import { isDeeperThan, sliceMembers } from './compact-json.ts';
import { instant, uuid } from './ids.ts';
import { allIssues, faultsText } from './issue.ts';
import { LIMIT } from './limits.ts';
import { ok, type Result, refuse } from './result.ts';

export const VCP_VERSION = '1.1';
/** `source` of everything that we send. */
export const SOURCE = 'sitewire';

export const envelopeFields = z.object({
  version: z.string().regex(/^1\.\d{1,4}$/, 'must be 1.x'),
  messageId: z.string().pipe(uuid).meta({ format: 'uuid' }),
  correlationId: z.string().max(LIMIT.envelopeTextCharacters).optional(),
  timestamp: instant,
  source: z.string().max(LIMIT.envelopeTextCharacters),
  siteId: z.string().min(1).max(64),
  /** Anything that is there must verify; what is no text never will. */
  signature: z
    .unknown()
    .transform((value) => (typeof value === 'string' ? value : ''))
    .optional(),
});

export interface Envelope extends z.infer<typeof envelopeFields> {
  /** The messageId as the sender spelled it: that spelling is signed. */
  messageIdText: string;
  /** The raw text of `payload`, an object. */
  payloadText: string;
}

/**
 * Reads an envelope out of a message body. The refusal says all that is wrong with it. Fields that the
 * version 1.x may add are ignored; the payload is not looked at beyond being an object.
 */
export function parseEnvelope(body: string): Result<Envelope, string> {
  if (isDeeperThan(body, LIMIT.envelopeDepth)) return refuse(`nested deeper than ${LIMIT.envelopeDepth}`);
  const members = sliceMembers(body);
  if (!members.ok) return members;
  const payloadText = members.value.get('payload');
  const raw: Record<string, unknown> = {};
  for (const name of Object.keys(envelopeFields.shape)) {
    const text = members.value.get(name);
    if (text !== undefined && text !== 'null') raw[name] = JSON.parse(text);
  }
  const parsed = envelopeFields.safeParse(raw);
  if (parsed.success && payloadText?.startsWith('{')) {
    return ok({ ...parsed.data, messageIdText: String(raw.messageId), payloadText });
  }
  const faults = parsed.success ? [] : allIssues(parsed.error);
  return refuse(
    faultsText(payloadText?.startsWith('{') ? faults : [...faults, 'payload: must be an object']),
  );
}
