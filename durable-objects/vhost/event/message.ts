/** Builds the message for a partner from an event of a Site: with an envelope, signed with the key's signing key. */
import { signableJson } from '../../../protocol/compact-json.ts';
import { SOURCE, VCP_VERSION } from '../../../protocol/envelope.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { eventRoutingKey } from '../../../protocol/routing-keys.ts';
import { envelopeSigningString } from '../../../protocol/signing.ts';
import type { PassingEvent } from '../../rpc.ts';
import { hmacHex } from '../../secrets/hmac.ts';
import type { Message } from '../queue/rows.ts';

export function eventMessage(slug: string, signingKey: string, siteId: string, event: PassingEvent): Message {
  const routingKey = eventRoutingKey(slug, event.kind);
  const envelope = {
    version: VCP_VERSION,
    messageId: event.messageId,
    ...(event.correlationId === null ? {} : { correlationId: event.correlationId }),
    timestamp: formatInstant(event.atMs),
    source: SOURCE,
    siteId,
  };
  const signingString = envelopeSigningString(envelope, routingKey, event.payloadText);
  // A correlationId that contains the separator cannot be signed; the event is then sent without a signature.
  const signature = signingString === undefined ? '' : `,"signature":"${hmacHex(signingKey, signingString)}"`;
  const body = `${signableJson(envelope).slice(0, -1)},"payload":${event.payloadText}${signature}}`;
  return {
    routingKey,
    properties: {
      contentType: 'application/json',
      messageId: event.messageId,
      timestampMs: event.atMs,
      ...(event.correlationId === null ? {} : { correlationId: event.correlationId }),
    },
    body,
    encoding: 'utf8',
    createdAtMs: event.atMs,
  };
}
