/**
 * Texts that people chose and that look like markup: each screen shows them as text. The policy of the page, which would
 * stop their scripts anyway, is off here, so that a text that becomes markup is noticed.
 */
import { randomUUID } from 'node:crypto';
import type { Locator, Page } from 'playwright-core';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { consoleStack, HAS_BROWSER } from '#support/console-page.ts';
import { AdminClient } from '../../tools/admin-client.ts';
import { World } from '../../tools/reference/rest-calls/world.ts';

const stack = consoleStack();

const SOON = { timeout: 5_000 };

const IMAGE = '<img src=x onerror="window.hacked=1">';
const SCRIPT = '"><script>window.hacked=1</script>';

/** One text for each place, so that a screen is not taken for another one. */
const NAMES = {
  organization: `${SCRIPT} organization`,
  plant: `${IMAGE} plant`,
  subDevice: `${SCRIPT} asset`,
  device: `${IMAGE} device`,
  suspension: `${SCRIPT} reason`,
  key: `${SCRIPT} key`,
  partner: `${IMAGE} partner`,
  webhook: `${IMAGE} webhook`,
  member: `${SCRIPT} member`,
  rule: `${IMAGE} rule`,
  note: `${SCRIPT} note`,
  command: `${IMAGE} command`,
  browser: `${IMAGE} browser`,
};

const MEMBER = { email: 'named@example.com', password: 'correct horse battery' };

interface Named {
  /** The token of an invitation. */
  invitation: string;
  plantId: string;
  deviceId: string;
  keyId: string;
  commandId: string;
}

const idOf = async (client: AdminClient, path: string, body: unknown) =>
  (await client.call<{ id: string }>('POST', path, body)).id;

/** Gives each thing its name over the API, which accepts it as it is. */
async function nameAll(): Promise<Named> {
  const { baseUrl, admin, organization } = stack.described;
  const client = await AdminClient.enter(baseUrl, admin);
  client.organizationId = organization.id;
  await client.call('PATCH', `/organizations/${organization.id}`, { name: NAMES.organization });
  const plantId = await idOf(client, '/plants', { name: NAMES.plant });
  await client.call('POST', `/plants/${plantId}/sub-devices`, {
    ...{ externalId: 'METER-1', assetType: 'METER', name: NAMES.subDevice },
  });
  const deviceId = await idOf(client, '/devices', {
    ...{ name: NAMES.device, serialNumber: 'GW-NAMED-1', type: 'GATEWAY', authMethod: 'TOKEN', plantId },
  });
  await client.call('POST', `/devices/${deviceId}/provision`, {});
  await client.call('POST', `/devices/${deviceId}/suspend`, { reason: NAMES.suspension });
  const { apiKey } = await client.createKey({
    ...{ name: NAMES.key, partnerId: NAMES.partner, scopes: ['vcp:connect', 'vcp:read'] },
  });
  await client.call('POST', '/partner/webhooks', {
    ...{ url: 'https://hooks.example.com/a', keyId: apiKey.id, types: ['ack'], description: NAMES.webhook },
  });
  await nameMember(client);
  const invitation = await invite(client, 'invited@example.com');
  const payload = { mode: 'STANDARD', reason: NAMES.command };
  const sent = { family: 'mode', payload, idempotencyKey: randomUUID() };
  const at = `/plants/${stack.plantId}/commands`;
  const { commandId } = await client.call<{ commandId: string }>('POST', at, sent);
  for (const name of [NAMES.rule, 'acknowledged']) {
    const target = { plantId: stack.plantId, metric: 'gridPowerKw', operator: 'GT', threshold: -1_000 };
    await client.call('POST', '/alerts', { name, severity: 'WARNING', ...target });
  }
  await vi.waitFor(
    async () => {
      const alerts = await client.list<{ id: string; message: string }>('/alerts');
      expect(alerts).toHaveLength(2);
      const other = alerts.find(({ message }) => message.startsWith('acknowledged'));
      await client.call('POST', `/alerts/${other?.id}/acknowledge`, { note: NAMES.note });
    },
    { timeout: 20_000, interval: 500 },
  );
  return { invitation, plantId, deviceId, keyId: apiKey.id, commandId };
}

