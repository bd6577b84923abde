/** Accounts in the console: invitation, forgotten password, settings, the first run, and two organizations. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER, logIn } from '#support/console-page.ts';
import { eventually } from '#support/stack.ts';

const PASSWORD = 'nine green ladders';
const stack = consoleStack();

/** The link in the newest mail to an address. */
async function linkTo(email: string, page: string): Promise<string> {
  return await eventually(() => {
    const folder = stack.described.mail ?? '';
    const mails = readdirSync(folder).sort().reverse();
    for (const name of mails) {
      // Long lines of a mail are wrapped.
      const text = readFileSync(join(folder, name), 'utf8').replaceAll('=\r\n', '').replaceAll('=3D', '=');
      const token = text.includes(email) ? /#token=([A-Za-z0-9_-]{43})/.exec(text)?.[1] : undefined;
      if (token !== undefined && text.includes(`/${page}`)) return `${stack.url}/${page}#token=${token}`;
    }
    return undefined;
  });
}

describe.skipIf(!HAS_BROWSER)('accounts', () => {
  it('are invited on the screen of members, and accept on the page that the mail links to', async () => {
    const { page } = await stack.loggedIn('/members');
    await page.getByLabel('E-mail').fill('invited@example.org');
    await page.getByLabel('Role').selectOption('OPERATOR');
    await page.getByRole('button', { name: 'Invite' }).click();
    await page.getByText('invited@example.org').waitFor();
    const other = await stack.open();
    await other.page.goto(await linkTo('invited@example.org', 'accept-invitation'));
    await other.page.getByText('invites invited@example.org as OPERATOR').waitFor();
    await other.page.getByLabel('Name').fill('Ina Invited');
    await other.page.getByLabel('Password').fill(PASSWORD);
    await other.page.getByRole('button', { name: 'Join the organization' }).click();
    await other.page.getByText('You are a member of').waitFor();
    await other.page.getByRole('link', { name: 'Go on' }).click();
    await other.page.getByRole('heading', { name: 'Sites' }).waitFor();
    expect(await other.page.getByRole('link', { name: 'Keys' }).count()).toBe(0);
    await page.reload();
    await page.getByRole('rowheader', { name: 'Ina Invited' }).waitFor();
  });

  it('set a new password on the page that the mail links to', async () => {
    const { page } = await stack.open();
    await page.goto(`${stack.url}/`);
    await page.getByRole('button', { name: 'Forgot your password?' }).click();
    await page.getByLabel('E-mail').fill('invited@example.org');
    await page.getByRole('button', { name: 'Mail me a token' }).click();
    await page.getByText('a mail with a token is on its way').waitFor();
    await page.goto(await linkTo('invited@example.org', 'reset-password'));
    await page.getByLabel('New password').fill('1234567890');
    await page.getByRole('button', { name: 'Change the password' }).click();
    await page
      .getByRole('alert')
      .getByText(/most common passwords/)
      .waitFor();
    await page.getByLabel('New password').fill(`${PASSWORD} again`);
    await page.getByRole('button', { name: 'Change the password' }).click();
    await page.getByText('Your password is changed').waitFor();
    const { page: again } = await stack.loggedIn('/account', {
      email: 'invited@example.org',
      password: `${PASSWORD} again`,
    });
    await again.getByText('this one').waitFor();
  });

  it('say what is missing when the token of a link is', async () => {
    const { page } = await stack.open();
    for (const path of ['accept-invitation', 'verify-email', 'reset-password', 'confirm-email']) {
      await page.goto(`${stack.url}/${path}`);
      await page.getByText('the part after # is missing').waitFor();
    }
    await page.goto(`${stack.url}/accept-invitation#token=${'x'.repeat(43)}`);
    await page.getByRole('alert').waitFor();
  });

  it.each(['accept-invitation', 'verify-email', 'reset-password', 'confirm-email'])(
    'lose the token of the link to %s from the address bar before the first call, and from the history [C-15.6]',
    async (path) => {
      const { page, context } = await stack.loggedIn('/account');
      const token = 'T'.repeat(43);
      // What a script of the page could read when it makes a call, and each address that the history gets.
      await context.addInitScript(() => {
        const seen: string[] = [];
        Object.assign(window, { seen });
        const call = window.fetch;
        window.fetch = (...given) => {
          seen.push(`call ${location.href}`);
          return call(...given);
        };
        for (const name of ['pushState', 'replaceState'] as const) {
          const change = history[name].bind(history);
          history[name] = (...given) => {
            change(...given);
            seen.push(`${name} ${location.href}`);
          };
        }
      });
      await page.goto(`${stack.url}/${path}#token=${token}`);
      await page.getByRole('main').getByRole('heading').first().waitFor();
      expect(page.url()).toBe(`${stack.url}/${path}`);
      const seen = await page.evaluate(() => (window as unknown as { seen: string[] }).seen);
      expect(seen.filter((line) => line.startsWith('call'))).not.toEqual([]);
      expect(seen.filter((line) => line.includes(token))).toEqual([]);
      await page.goto(`${stack.url}/account`);
      await page.goBack();
      await page.getByRole('main').getByRole('heading').first().waitFor();
      expect(page.url()).not.toContain(token);
      expect(
        await page.evaluate(
          () => `${document.referrer} ${JSON.stringify({ ...sessionStorage, ...localStorage })}`,
        ),
      ).not.toContain(token);
      await context.close();
    },
  );

  it('lose the token of a link that is opened in a page that is already there, and use it [C-15.6]', async () => {
    const { page } = await stack.open();
    await page.goto(`${stack.url}/verify-email`);
    await page.getByText('the part after # is missing').waitFor();
    await page.goto(`${stack.url}/verify-email#token=${'T'.repeat(43)}`);
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByRole('alert').waitFor();
    expect(page.url()).toBe(`${stack.url}/verify-email`);
  });

  it('get no token in the answers to a login and a refresh in the page [C-15.6]', async () => {
    const { page, context } = await stack.open();
    const answered = page.waitForResponse((answer) => answer.url().endsWith('/auth/login'));
    const { email, password } = stack.described.admin;
    await logIn(page, stack.url, '/account', email, password);
    expect(await (await answered).text()).not.toMatch(/accessToken|refreshToken/);
    // As any script of the page could call it.
    const refreshed = await page.evaluate(async () => {
      const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' };
      const answer = await fetch('/api/v1/auth/refresh', init);
      return [answer.status, await answer.text()] as const;
    });
    expect(refreshed).toEqual([200, expect.not.stringMatching(/accessToken|refreshToken/)]);
    await context.close();
  });

  it('change the settings of their organization, and see the refusal of a wrong one', async () => {
    const { page } = await stack.loggedIn('/organization');
    await page.getByLabel('Seconds between telemetry events').fill('7');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    await page.reload();
    await expect.poll(() => page.getByLabel('Seconds between telemetry events').inputValue()).toBe('7');
    await page.getByLabel('Days that events are kept').fill('99');
    await page.getByRole('button', { name: 'Save' }).click();
    await page
      .getByRole('alert')
      .getByText(/journalRetentionDays/)
      .waitFor();
  });

  it('are led to the first site, device and key if their organization is new', async () => {
    const email = 'new@example.org';
    await fetch(`${stack.url}/api/v1/auth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        ...{ email, password: PASSWORD, name: 'Nora New' },
        ...{ organizationName: 'New Power', organizationSlug: 'new-power' },
      }),
    });
    const { page } = await stack.open();
    await page.goto(await linkTo(email, 'verify-email'));
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByText('Your address is confirmed').waitFor();
    const { page: own } = await stack.loggedIn('/sites', { email, password: PASSWORD });
    await own.getByText('Three steps to your first live site').waitFor();
    await own.getByRole('button', { name: 'Create a site' }).click();
    await own.getByRole('dialog').getByLabel('Site', { exact: true }).fill('First site');
    await own.getByRole('dialog').getByRole('button', { name: 'Create a site' }).click();
    await own.getByRole('heading', { name: 'First site' }).waitFor();
    await own.goto(`${stack.url}/devices`);
    await own.getByRole('button', { name: 'Register a device' }).click();
    await own.getByRole('dialog').getByLabel('Name').fill('Gateway');
    await own.getByRole('dialog').getByLabel('Serial number').fill('GW-1');
    await own.getByRole('dialog').getByLabel('Site').selectOption('First site');
    await own.getByRole('dialog').getByRole('button', { name: 'Register a device' }).click();
    await own.getByRole('button', { name: 'Provision' }).click();
    await own.getByAltText('The package as a QR code').waitFor();
    expect(await own.getByLabel('Provisioning package', { exact: true }).last().innerText()).toContain(
      'hmacSecret',
    );
  });
});
