/** Checks each command to a device and each event to a partner against the AsyncAPI document. */
import { type Schema, Validator } from '@cfworker/json-schema';
import type { Delivery } from '../../../protocol/link/vhost.ts';
import { asyncApiDocument } from '../../../tools/reference/asyncapi/document.ts';

interface Message {
  payload: Schema & { properties?: { action?: { enum?: string[] } } };
}

const { channels, components } = asyncApiDocument() as unknown as {
  channels: Record<string, { 'x-routing-key'?: string }>;
  components: { messages: Record<string, Message> };
};
const validators = new Map<string, Validator>();
const misfits: string[] = [];

/** The messages since the last call that do not conform to the document. */
export function takeMisfits(): string[] {
  return misfits.splice(0);
}

export function checkCommand(text: string): void {
  const { action } = JSON.parse(text) as { action: string };
  const known = Object.entries(components.messages).find(([, { payload }]) =>
    payload.properties?.action?.enum?.includes(action),
  );
  check(known?.[0] ?? 'restCommand', text);
}

/** Events that a test made up (`outboxEvents`) have a filler; other queues hold what partners published. */
export function checkEvent({ routingKey, body }: Delivery): void {
  const key = routingKey.replace(/^[^.]+/, '{slug}');
  const known = Object.entries(channels).find(([, channel]) => channel['x-routing-key'] === key);
  if (known && !/"filler":"/.test(body)) check(known[0], body);
}

function check(name: string, text: string): void {
  const { valid, errors } = validatorOf(name).validate(JSON.parse(text));
  if (valid) return;
  const what = errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`).join('; ');
  misfits.push(`${name} ${text} is not as promised: ${what}`);
}

function validatorOf(name: string): Validator {
  const known = validators.get(name);
  if (known) return known;
  const validator = new Validator(
    { ...components.messages[name]?.payload, components } as Schema,
    '7',
    false,
  );
  validators.set(name, validator);
  return validator;
}
