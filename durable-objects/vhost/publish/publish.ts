/** Converts a publish frame to a submission, and a Site's answer to confirms. Pure. */
import { signableJson } from '../../../protocol/compact-json.ts';
import { cut } from '../../../protocol/cut.ts';
import { type Envelope, parseEnvelope } from '../../../protocol/envelope.ts';
import { parseInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { PublishFrame } from '../../../protocol/link/vhost.ts';
import { type Result, refuse } from '../../../protocol/result.ts';
import {
  type CommandFamily,
  FAMILY_RULES,
  isRoutingKey,
  ROUTING_KEY_RULE,
} from '../../../protocol/routing-keys.ts';
import type { SignatureVerdict } from '../../../protocol/signing.ts';
import { envelopeSigningString, SIGNATURE } from '../../../protocol/signing.ts';
import type { PassingEvent, Submission } from '../../rpc.ts';
import { derivedUuid, verifyHmac } from '../../secrets/hmac.ts';
import type { Answers } from '../delivery/outflow.ts';
import type { Pending } from './lanes.ts';

/** Parses the envelope of a publish; fails with the reason if it or the routing key is malformed. */
export function readEnvelope(frame: PublishFrame): Result<Envelope, string> {
  if (!isRoutingKey(frame.routingKey)) return refuse(`routing key: ${ROUTING_KEY_RULE}`);
  return frame.encoding === 'base64' ? refuse('not UTF-8') : parseEnvelope(frame.body);
}

export function toSubmission(
  envelope: Envelope,
  routingKey: string,
  family: CommandFamily,
  signature: SignatureVerdict,
): Submission {
  return {
    messageId: envelope.messageId,
    correlationId: envelope.correlationId ?? null,
    source: envelope.source,
    timestampMs: parseInstant(envelope.timestamp) ?? 0,
    routingKey,
    family,
    payloadText: envelope.payloadText,
    signature,
  };
}

/**
 * Checks a signature wherever there is one [C-7.2]. `isRequired`: the command family or the organization
 * requires it.
 */
export function judgeSignature(
  envelope: Envelope,
  routingKey: string,
  signingKey: string,
  isRequired: boolean,
): SignatureVerdict {
  if (envelope.signature === undefined) return isRequired ? 'missing' : 'not-needed';
  const text = signedText(envelope, routingKey);
  return text !== undefined && verifyHmac(signingKey, text, envelope.signature) ? 'valid' : 'mismatch';
}

/** A hint for the sender of a mismatching signature: the text that had to be signed, but nothing about the key. */
export function signatureHint(envelope: Envelope, routingKey: string): string {
  const text = signedText(envelope, routingKey);
  if (text === undefined) return 'a field that contains | cannot be signed';
  const form = SIGNATURE.test(envelope.signature ?? '')
    ? ''
    : 'a signature is 64 lower-case hex characters; ';
  return `${form}signed over: ${cut(text, LIMIT.signatureHintCharacters)}`;
}

function signedText(envelope: Envelope, routingKey: string): string | undefined {
  const signed = { ...envelope, messageId: envelope.messageIdText };
  return envelopeSigningString(signed, routingKey, envelope.payloadText);
}

/** The rejection of a command without a site; the same text for an unknown, foreign or not allowed site [C-7.1]. */
export function unknownSiteEvent(keyId: string, submission: Submission, now: number): PassingEvent {
  const { messageId, correlationId, family } = submission;
  const payload = {
    status: 'REJECTED',
    commandType: FAMILY_RULES[family].commandType,
    message: 'no such site',
    rejectionCode: 'DEVICE_OFFLINE',
  };
  return {
    kind: 'ack',
    messageId: derivedUuid(`unknown-site|${keyId}|${messageId}`),
    correlationId: correlationId ?? messageId,
    atMs: now,
    payloadText: signableJson(payload),
  };
}

/** Builds the answers for a batch: per connection one frame for recorded publishes and one for the others. */
export function confirms(batch: readonly Pending[], isRecorded: (index: number) => boolean): Answers {
  const frames: Answers = new Map();
  batch.forEach(({ connectionId, seq }, index) => {
    const kind = isRecorded(index) ? 'stored' : 'unstored';
    const own = frames.get(connectionId) ?? [];
    const known = own.find((frame) => frame.kind === kind);
    if (known?.kind === kind) known.seqs.push(seq);
    else own.push({ kind, seqs: [seq] });
    frames.set(connectionId, own);
  });
  return frames;
}
