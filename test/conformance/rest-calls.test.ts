/**
 * Every call and every error of the REST reference runs, in its order, and answers as the reference shows: by curl, as its
 * reader sends it, where curl is installed.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cleanUp, newFolder, start } from '#support/dev-stack.ts';
import { succeeds } from '#support/programs.ts';
import examples from '../../tools/reference/openapi/examples.json' with { type: 'json' };
import { type Recorded, record } from '../../tools/reference/rest-calls/record.ts';
import { routeFacts } from '../../tools/reference/rest-calls/route-facts.ts';

const stored = examples as unknown as Recorded;
let recorded: Recorded;

beforeAll(async () => {
  const { described } = await start(newFolder(), { SITEWIRE_SIMULATOR: 'off' });
  recorded = await record(described, await routeFacts(), succeeds('curl', '--version') ? 'curl' : 'fetch');
}, 150_000);
afterAll(cleanUp);

describe('the REST reference', () => {
  it('has the same calls', () => expect(Object.keys(recorded.calls)).toEqual(Object.keys(stored.calls)));

  it.each(Object.entries(stored.calls))('shows the answer to %s', (route, example) => {
    expect(recorded.calls[route]).toEqual(example);
  });

  it.each(Object.entries(stored.errors))('shows an answer %s', (code, answer) => {
    expect(recorded.errors[code as keyof Recorded['errors']]).toEqual(answer);
  });
});
