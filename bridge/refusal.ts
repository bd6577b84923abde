/** What the edge's answer to an upgrade that it did not accept means (rule 7). */
import { ERROR_STATUS } from '../protocol/errors.ts';

/** A dial that gave no link: a refusal is the edge's own word; everything else that fails is trouble. */
export type NoLink =
  | { outcome: 'refused'; status: number; code: string; message: string }
  | { outcome: 'trouble'; reason: string };

/** Only a 401, 403 or 409 with a code of our envelope is a refusal; a firewall's HTML 403 is trouble. */
export function judgeRefusal(status: number, body: string): NoLink {
  const envelope = readEnvelope(body);
  if (envelope && [401, 403, 409].includes(status)) return { outcome: 'refused', status, ...envelope };
  return { outcome: 'trouble', reason: `the edge answered ${status}` };
}

function readEnvelope(body: string): { code: string; message: string } | undefined {
  try {
    const { code, message } = JSON.parse(body) as { code?: unknown; message?: unknown };
    if (typeof code !== 'string' || !Object.hasOwn(ERROR_STATUS, code)) return undefined;
    return { code, message: typeof message === 'string' ? message : '' };
  } catch {
    return undefined;
  }
}
