/** Stubs are reused from call to call until a call fails. */
import { expect, it } from 'vitest';
import { Stubs } from '../../../durable-objects/object/stubs.ts';

function countedStubs() {
  const made: string[] = [];
  const stubs = new Stubs((name) => {
    made.push(name);
    return { name, of: made.length };
  });
  return { made, stubs };
}

it('the stub cache creates one stub for each name', async () => {
  const { made, stubs } = countedStubs();
  for (let call = 0; call < 3; call++) {
    expect(await stubs.call('one', async ({ name }) => name)).toBe('one');
    expect(await stubs.call('other', async ({ of }) => of)).toBe(2);
  }
  expect(made).toEqual(['one', 'other']);
});

it("the stub cache creates a new stub after a failed call, and passes the call's error on", async () => {
  const { made, stubs } = countedStubs();
  await stubs.call('one', async () => {});
  await expect(stubs.call('one', () => Promise.reject(new Error('reset')))).rejects.toThrow('reset');
  expect(await stubs.call('one', async ({ of }) => of)).toBe(2);
  expect(made).toEqual(['one', 'one']);
});

it('the stub cache keeps at most a thousand stubs', async () => {
  const { made, stubs } = countedStubs();
  for (let name = 0; name < 1_001; name++) await stubs.call(String(name), async () => {});
  await stubs.call('1000', async () => {});
  expect(made.length).toBe(1_001);
  await stubs.call('0', async () => {});
  expect(made.length).toBe(1_002);
});