/** Invites a person. Returns the mailed token. */
async function invite(admin: AdminClient, email: string): Promise<string> {
  const path = `/organizations/${stack.described.organization.id}/invitations`;
  await admin.call('POST', path, { email, role: 'OPERATOR' });
  return await new World(stack.described, {}).mailedToken(email, 0);
}

/** Makes a member with such a name. */
async function nameMember(admin: AdminClient): Promise<void> {
  const token = await invite(admin, MEMBER.email);
  const accepted = { token, confirm: true, name: NAMES.member, password: MEMBER.password };
  // Without the login of the admin, who is not the invited person.
  const answer = await fetch(`${stack.url}/api/v1/invitations/accept`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(accepted),
  });
  if (!answer.ok) throw new Error(`the invitation is not accepted: ${await answer.text()}`);
}

const hacked = (page: Page) => page.evaluate(() => (window as { hacked?: number }).hacked);

describe.skipIf(!HAS_BROWSER)('texts that look like markup', () => {
  let named: Named;
  let page: Page;
  let complaints: string[];
  const opened: string[] = [];

  const watch = (watched: Page) => {
    watched.on('dialog', (dialog) => {
      opened.push(dialog.message());
      void dialog.dismiss();
    });
  };
  const goTo = (path: string) => page.goto(`${stack.url}${path}`);
  const text = (shown: string, within: Page | Locator = page) => within.getByText(shown).first().waitFor();

  /** No text has become an element, and none has run. */
  const expectHarmless = async (shown: Page = page) => {
    expect(await shown.locator('img[src="x"], #app script').count()).toBe(0);
    expect(await hacked(shown)).toBeUndefined();
    expect(opened).toEqual([]);
  };

  beforeAll(async () => {
    named = await nameAll();
    const options = { bypassCSP: true, userAgent: NAMES.browser };
    ({ page, complaints } = await stack.loggedIn('/sites', stack.described.admin, options));
    watch(page);
  }, 60_000);

  it('stay text in the list of sites, and in its search', async () => {
    await goTo('/sites');
    await page.getByRole('link', { name: NAMES.plant }).waitFor();
    await text(`${NAMES.rule}: gridPowerKw is`);
    await expectHarmless();
    await goTo(`/sites?q=${encodeURIComponent(NAMES.plant)}`);
    await page.getByRole('link', { name: NAMES.plant }).waitFor();
    expect(await page.locator('tbody tr').count()).toBe(1);
    expect(await page.getByRole('searchbox').inputValue()).toBe(NAMES.plant);
    await expectHarmless();
  });

  it('stay text on the page of a site: its name, its assets, its alerts', async () => {
    await goTo(`/sites/${named.plantId}`);
    await page.getByRole('heading', { level: 1, name: NAMES.plant, exact: true }).waitFor();
    await text(NAMES.subDevice, page.getByRole('region', { name: 'Sub-devices' }).first());
    await expectHarmless();
    await goTo(`/sites/${stack.plantId}`);
    await text(NAMES.rule, page.getByRole('region', { name: 'Alerts' }));
    await expectHarmless();
  });

  it('stay text in the life of a command and in the programs that send it again', async () => {
    await goTo(`/sites/${stack.plantId}/commands/${named.commandId}`);
    const quoted = JSON.stringify(NAMES.command).slice(1, -1);
    await text(quoted, page.getByRole('region', { name: 'What the sender sent, as it was recorded' }));
    await text(quoted, page.getByRole('region', { name: 'curl' }));
    await expectHarmless();
  });

  it('stay text in the lists of keys and in the dialog that asks for the name', async () => {
    await goTo('/keys');
    await page.getByRole('link', { name: NAMES.key, exact: true }).waitFor();
    await page.getByRole('cell', { name: NAMES.partner, exact: true }).waitFor();
    await page.getByRole('button', { name: 'Create a key' }).click();
    await page.getByLabel('Only these sites').check();
    await text(NAMES.plant, page.getByRole('dialog'));
    await expectHarmless();
    await goTo(`/keys/${named.keyId}`);
    await page.getByRole('heading', { level: 1, name: NAMES.key, exact: true }).waitFor();
    await text(NAMES.partner);
    await page.getByRole('button', { name: 'Revoke' }).click();
    const typed = page.getByLabel(`Type ${NAMES.key} to confirm`);
    await typed.fill(NAMES.key);
    expect(await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).isEnabled()).toBe(true);
    await expectHarmless();
  });

  it('stay text among the webhooks', async () => {
    await goTo('/webhooks');
    await text(NAMES.webhook);
    await text(`of the key ${NAMES.key}`);
    await page.getByRole('button', { name: 'Create a webhook' }).click();
    const keys = page.getByRole('dialog').getByLabel('Key').locator('option');
    await expect.poll(() => keys.allInnerTexts(), SOON).toContain(NAMES.key);
    await expectHarmless();
  });

  it('stay text among the devices', async () => {
    await goTo('/devices');
    await page.getByRole('link', { name: NAMES.device, exact: true }).waitFor();
    await page.getByRole('cell', { name: NAMES.plant, exact: true }).waitFor();
    await page.getByRole('button', { name: 'Register a device' }).click();
    const plants = page.getByRole('dialog').getByLabel('Site').locator('option');
    await expect.poll(() => plants.allInnerTexts(), SOON).toContain(NAMES.plant);
    await expectHarmless();
    await goTo(`/devices/${named.deviceId}`);
    await page.getByRole('heading', { level: 1, name: NAMES.device, exact: true }).waitFor();
    await text(NAMES.suspension);
    await expectHarmless();
  });

  it('stay text among the alerts', async () => {
    await goTo('/alerts');
    await text(`${NAMES.rule}: gridPowerKw is`);
    await expectHarmless();
    await goTo('/alerts?status=ACKNOWLEDGED');
    await page.getByRole('cell', { name: NAMES.note, exact: true }).waitFor();
    await expectHarmless();
  });

  it('stay text among the members, in the audit and among the sessions', async () => {
    await goTo('/members');
    await page.getByRole('rowheader', { name: NAMES.member, exact: true }).waitFor();
    await expectHarmless();
    await goTo('/audit');
    await text(`"name":${JSON.stringify(NAMES.key)}`);
    await expectHarmless();
    await goTo('/account');
    await page.getByRole('rowheader', { name: NAMES.browser, exact: true }).waitFor();
    await expectHarmless();
  });

  it('stay text in the choice of the events', async () => {
    await goTo(`/events?plant=${named.plantId}&q=${encodeURIComponent(SCRIPT)}`);
    const plants = page.getByLabel('Site', { exact: true }).locator('option');
    await expect.poll(() => plants.allInnerTexts(), SOON).toContain(NAMES.plant);
    expect(await page.getByLabel('Search in the text').inputValue()).toBe(SCRIPT);
    await expectHarmless();
  });

  it('stay text in the navigation of the member who has such a name', async () => {
    const member = await stack.loggedIn('/account', MEMBER, { bypassCSP: true });
    watch(member.page);
    await text(NAMES.member, member.page.getByRole('navigation'));
    await member.page.getByRole('heading', { level: 2, name: NAMES.member, exact: true }).waitFor();
    await expectHarmless(member.page);
    await member.context.close();
  });

  it('stay text in the settings of the organization and in its invitations', async () => {
    await goTo('/organization');
    await page.getByRole('heading', { level: 1, name: NAMES.organization, exact: true }).waitFor();
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe(NAMES.organization);
    await expectHarmless();
    await goTo(`/accept-invitation#token=${named.invitation}`);
    await text(`The organization "${NAMES.organization}" invites invited@example.com`);
    await expectHarmless();
  });

  it('stay harmless in the address', async () => {
    for (const part of [IMAGE, SCRIPT]) {
      await goTo(`/${encodeURIComponent(part)}`);
      await text('There is no such page');
      await expectHarmless();
      await goTo(`/sites/${encodeURIComponent(part)}?at=${encodeURIComponent(part)}`);
      await page.getByRole('alert').waitFor();
      await expectHarmless();
    }
  });

  it('make the browser complain about nothing', () => {
    expect(complaints.filter((complaint) => !complaint.includes('Failed to load resource'))).toEqual([]);
  });

  it('would be noticed if one of them became markup', async () => {
    await goTo('/account');
    await page.getByRole('main').waitFor();
    await page.evaluate((markup) => {
      document.querySelector('main')?.insertAdjacentHTML('beforeend', markup);
    }, IMAGE);
    await expect.poll(() => hacked(page), SOON).toBe(1);
    expect(await page.locator('img[src="x"], #app script').count()).toBe(1);
  });
});
