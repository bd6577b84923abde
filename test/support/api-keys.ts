/** API keys as an admin makes them over REST, and what the platform tells of them. */
import { type ChannelModel, connect } from 'amqplib';
import type { ApiKeyRecord, CreatedApiKey } from '../../protocol/api-key-record.ts';
import type { AuditEvent } from '../../protocol/audit.ts';
import type { Page } from '../../protocol/page.ts';
import type { ApiKeyScope } from '../../protocol/scopes.ts';
import type { PartnerOptions } from '../../tools/partner.ts';
import type { TestStack } from './stack.ts';

export const KEYS = '/partner/api-keys';

/** A request for a key, of a name that no other has. */
export function wanted(scopes: ApiKeyScope[], more: object = {}) {
  return { name: `Desk ${crypto.randomUUID()}`, partnerId: 'acme-trader', scopes, ...more };
}

export async function recordOf(stack: TestStack, id: string): Promise<ApiKeyRecord> {
  return await stack.admin.call('GET', `${KEYS}/${id}`);
}

/** Audit rows of an event that say this somewhere, the newest first. */
export async function audited(stack: TestStack, event: string, text: string): Promise<AuditEvent[]> {
  const page = await stack.admin.call<Page<AuditEvent>>('GET', `/audit-events?event=${event}&limit=100`);
  return page.data.filter((row) => JSON.stringify(row).includes(text));
}

/** How a client of a key connects, with a vhost of its own or without. */
export function optionsOf(stack: TestStack, { apiKey, key, signingKey }: CreatedApiKey): PartnerOptions {
  return { ...stack.partnerOptions(), key, signingKey, vhost: apiKey.vhost ?? '/' };
}

/** Stock amqplib with the URI of the bundle as it is. */
export async function connectAsPasted(
  stack: TestStack,
  { connectionBundle }: CreatedApiKey,
): Promise<ChannelModel> {
  return await connect(connectionBundle?.amqps.uri ?? '', { ca: [stack.ca] });
}

/** What is done while no bridge runs. */
export async function withoutBridge<Value>(stack: TestStack, work: () => Promise<Value>): Promise<Value> {
  await stack.bridge.stop();
  try {
    return await work();
  } finally {
    await stack.restartBridge();
  }
}
