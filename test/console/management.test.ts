/** What people set up: alert rules, templates, devices, webhooks and their own address; and the check of a signature. */
import { createHmac } from 'node:crypto';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER } from '#support/console-page.ts';
import { partnerOf } from '#support/dev-stack.ts';
import { WebhookReceiver } from '#support/webhook-receiver.ts';
import { EXCHANGE } from '../../protocol/routing-keys.ts';

const stack = consoleStack();
const SOON = { timeout: 20_000 };

describe.skipIf(!HAS_BROWSER)('an admin', () => {
  let page: Page;
  let complaints: string[];
  let receiver: WebhookReceiver;

  beforeAll(async () => {
    ({ page, complaints } = await stack.loggedIn('/alerts'));
    receiver = await WebhookReceiver.start();
  }, 60_000);
  afterAll(() => receiver.stop());

  const dialog = () => page.getByRole('dialog');
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();

  it('makes an alert rule for a site, which opens an alert, and changes it', async () => {
    await press('Create a rule');
    await dialog().getByLabel('Name').fill('Any power');
    await dialog().getByLabel('Severity').selectOption('critical');
    await dialog().getByLabel('About').selectOption(`plant ${stack.plantId}`);
    await dialog().getByLabel('Metric').fill('gridPowerKw');
    await dialog().getByLabel('Condition').selectOption('is above');
    await dialog().getByLabel('Threshold').fill('-1000');
    await dialog().getByLabel('For how many seconds').fill('0');
    await dialog().getByRole('checkbox').first().check();
    await dialog().getByRole('button', { name: 'Create a rule' }).click();
    const rule = page.locator('tr', { hasText: 'Any power' }).last();
    await rule.getByText('gridPowerKw is above -1000').waitFor();
    await expect.poll(() => page.getByText(/^Any power: gridPowerKw is/).count(), SOON).toBe(1);
    await rule.getByRole('button', { name: 'Change Any power' }).click();
    expect(await dialog().getByLabel('Threshold').inputValue()).toBe('-1000');
    expect(await dialog().getByRole('checkbox').first().isChecked()).toBe(true);
    await dialog().getByLabel('Threshold').fill('-2000');
    await dialog().getByRole('button', { name: 'Save' }).click();
    await rule.getByText('gridPowerKw is above -2000').waitFor();
  });

  it('acknowledges an alert with a note, and resolves it', async () => {
    const alert = page.locator('tr', { hasText: 'Any power: gridPowerKw' });
    await alert.getByRole('button', { name: /^Acknowledge / }).click();
    await dialog().getByLabel('Note (optional)').fill('looked at');
    await dialog().getByRole('button', { name: 'Acknowledge', exact: true }).click();
    await page.getByText('No alert in this state.').waitFor();
    await page.getByLabel('Status').selectOption('acknowledged');
    await alert.getByText('looked at').waitFor();
    await alert.getByRole('button', { name: /^Resolve / }).click();
    await dialog().getByRole('button', { name: 'Resolve', exact: true }).click();
    await page.getByLabel('Status').selectOption('resolved');
    await alert.getByText('looked at').waitFor();
    expect(await alert.getByRole('button').count()).toBe(0);
  });

  it('disables a rule', async () => {
    const rule = page.locator('tr', { hasText: 'gridPowerKw is above -2000' });
    await rule.getByRole('button', { name: 'Disable' }).click();
    await rule.getByText('disabled').waitFor();
    const rules = await stack.call<{ data: { name: string; enabled: boolean; mailTo: string[] }[] }>(
      '/alerts?kind=RULE',
    );
    expect(rules.data).toMatchObject([
      { name: 'Any power', enabled: false, threshold: -2000, mailTo: [expect.any(String)] },
    ]);
  });

  it('makes a rule for a missing value, which has no threshold', async () => {
    await press('Create a rule');
    await dialog().getByLabel('Name').fill('No meter');
    await dialog().getByLabel('Metric').fill('METER-1/powerKw');
    await dialog().getByLabel('Condition').selectOption('is missing');
    expect(await dialog().getByLabel('Threshold').count()).toBe(0);
    await dialog().getByLabel('For how many seconds').fill('600');
    await dialog().getByRole('button', { name: 'Create a rule' }).click();
    await page.getByText('METER-1/powerKw is missing for 600 s').waitFor();
  });

  it('makes a device template, sees what is wrong with one, changes it and deletes it', async () => {
    await page.goto(`${stack.url}/devices`);
    await page.getByRole('link', { name: 'Device templates' }).click();
    await press('Create a template');
    const json = dialog().getByLabel('Template as JSON');
    const first = JSON.parse(await json.inputValue());
    await json.fill('{"name": ');
    await dialog().getByRole('button', { name: 'Save' }).click();
    await dialog().getByRole('alert').getByText('This is no JSON').waitFor();
    await json.fill(JSON.stringify({ ...first, signals: [{ ...first.signals[0], kind: 'COLOUR' }] }));
    await dialog().getByRole('button', { name: 'Save' }).click();
    await dialog()
      .getByRole('alert')
      .getByText(/signals/)
      .waitFor();
    await json.fill(JSON.stringify(first));
    await dialog().getByRole('button', { name: 'Save' }).click();
    const row = page.locator('tr', { hasText: 'Acme PowerBox 50' });
    await row.getByText('your organization').waitFor();
    await row.getByRole('button', { name: 'Change' }).click();
    for (const [wrong, said] of [
      ['null', 'must be a JSON object'],
      [JSON.stringify({ ...first, assetType: 'FVE' }), 'it stays BESS'],
    ] as const) {
      await json.fill(wrong);
      await dialog().getByRole('button', { name: 'Save' }).click();
      await dialog().getByRole('alert').getByText(said).waitFor();
    }
    // What was written survives the key that closes other dialogs.
    await page.keyboard.press('Escape');
    expect(await json.inputValue()).toContain('FVE');
    await json.fill(JSON.stringify({ ...first, model: 'PowerBox 60' }));
    await dialog().getByRole('button', { name: 'Save' }).click();
    await row.getByText('Acme PowerBox 60').waitFor();
    const system = page.locator('tr', { hasText: 'the platform' }).first();
    expect(await system.getByRole('button').count()).toBe(0);
  });

  it('moves a device to another site, gives it a template, and issues a new certificate', async () => {
    const site = await stack.call<{ id: string }>('/plants', {
      method: 'POST',
      body: { name: 'Second site', timezone: 'UTC' },
    });
    const device = await stack.call<{ id: string }>('/devices', {
      method: 'POST',
      body: { name: 'Roof gateway', serialNumber: 'GW-ROOF', type: 'GATEWAY', authMethod: 'MTLS' },
    });
    await page.goto(`${stack.url}/devices/${device.id}`);
    await page.getByRole('combobox', { name: 'Site', exact: true }).selectOption('Second site');
    await page.getByLabel('Template', { exact: true }).selectOption('Acme PowerBox 50');
    await press('Save');
    await page.getByRole('link', { name: `${site.id.slice(0, 8)}…` }).waitFor();
    await page.getByText('Saved.').waitFor();
    await press('Save');
    await page.getByText('Nothing has changed.').waitFor();
    await press('Provision');
    await dialog().getByText('too long for a QR code').waitFor();
    await dialog().getByRole('button', { name: 'Close' }).click();
    await press('Issue a new certificate');
    await dialog().getByLabel('Certificate request').fill('no request');
    await dialog().getByRole('button', { name: 'Issue a new certificate' }).click();
    await dialog().getByRole('alert').getByText(/csr/).waitFor();
    await dialog().getByLabel('Certificate request').fill('');
    await dialog().getByRole('button', { name: 'Issue a new certificate' }).click();
    const issued = dialog().getByRole('region', { name: 'Certificate', exact: true });
    expect(await issued.innerText()).toMatch(/^-----BEGIN CERTIFICATE/);
    const saved = page.waitForEvent('download');
    await dialog().getByRole('button', { name: 'Save as Roof gateway-key.pem' }).click();
    expect((await saved).suggestedFilename()).toBe('Roof gateway-key.pem');
    await dialog().getByRole('button', { name: 'Close' }).click();
    await page.getByLabel('Template', { exact: true }).selectOption('none');
    await press('Save');
    await expect
      .poll(() => stack.call(`/devices/${device.id}`), SOON)
      .toMatchObject({ plantId: site.id, templateId: null, status: 'ACTIVE' });
    // The button that changed nothing has left no trace.
    const { data: updates } = await stack.call<{ data: { target: { id: string }; count: number }[] }>(
      '/audit-events?event=device.updated',
    );
    const own = updates.filter(({ target }) => target.id === device.id);
    expect(own.reduce((sum, { count }) => sum + count, 0)).toBe(2);
    // A device that serves a site is moved only when the reader confirms it.
    await page.getByRole('combobox', { name: 'Site', exact: true }).selectOption('none');
    await press('Save');
    await dialog().getByText('The device leaves Second site').waitFor();
    expect(await stack.call(`/devices/${device.id}`)).toMatchObject({ plantId: site.id });
    await dialog().getByRole('button', { name: 'Move it' }).click();
    await dialog().waitFor({ state: 'detached' });
    expect(await stack.call(`/devices/${device.id}`)).toMatchObject({ plantId: null });
    await page.goto(`${stack.url}/device-templates`);
    const row = page.locator('tr', { hasText: 'Acme PowerBox 50' });
    await row.getByRole('button', { name: 'Delete' }).click();
    await dialog().getByRole('button', { name: 'Delete', exact: true }).click();
    await row.waitFor({ state: 'detached' });
    // The row of the button is gone: the keyboard goes on in the content.
    await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe('main');
  });

  it('sends one event of a webhook again, and checks its signature with the key', async () => {
    const { apiKey, organization } = stack.described;
    await stack.call('/partner/webhooks', {
      method: 'POST',
      body: { url: receiver.url, keyId: apiKey.id, types: ['alarm'] },
    });
    await stack.behave('faulty');
    await expect.poll(() => receiver.events.length, SOON).toBeGreaterThan(0);
    await page.goto(`${stack.url}/webhooks`);
    await page.getByText('Last attempts').click();
    await page.getByText('Events behind').waitFor();
    const again = page.getByRole('button', { name: /^Send it again / }).last();
    await again.waitFor();
    await stack.behave('on');
    await again.click();
    await expect
      .poll(() => receiver.events.length - new Set(receiver.events.map(({ id }) => id)).size, SOON)
      .toBe(1);
    await page.getByLabel('Events of the last hours').fill('0.5');
    await press('Deliver again');
    await expect
      .poll(() => receiver.events.length - new Set(receiver.events.map(({ id }) => id)).size, SOON)
      .toBeGreaterThan(1);
    await page.getByRole('button', { name: /^Send a test message / }).click();
    await page.getByRole('status').getByText('success').waitFor();

    await page.goto(`${stack.url}/events`);
    await page.getByRole('link', { name: 'Check a signature' }).click();
    const [message] = receiver.events;
    await page.getByLabel('Message', { exact: true }).fill(message?.body ?? '');
    await page.getByLabel('Routing key').selectOption(`${organization.slug}.event.alarm`);
    await page.getByLabel('Signing key').fill(apiKey.signingKey);
    await press('Check');
    await page.getByText('The signature is that of this text with this key.').waitFor();
    const signed = await page.getByRole('region', { name: 'The text that is signed' }).innerText();
    const { signature } = JSON.parse(message?.data ?? '{}') as { signature: string };
    expect(createHmac('sha256', apiKey.signingKey).update(signed).digest('hex')).toBe(signature);
    await page.getByLabel('Signing key').fill('another key');
    // The verdict on the key before is gone.
    expect(await page.getByText('The signature is that of this text with this key.').count()).toBe(0);
    await press('Check');
    await page.getByText('The signature is another one').waitFor();
  });

  it('follows the signed events of a key, and sees whether each signature is valid', async () => {
    const { apiKey } = stack.described;
    await page.goto(`${stack.url}/events`);
    const follow = async (key: string, signingKey: string) => {
      await page.getByText('Follow the events of one API key').click();
      await page.getByLabel('API key').fill(key);
      await page.getByLabel('Signing key').fill(signingKey);
      await press('Follow this key');
    };
    await follow(apiKey.key, apiKey.signingKey);
    const first = page.locator('.tail summary').first();
    await first.getByText('signature valid').waitFor(SOON);
    expect(await page.getByText('does not match').count()).toBe(0);
    await page.evaluate(() => {
      navigator.clipboard.writeText = (text) => {
        document.body.dataset.copied = text;
        return Promise.resolve();
      };
    });
    await first.click();
    await page.locator('.tail').getByRole('button', { name: 'Copy' }).first().click();
    const copied = await page.evaluate(() => document.body.dataset.copied ?? '');
    expect(JSON.parse(copied)).toMatchObject({ siteId: stack.plantId, signature: expect.any(String) });
    await press('Back to all events');
    await follow(apiKey.key, 'another key');
    await page.locator('.tail summary').first().getByText('does not match').waitFor(SOON);
    await press('Back to all events');
    await follow('pk_wrong', apiKey.signingKey);
    await page.getByText('the platform does not accept this key here').waitFor();
    // A wrong key does not end the session.
    await press('Back to all events');
    await page.getByText('live', { exact: true }).waitFor();
  });

  it('reads a dead letter of a key, and deletes it only after a confirmation', async () => {
    const { organization } = stack.described;
    const partner = await partnerOf(stack.described);
    const routingKey = `${organization.slug}.command.mode`;
    partner.channel.publish(EXCHANGE, routingKey, Buffer.from('{"no": "envelope"}'));
    await partner.channel.waitForConfirms();
    await partner.close();
    await page.goto(`${stack.url}/events`);
    await page.getByRole('link', { name: 'Dead letters' }).click();
    const letter = page.locator('.plain-list li', { hasText: routingKey });
    await letter.locator('summary').click();
    expect(await letter.getByRole('region', { name: 'Message' }).innerText()).toBe('{"no": "envelope"}');
    await letter.getByRole('button', { name: /^Delete / }).click();
    await dialog().getByText('The message is gone for ever.').waitFor();
    expect(await letter.count()).toBe(1);
    await dialog().getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('No message was dead-lettered.').waitFor();
  });

  it('gives a device a new token, and decommissions it when its name was typed', async () => {
    const { id } = await stack.call<{ id: string }>('/devices', {
      method: 'POST',
      body: { name: 'Spare', serialNumber: 'GW-SPARE', type: 'GATEWAY', authMethod: 'TOKEN' },
    });
    await page.goto(`${stack.url}/devices/${id}`);
    await press('Provision');
    await page.keyboard.press('Escape');
    // A package that is shown once does not go with a key that closes other dialogs.
    await dialog().getByRole('button', { name: 'Close' }).click();
    await press('Issue a new token');
    await dialog().getByRole('button', { name: 'Save as Spare-token.txt' }).waitFor();
    await dialog().getByRole('button', { name: 'Close' }).click();
    const open = () => page.getByRole('button', { name: 'Decommission Spare' }).click();
    const confirm = dialog().getByRole('button', { name: 'Decommission', exact: true });
    await open();
    await dialog().getByLabel('Type Spare to confirm').fill('Spare');
    await dialog().getByRole('button', { name: 'Close' }).click();
    // What was typed is gone with its dialog.
    await open();
    expect(await confirm.isDisabled()).toBe(true);
    await dialog().getByLabel('Type Spare to confirm').fill('Spare');
    await confirm.click();
    await page.getByText('decommissioned').waitFor();
    expect(await page.getByRole('button', { name: 'Rotate the secret' }).count()).toBe(0);
  });

  it('finds an event in the audit by its name and its day', async () => {
    await page.goto(`${stack.url}/audit`);
    await page.getByLabel('Event', { exact: true }).selectOption('device.moved');
    const names = async () => (await page.locator('tbody th').allInnerTexts()).join(' ');
    await expect.poll(names, SOON).toMatch(/^device\.moved( 2 times| device\.moved)$/);
    await page.getByLabel('Day').fill('2020-01-01');
    await page.getByText('No event yet.').waitFor();
  });

  it('asks for another e-mail address, and cancels that', async () => {
    await page.goto(`${stack.url}/account`);
    await page.getByLabel('New e-mail address').fill('other@example.org');
    const form = page.locator('form', { hasText: 'New e-mail address' });
    await form.getByLabel('Current password').fill('wrong');
    await press('Change the address');
    await form.getByRole('alert').waitFor();
    await form.getByLabel('Current password').fill(stack.described.admin.password);
    await press('Change the address');
    await page.getByText('A mail with a link is on its way to other@example.org').waitFor();
    await page.reload();
    await page.getByText('A mail with a link is on its way to other@example.org').waitFor();
    await press('Cancel the change');
    await page.getByLabel('New e-mail address').waitFor();
  });

  it('makes the browser complain about nothing but refusals', () => {
    expect(complaints.filter((text) => !text.includes('Failed to load resource'))).toEqual([]);
  });
});
