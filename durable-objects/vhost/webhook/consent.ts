/** A receiver agrees to get messages: its answer to `webhook.verify` has the challenge of this message [C-15.3]. */

/** Whether an answer is the challenge, or a JSON object whose own field `challenge` is. */
export function consents(answer: string | null, challenge: string): boolean {
  const text = answer?.trim() ?? '';
  if (text === challenge) return true;
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) && value.challenge === challenge;
  } catch {
    return false;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'challenge');
}
