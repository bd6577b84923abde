/** API keys created over REST by an admin, and their audit rows. */
import { type ChannelModel, connect } from 'amqplib';
import type { ApiKeyRecord, CreatedApiKey } from '../../protocol/api-key-record.ts';
import type { AuditEvent } from '../../protocol/audit.ts';
import type { Page } from '../../protocol/page.ts';
import type { ApiKeyScope } from '../../protocol/scopes.ts';
import type { PartnerOptions } from '../../tools/partner.ts';
import type { TestStack } from './stack.ts';

export const KEYS = '/partner/api-keys';

/** A request for a key with a unique name. */
export function wanted(scopes: ApiKeyScope[], more: object = {}) {
  return { name: `Desk ${crypto.randomUUID()}`, partnerId: 'acme-trader', scopes, ...more };
}

export async function recordOf(stack: TestStack, id: string): Promise<ApiKeyRecord> {
  return await stack.admin.call('GET', `${KEYS}/${id}`);
}

/** Audit rows of an event that contain the text, newest first. */
export async function audited(stack: TestStack, event: string, text: string): Promise<AuditEvent[]> {
  const page = await stack.admin.call<Page<AuditEvent>>('GET', `/audit-events?event=${event}&limit=100`);
  return page.data.filter((row) => JSON.stringify(row).includes(text));
}

/** Connection options for a client of a key, with or without its own vhost. */
export function optionsOf(stack: TestStack, { apiKey, key, signingKey }: CreatedApiKey): PartnerOptions {
  return { ...stack.partnerOptions(), key, signingKey, vhost: apiKey.vhost ?? '/' };
}

/** Connects stock amqplib with the unchanged URI of the bundle. */
export async function connectAsPasted(
  stack: TestStack,
  { connectionBundle }: CreatedApiKey,
): Promise<ChannelModel> {
  return await connect(connectionBundle?.amqps.uri ?? '', { ca: [stack.ca] });
}

/** Runs work while no bridge runs. */
export async function withoutBridge<Value>(stack: TestStack, work: () => Promise<Value>): Promise<Value> {
  await stack.bridge.stop();
  try {
    return await work();
  } finally {
    await stack.restartBridge();
  }
}
