/** Generated AMQP values: the arguments of any method, field tables, properties. */
import fc from 'fast-check';
import { definitions, type Fields, type Method } from './bridge-amqp-frames.ts';

/** Every method that amqplib knows, in both directions. */
export const METHODS: Method[] = Object.entries(definitions)
  .filter(([name]) => name.startsWith('methodInfo'))
  .map(([, info]) => info as Method)
  .sort((left, right) => left.id - right.id);

export const shortString = fc
  .string({ unit: 'binary', maxLength: 120 })
  .filter((text) => Buffer.byteLength(text) < 256 && Buffer.from(text).toString() === text);

const bytes = fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array));

/** Excludes `__proto__`, which has its own tests, and `!`, which amqplib reads as a type. */
const tableKey = shortString.filter((key) => key !== '__proto__' && key !== '!');

const { table } = fc.letrec<{ table: Fields; value: unknown }>((tie) => ({
  table: fc.dictionary(tableKey, tie('value'), { maxKeys: 4, noNullPrototype: true }),
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    shortString,
    fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
    fc.maxSafeInteger().map((integer) => integer + 0),
    fc.double({ min: -1e6, max: 1e6, noNaN: true }).map((double) => double + 0),
    fc.boolean(),
    fc.constant(null),
    bytes,
    fc.nat(2 ** 40).map((value) => ({ '!': 'timestamp', value })),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('table'),
  ),
}));

export const fieldTable: fc.Arbitrary<Fields> = table;

const BY_TYPE: Record<string, fc.Arbitrary<unknown>> = {
  bit: fc.boolean(),
  octet: fc.nat(0xff),
  short: fc.nat(0xffff),
  long: fc.nat(0xffff_ffff),
  longlong: fc.nat(Number.MAX_SAFE_INTEGER),
  timestamp: fc.nat(2 ** 40),
  shortstr: shortString,
  longstr: bytes,
  table: fieldTable,
};

/** All arguments of a method. */
export function argumentsOf(method: Method): fc.Arbitrary<Fields> {
  const entries = method.args.map(({ name, type }) => {
    const values = BY_TYPE[type];
    if (!values) throw new Error(`no values for ${type} (${method.name}.${name})`);
    return [name, values] as const;
  });
  return fc.record(Object.fromEntries(entries), { noNullPrototype: true });
}

/** Any subset of the basic properties. */
export const properties: fc.Arbitrary<Fields> = fc.record(
  {
    contentType: shortString,
    contentEncoding: shortString,
    headers: fieldTable,
    deliveryMode: fc.nat(0xff),
    priority: fc.nat(0xff),
    correlationId: shortString,
    replyTo: shortString,
    expiration: shortString,
    messageId: shortString,
    timestamp: fc.nat(2 ** 40),
    type: shortString,
    userId: shortString,
    appId: shortString,
    clusterId: shortString,
  },
  { requiredKeys: [], noNullPrototype: true },
);
