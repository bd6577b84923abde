/**
 * Parses what a person sends by hand: a routing key without the slug, and a payload in which `now+8s` means
 * that time.
 */
import { COMMAND_FAMILIES, type CommandFamily } from '../protocol/routing-keys.ts';

export interface Order {
  family: CommandFamily;
  /** Last word of a routing key that does not begin with `command.`: set, cancel. */
  word: string | undefined;
  payload: object;
}

const MOMENT = /^now(?:([+-]\d+)s)?$/;

/** Throws a message for the user if key or payload is invalid. */
export function readOrder(key: string, payloadText: string, nowMs: number): Order {
  const [area = '', name] = key.split('.');
  const family = COMMAND_FAMILIES.find((known) => known === (area === 'command' ? name : area));
  if (!family || name === undefined)
    throw new Error(`Unknown command "${key}"; for example command.device, schedule.set`);
  const payload: unknown = JSON.parse(payloadText, (_name, value: unknown) => momentIn(value, nowMs));
  if (typeof payload !== 'object' || payload === null) throw new Error('the payload must be a JSON object');
  return { family, word: area === 'command' ? undefined : name, payload };
}

function momentIn(value: unknown, nowMs: number): unknown {
  const found = typeof value === 'string' ? MOMENT.exec(value) : null;
  return found ? new Date(nowMs + 1_000 * Number(found[1] ?? 0)).toISOString() : value;
}
