/**
 * Names of 100 letters without a space, the longest that the API accepts: no page is wider than its window, and on a
 * desk no table is wider than its page.
 */
import { randomUUID } from 'node:crypto';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { consoleStack, HAS_BROWSER } from '#support/console-page.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { AdminClient } from '../../tools/admin-client.ts';
import { World } from '../../tools/reference/rest-calls/world.ts';

const stack = consoleStack();

const SOON = { timeout: 5_000 };
const WINDOWS = [
  { width: 1280, height: 900 },
  { width: 390, height: 844 },
];

/** A name of the maximum length that begins with a word, so that a page can be searched for it. */
const long = (word: string) => word.padEnd(LIMIT.nameCharacters, 'Mw');

const NAMES = {
  organization: long('Organization'),
  plant: long('Plant'),
  externalPlant: long('External').slice(0, 64),
  subDevice: long('Battery'),
  device: long('Gateway'),
  serial: long('Serial').slice(0, LIMIT.serialNumberCharacters),
  key: long('Key'),
  partner: long('Partner'),
  webhook: long('Webhook'),
  member: long('Member'),
  rule: long('Rule'),
  template: long('Template'),
};
const MEMBER = { email: `${'m'.repeat(40)}@example.com`, password: 'correct horse battery' };

interface Named {
  plantId: string;
  deviceId: string;
  keyId: string;
  commandId: string;
}

const idOf = async (client: AdminClient, path: string, body: unknown) =>
  (await client.call<{ id: string }>('POST', path, body)).id;

/** Gives each thing a name of the maximum length. */
async function nameAll(): Promise<Named> {
  const { baseUrl, admin, organization } = stack.described;
  const client = await AdminClient.enter(baseUrl, admin);
  client.organizationId = organization.id;
  await client.call('PATCH', `/organizations/${organization.id}`, { name: NAMES.organization });
  const plantId = await idOf(client, '/plants', {
    ...{ name: NAMES.plant, externalPlantId: NAMES.externalPlant },
  });
  await client.call('POST', `/plants/${plantId}/sub-devices`, {
    ...{ externalId: 'BESS-1', assetType: 'BESS', name: NAMES.subDevice },
  });
  const deviceId = await idOf(client, '/devices', {
    ...{ name: NAMES.device, serialNumber: NAMES.serial, type: 'GATEWAY', authMethod: 'TOKEN', plantId },
  });
  await client.call('POST', '/device-templates', { name: NAMES.template, assetType: 'BESS' });
  const { apiKey } = await client.createKey({
    ...{ name: NAMES.key, partnerId: NAMES.partner, scopes: ['vcp:connect', 'vcp:read'] },
  });
  await client.call('POST', '/partner/webhooks', {
    ...{ url: 'https://hooks.example.com/a', keyId: apiKey.id, types: ['ack'], description: NAMES.webhook },
  });
  await addMember(client);
  const sent = { family: 'mode', payload: { mode: 'STANDARD' }, idempotencyKey: randomUUID() };
  const commands = `/plants/${stack.plantId}/commands`;
  const { commandId } = await client.call<{ commandId: string }>('POST', commands, sent);
  const target = { plantId: stack.plantId, metric: 'gridPowerKw', operator: 'GT', threshold: -1_000 };
  await client.call('POST', '/alerts', { name: NAMES.rule, severity: 'WARNING', ...target });
  await vi.waitFor(async () => expect(await client.list('/alerts')).toHaveLength(1), {
    timeout: 20_000,
    interval: 500,
  });
  return { plantId, deviceId, keyId: apiKey.id, commandId };
}

let made: Promise<Named> | undefined;

/** Both windows look at the same things. */
function namedOnce(): Promise<Named> {
  made ??= nameAll();
  return made;
}

async function addMember(admin: AdminClient): Promise<void> {
  const path = `/organizations/${stack.described.organization.id}/invitations`;
  await admin.call('POST', path, { email: MEMBER.email, role: 'OPERATOR' });
  const token = await new World(stack.described, {}).mailedToken(MEMBER.email, 0);
  // Without the login of the admin, who is not the invited person.
  const answer = await fetch(`${stack.url}/api/v1/invitations/accept`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token, confirm: true, name: NAMES.member, password: MEMBER.password }),
  });
  if (!answer.ok) throw new Error(`the invitation is not accepted: ${await answer.text()}`);
}

