/** Answers to a page of our own carry no token: its cookies have them, and no script can read those [C-15.6]. */
import { anonymous } from '#workerd/client.ts';
import { logIn, PASSWORD, Person, uniqueEmail } from '#workerd/people.ts';
import { describe, expect, test } from '#workerd/worker-test.ts';

const BROWSER = { 'sec-fetch-site': 'same-origin', origin: 'https://sitewire.example' };
/** What is no page of our own. A page of another origin cannot read the answer. */
const OTHERS: Record<string, string>[] = [
  {},
  { 'sec-fetch-mode': 'cors' },
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site' },
  { 'sec-fetch-site': 'none' },
];
const SECRET = /accessToken|refreshToken|eyJ[\w-]+\.[\w-]+\.|[0-9a-f]{64}/;
const COOKIES = ['access_token', 'refresh_token'];

const it = test.extend('email', async () => (await Person.register()).email);

function logInAs(email: string, headers: Record<string, string>): Promise<Response> {
  return anonymous.post('/auth/login', { email, password: PASSWORD }, { headers });
}

/** The cookies that an answer sets, as a request sends them. */
function cookiesOf(response: Response): Record<string, string> {
  return Object.fromEntries(
    response.headers.getSetCookie().map((text) => [text.split('=')[0] ?? '', text.split(';')[0] ?? '']),
  );
}

/** The answer has the user and both cookies, and no token. */
async function expectOnlyCookies(response: Response): Promise<void> {
  const text = await response.text();
  expect([response.status, text]).toEqual([200, expect.not.stringMatching(SECRET)]);
  expect(text).toContain('"tokenType"');
  expect(Object.keys(cookiesOf(response))).toEqual(expect.arrayContaining(COOKIES));
}

describe('the answer to a login', () => {
  it('has no token for a page of our own, whose cookies open the session [C-15.6]', async ({ email }) => {
    const response = await logInAs(email, BROWSER);
    await expectOnlyCookies(response.clone() as Response);
    const { access_token: cookie = '' } = cookiesOf(response);
    const me = await anonymous.read<{ user: object }>('/auth/me', { headers: { cookie } });
    expect(me.user).toMatchObject({ email });
  });

  it('has both tokens for everybody else [C-1.4]', async ({ email }) => {
    for (const headers of OTHERS) {
      const response = await logInAs(email, headers);
      expect([headers, response.status, await response.json()]).toEqual([
        headers,
        200,
        expect.objectContaining({ accessToken: expect.any(String), refreshToken: expect.any(String) }),
      ]);
    }
  });

  it('has no token where Sec-Fetch-Site alone says that a page of our own asks [C-15.6]', async ({
    email,
  }) => {
    await expectOnlyCookies(await logInAs(email, { 'sec-fetch-site': 'same-origin' }));
  });
});

describe('the answer to a refresh', () => {
  it('has no token for a page of our own, also when the body had one [C-15.6]', async ({ person }) => {
    const body = { refreshToken: person.refreshToken };
    await expectOnlyCookies(await anonymous.post('/auth/refresh', body, { headers: BROWSER }));
  });

  it('has both tokens for everybody else who sent one in the body [C-1.4]', async ({ person }) => {
    let { refreshToken } = person;
    for (const headers of OTHERS) {
      const response = await anonymous.post('/auth/refresh', { refreshToken }, { headers });
      expect([headers, response.status]).toEqual([headers, 200]);
      ({ refreshToken } = (await response.json()) as { refreshToken: string });
      expect(refreshToken).toMatch(/^[0-9a-f-]{36}\.\d+\.[0-9a-f]{64}$/);
    }
  });
});

describe('other answers that open a session', () => {
  it('have no token for a page of our own: a changed password [C-15.6]', async ({ email }) => {
    const { access_token: cookie = '' } = cookiesOf(await logIn(email));
    const body = { currentPassword: PASSWORD, newPassword: 'another horse battery' };
    const response = await anonymous.post('/auth/change-password', body, { headers: { ...BROWSER, cookie } });
    await expectOnlyCookies(response);
  });

  it('have no token for a page of our own: an accepted invitation [C-15.6]', async ({ team }) => {
    const { token } = await team.invite(uniqueEmail());
    const body = { token, confirm: true, name: 'Newcomer', password: PASSWORD };
    await expectOnlyCookies(await anonymous.post('/invitations/accept', body, { headers: BROWSER }));
  });
});
