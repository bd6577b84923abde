/** Logins that wait for their password hash, each in a request of its own: one request cannot wake another [C-15.6]. */
import { expect, it } from 'vitest';
import { suiteStack } from '#support/suite-stack.ts';

const stack = suiteStack();

async function logIn(email: string): Promise<number> {
  const answer = await fetch(`${stack.edge.url}/api/v1/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email, password: 'correct horse battery' }),
  });
  await answer.text();
  return answer.status;
}

it('answers ten logins at once, and those that come after them [C-15.6]', async () => {
  const emails = Array.from({ length: 10 }, (_, index) => `nobody-${index}@example.com`);
  expect(await Promise.all(emails.map(logIn))).toEqual(emails.map(() => 401));
  expect(await Promise.all(emails.slice(0, 3).map(logIn))).toEqual([401, 401, 401]);
});