/** A page, and the text that shows that the page has its data. */
const PAGES: readonly { name: string; path: (named: Named) => string; shows: string }[] = [
  { name: 'the list of sites', path: () => '/sites', shows: NAMES.plant },
  { name: 'a site', path: ({ plantId }) => `/sites/${plantId}`, shows: NAMES.subDevice },
  { name: 'a site with an alert', path: () => `/sites/${stack.plantId}`, shows: NAMES.rule },
  {
    name: 'a command',
    path: ({ commandId }) => `/sites/${stack.plantId}/commands/${commandId}`,
    shows: 'What the sender sent',
  },
  { name: 'the list of devices', path: () => '/devices', shows: NAMES.device },
  { name: 'a device', path: ({ deviceId }) => `/devices/${deviceId}`, shows: NAMES.serial },
  { name: 'the device templates', path: () => '/device-templates', shows: NAMES.template },
  { name: 'the list of keys', path: () => '/keys', shows: NAMES.key },
  { name: 'a key', path: ({ keyId }) => `/keys/${keyId}`, shows: NAMES.partner },
  { name: 'the webhooks', path: () => '/webhooks', shows: NAMES.webhook },
  { name: 'the alerts', path: () => '/alerts', shows: NAMES.rule },
  { name: 'the events', path: ({ plantId }) => `/events?plant=${plantId}`, shows: 'Search in the text' },
  { name: 'the members', path: () => '/members', shows: NAMES.member },
  { name: 'the audit', path: () => '/audit', shows: NAMES.device },
  { name: 'the organization', path: () => '/organization', shows: NAMES.organization },
];

/** Dialogs that list things by their names. */
const DIALOGS: readonly { name: string; path: string; press: string; check?: string }[] = [
  { name: 'that registers a device', path: '/devices', press: 'Register a device' },
  { name: 'that creates a key', path: '/keys', press: 'Create a key', check: 'Only these sites' },
  { name: 'that creates a webhook', path: '/webhooks', press: 'Create a webhook' },
  { name: 'that creates an alert rule', path: '/alerts', press: 'Create a rule' },
];

/** How many pixels the page is wider than its window. */
const excess = (page: Page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** The tables that are wider than their place, each with the pixels that do not fit. */
const cutTables = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('main table')].flatMap((table) => {
      const place = table.parentElement ?? table;
      const pixels = place.scrollWidth - place.clientWidth;
      return pixels > 0 ? [`${table.querySelector('caption')?.textContent}: ${pixels}`] : [];
    }),
  );

describe.skipIf(!HAS_BROWSER).each(WINDOWS)(
  'names of 100 letters in a window of $width pixels',
  (viewport) => {
    let named: Named;
    let page: Page;

    beforeAll(async () => {
      named = await namedOnce();
      ({ page } = await stack.loggedIn('/sites', stack.described.admin, { viewport }));
    }, 60_000);

    it.each(PAGES.map((one) => [one.name, one] as const))(
      'leave the page of %s as wide as the window',
      async (_name, { path, shows }) => {
        await page.goto(`${stack.url}${path(named)}`);
        await page.getByText(shows).first().waitFor({ state: 'attached' });
        await expect.poll(() => excess(page), SOON).toBe(0);
        if (viewport.width > 1_000) await expect.poll(() => cutTables(page), SOON).toEqual([]);
      },
    );

    it.each(DIALOGS.map((one) => [one.name, one] as const))(
      'leave the dialog %s as wide as its frame',
      async (_name, { path, press, check }) => {
        await page.goto(`${stack.url}${path}`);
        await page.getByRole('button', { name: press, exact: true }).click();
        const dialog = page.getByRole('dialog');
        if (check !== undefined) await dialog.getByLabel(check).check();
        const choices = dialog.getByText(/MwMwMw/);
        await choices.first().waitFor({ state: 'attached' });
        expect(await dialog.evaluate((one) => one.scrollWidth - one.clientWidth)).toBe(0);
        expect(await excess(page)).toBe(0);
      },
    );
  },
);
