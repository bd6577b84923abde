/** What a person sends by hand: a routing key behind the slug, and a payload in which `now+8s` stands for that moment. */
import { COMMAND_FAMILIES, type CommandFamily } from '../protocol/routing-keys.ts';

export interface Order {
  family: CommandFamily;
  /** The last word of keys that are no `command.…`: set, cancel. */
  word: string | undefined;
  payload: object;
}

const MOMENT = /^now(?:([+-]\d+)s)?$/;

/** Throws a sentence for what is no order. */
export function readOrder(key: string, payloadText: string, nowMs: number): Order {
  const [area = '', name] = key.split('.');
  const family = COMMAND_FAMILIES.find((known) => known === (area === 'command' ? name : area));
  if (!family || name === undefined)
    throw new Error(`"${key}" is not such as command.device or schedule.set`);
  const payload: unknown = JSON.parse(payloadText, (_name, value: unknown) => momentIn(value, nowMs));
  if (typeof payload !== 'object' || payload === null) throw new Error('the payload is no JSON object');
  return { family, word: area === 'command' ? undefined : name, payload };
}

function momentIn(value: unknown, nowMs: number): unknown {
  const found = typeof value === 'string' ? MOMENT.exec(value) : null;
  return found ? new Date(nowMs + 1_000 * Number(found[1] ?? 0)).toISOString() : value;
}
