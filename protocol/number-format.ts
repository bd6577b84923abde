/** The `format` of a number in JSON Schema: without one, generators make 32 bits of an integer [C-15.8]. Pure. */
const INT32_MAX = 2 ** 31 - 1;

/** Sets it: `int32` only where the bounds of the schema fit it, `int64` for any other integer. */
export function setNumberFormat(schema: Record<string, unknown>): void {
  const types = [schema.type].flat();
  const { minimum, exclusiveMinimum, maximum, exclusiveMaximum } = schema;
  const [low = -Infinity, high = Infinity] = [minimum ?? exclusiveMinimum, maximum ?? exclusiveMaximum];
  if (types.includes('number')) schema.format = 'double';
  else if (types.includes('integer'))
    schema.format = Number(low) >= -INT32_MAX - 1 && Number(high) <= INT32_MAX ? 'int32' : 'int64';
}
