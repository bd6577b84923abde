/** API keys in the console: the secret is shown once, its snippet works as shown, and revoking needs the name. */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER } from '#support/console-page.ts';

const PYTHON = '/usr/bin/python3';
const HAS_PIKA = existsSync('/usr/lib/python3/dist-packages/pika');
const stack = consoleStack();

/** Runs a program until it has printed a word, or for half a minute, and returns what it printed. */
async function outputUntil(word: string, file: string, ca: string): Promise<string> {
  // What the sample says for a listener with an own CA.
  const env = { ...process.env, SSL_CERT_FILE: ca };
  const child = spawn(PYTHON, [file], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (part: Buffer) => {
      output += part;
      if (output.includes(word)) child.kill();
    });
  const timer = setTimeout(() => child.kill(), 30_000);
  await new Promise((resolve) => child.on('close', resolve));
  clearTimeout(timer);
  return output;
}

describe.skipIf(!HAS_BROWSER)('the screen of keys', () => {
  let page: Page;
  let complaints: string[];

  beforeAll(async () => {
    ({ page, complaints } = await stack.loggedIn('/keys'));
  }, 60_000);

  it('creates a key, and shows its secrets once', async () => {
    await page.getByRole('button', { name: 'Create a key' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('Night desk');
    await dialog.getByLabel('Partner id').fill('acme-trader');
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    await page.getByText('This is shown only once').waitFor();
    const key = await page.getByLabel('API key', { exact: true }).innerText();
    expect(key).toMatch(/^sw_/);
    const python = await page.getByLabel('Python', { exact: true }).innerText();
    expect(python).toContain(key);
    await dialog.getByRole('button', { name: 'Test the connection' }).click();
    await dialog.getByText('It works.').waitFor();
    if (HAS_PIKA) {
      const file = join(mkdtempSync(join(tmpdir(), 'sitewire-key-')), 'sample.py');
      writeFileSync(file, python);
      expect(await outputUntil('ACCEPTED', file, stack.described.amqp.ca)).toContain('ACCEPTED');
    }
    await dialog.getByRole('button', { name: 'I have stored it' }).click();
    await page.getByRole('link', { name: 'Night desk' }).waitFor();
    await page.reload();
    await page.getByRole('link', { name: 'Night desk' }).waitFor();
    expect(await page.content()).not.toContain(key);
  });

  it('refuses a wrong form with the reason of the API, and keeps what was typed', async () => {
    await page.getByRole('button', { name: 'Create a key' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('Another');
    await dialog.getByLabel('Partner id').fill('acme-trader');
    await dialog.getByLabel('Addresses (optional)').fill('not-an-address');
    await dialog.getByRole('button', { name: 'Create a key' }).click();
    await dialog
      .getByRole('alert')
      .getByText(/allowedIps/)
      .waitFor();
    expect(await dialog.getByLabel('Name').inputValue()).toBe('Another');
    await page.keyboard.press('Escape');
  });

  it('shows what a key does now, with its rejections and what to do about each', async () => {
    const { described, plantId } = stack;
    const { key, id } = described.apiKey;
    const message = JSON.stringify({
      ...{ version: '1.1', messageId: crypto.randomUUID(), timestamp: new Date().toISOString() },
      ...{ source: 'test', siteId: plantId, payload: { type: 'NONE' } },
    });
    const routingKey = `${described.organization.slug}.command.emergency`;
    await fetch(`${stack.url}/api/v1/vcp/sites/${plantId}/commands`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify({ routingKey, message }),
    });
    await page.goto(`${stack.url}/keys/${id}`);
    await page.getByText('The message names each wrong field.').waitFor();
    await page.getByText('INVALID_PAYLOAD').waitFor();
    await page.getByRole('rowheader', { name: /dead-letter$/ }).waitFor();
  });

  it('revokes a key only when its name was typed, and the key is dead at once', async () => {
    await page.goto(`${stack.url}/keys`);
    await page.getByRole('link', { name: 'Night desk' }).click();
    await page.getByRole('button', { name: 'Revoke' }).click();
    const dialog = page.getByRole('dialog');
    const revoke = dialog.getByRole('button', { name: 'Revoke' });
    expect(await revoke.isDisabled()).toBe(true);
    await dialog
      .getByText(/^The key has now: connections 0, messages in its queues \d+, webhooks 0\.$/)
      .waitFor();
    await dialog.getByLabel('Type Night desk to confirm').fill('Night desk');
    await revoke.click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByText('revoked or expired').waitFor();
    const { data } = await stack.call<{ data: { name: string; isActive: boolean }[] }>(
      '/partner/api-keys',
      {},
    );
    expect(data.find(({ name }) => name === 'Night desk')?.isActive).toBe(false);
  });

  it('caused no complaint of the browser', () => {
    expect(complaints.filter((text) => !/status of 400/.test(text))).toEqual([]);
  });
});
