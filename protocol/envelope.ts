/** The envelope shared by all publishes and events (spec: Command payloads; [C-7.1]). */
import * as z from 'zod';
import { isDeeperThan, sliceMembers } from './compact-json.ts';
import { instant, uuid } from './ids.ts';
import { allIssues, faultsText } from './issue.ts';
import { LIMIT } from './limits.ts';
import { ok, type Result, refuse } from './result.ts';
import { plainText } from './text.ts';
import { withoutMark } from './utf8.ts';

export const VCP_VERSION = '1.1';
/** `source` of every event that we send. */
export const SOURCE = 'sitewire';

export const envelopeFields = z.object({
  version: z.string().regex(/^1\.\d{1,4}$/, 'must be 1.x'),
  messageId: z.string().pipe(uuid).meta({ format: 'uuid' }),
  correlationId: plainText.max(LIMIT.envelopeTextCharacters).optional(),
  timestamp: instant,
  source: plainText.max(LIMIT.envelopeTextCharacters),
  siteId: z.string().min(1).max(64),
  /** A present signature must verify. A value that is not a string becomes '', which never verifies. */
  signature: z
    .unknown()
    .transform((value) => (typeof value === 'string' ? value : ''))
    .optional(),
});

export interface Envelope extends z.infer<typeof envelopeFields> {
  /** The messageId in the sender's spelling, which is what the signature covers. */
  messageIdText: string;
  /** The raw JSON text of `payload`, which is an object. */
  payloadText: string;
}

/**
 * Parses the envelope of a message body. The refusal lists the faults, up to a limit. Unknown fields are
 * ignored, because a version 1.x may add some. The payload is only checked to be an object.
 */
export function parseEnvelope(text: string): Result<Envelope, string> {
  const body = withoutMark(text);
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
