/** The RPC contract for the webhooks of a key. Add fields, never change the meaning of one (see rpc.ts). */
import type { WebhookAnswer, WebhookQuestion } from '../protocol/webhook.ts';

export interface WebhookRpc {
  askWebhook(id: string, question: WebhookQuestion): Promise<WebhookAnswer>;
}
