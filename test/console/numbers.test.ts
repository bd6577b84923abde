/** Numbers in the forms: a comma, a dot and a minus as people type and paste them; what is not clear is refused in place. */
import type { Locator, Page } from 'playwright-core';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { consoleStack, HAS_BROWSER } from '#support/console-page.ts';

const stack = consoleStack();
const SOON = { timeout: 15_000 };
const MINUS = '\u2212';
const NBSP = '\u00a0';

/** How the text gets into the field. */
const WAYS = {
  typed: async (_page: Page, field: Locator, text: string) => {
    await field.pressSequentially(text);
  },
  pasted: async (page: Page, field: Locator, text: string) => {
    const before = await field.inputValue();
    await page.evaluate((copied) => navigator.clipboard.writeText(copied), text);
    await field.focus();
    await page.keyboard.press('ControlOrMeta+V');
    // The browser pastes after the key.
    await expect.poll(() => field.inputValue(), SOON).not.toBe(before);
  },
} as const;
type Way = keyof typeof WAYS;
const WAY_NAMES = Object.keys(WAYS) as Way[];

/** For each text, each way. */
const eachWay = <Case extends unknown[]>(cases: Case[]): [...Case, Way][] =>
  cases.flatMap((one) => WAY_NAMES.map((way): [...Case, Way] => [...one, way]));

/** Tries to send the form, and returns what the field says of its value. Fails if the field accepts it. */
async function refusalIn(field: Locator, send: Locator): Promise<string> {
  await send.click();
  await expect.poll(() => field.getAttribute('aria-invalid'), SOON).toBe('true');
  // The error is a text of the page, beside the field and named by it: a bubble of the browser goes away.
  const said = await field.evaluate((one) =>
    (one.getAttribute('aria-describedby') ?? '')
      .split(' ')
      .map((id) => document.getElementById(id))
      .filter((text) => text?.checkVisibility() && text.matches('.inline-error, [role="alert"]'))
      .map((text) => text?.textContent?.trim() ?? '')
      .join(' '),
  );
  expect(said).not.toBe('');
  // The reader finds it: the field has the focus.
  await expect.poll(() => field.evaluate((one) => one === document.activeElement), SOON).toBe(true);
  return said;
}

describe.skipIf(!HAS_BROWSER)('a number in a form of the console', () => {
  let page: Page;
  /** The bodies of the changes that the page has sent, in order. */
  let sent: { path: string; body: Record<string, unknown> }[];

  beforeAll(async () => {
    const permissions = ['clipboard-read', 'clipboard-write'];
    ({ page } = await stack.loggedIn(`/sites/${stack.plantId}`, stack.described.admin, { permissions }));
    await page.locator('.power canvas').waitFor();
    await page.exposeFunction('noteSent', (path: string, text: string) => {
      if (text !== '') sent.push({ path, body: JSON.parse(text) });
    });
    // The browser shows no body of a request that the page has cloned, so the page itself notes it.
    await page.addInitScript(() => {
      const { noteSent } = window as unknown as { noteSent(path: string, text: string): Promise<void> };
      const send = window.fetch;
      window.fetch = async (input, init) => {
        const request = new Request(input, init);
        if (['POST', 'PATCH'].includes(request.method))
          await noteSent(new URL(request.url).pathname, await request.clone().text());
        return await send(request);
      };
    });
    await page.reload();
    await page.locator('.power canvas').waitFor();
  }, 60_000);
  beforeEach(() => {
    sent = [];
  });

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const dialog = () => page.getByRole('dialog');
  /** The answer of the first call whose path ends so. */
  const bodyOf = (end: string) => sent.find(({ path }) => path.endsWith(end))?.body;

  describe('of a setpoint', () => {
    const power = () => page.getByLabel('Power in kW');
    const ask = () => button('Show what would happen');

    beforeEach(async () => {
      if (await dialog().isVisible()) await page.keyboard.press('Escape');
      await dialog().waitFor({ state: 'detached' });
      await power().fill('');
      await page.getByLabel('For how many seconds').fill('');
    });

    it.each(
      eachWay<[string, number]>([
        ['12,5', 12.5],
        ['12.5', 12.5],
        ['0,5', 0.5],
        [',5', 0.5],
        ['12.3456', 12.3456],
        ['0,004', 0.004],
        [`${NBSP}18 `, 18],
      ]),
    )('is read from %j as %d kW, which the confirmation shows, %s', async (text, kw, way) => {
      await WAYS[way](page, power(), text);
      await ask().click();
      await dialog().locator('.dry-run').waitFor();
      expect(bodyOf('/dry-run')).toMatchObject({ payload: { targetValueKw: kw } });
      // The whole value: a rounded one would hide a slip.
      expect(await dialog().innerText()).toMatch(new RegExp(`(?<![\\d.,])${kw} kW`));
    });

    it.each(
      eachWay(
        [
          ...['1.234,5', '1,234.5', '1.234', '1,234', '1 234', `1${NBSP}234`],
          ...[
            `${MINUS}5`,
            '-5',
            '+5',
            '--5',
            '5-',
            '5,',
            '1e3',
            '0x10',
            'Infinity',
            '5 kW',
            '\uff15',
            '\u0665',
          ],
        ].map((text) => [text] as [string]),
      ),
    )('is refused in place for %j, %s', async (text, way) => {
      await WAYS[way](page, power(), text);
      await refusalIn(power(), ask());
      // What the person has written stays, so that they can correct it.
      expect(await power().inputValue()).toBe(text);
      expect(await dialog().count()).toBe(0);
      expect(sent).toEqual([]);
    });

    it('loses its refusal when the person corrects it', async () => {
      await power().fill('1.234,5');
      const said = await refusalIn(power(), ask());
      expect(said).toContain('1.234,5');
      await power().fill('1234,5');
      await expect.poll(() => power().getAttribute('aria-invalid'), SOON).not.toBe('true');
      expect(await page.getByText(said, { exact: true }).count()).toBe(0);
      await power().fill('12,5');
      await ask().click();
      await dialog().locator('.dry-run').waitFor();
    });

    it('is also shown as it was understood when the site would reject the command', async () => {
      await power().fill('500,25');
      await ask().click();
      await dialog().locator('.dry-run').waitFor();
      expect(await dialog().innerText()).toMatch(/(?<![\d.,])500\.25 kW/);
    });

    it('is refused when it is missing', async () => {
      await refusalIn(power(), ask());
      expect(sent).toEqual([]);
    });

    // Without an end the setpoint would hold until another one comes.
    it.each(['0', '1,5', '1.000', '1e3', `${MINUS}60`])('is refused as a duration for %j', async (text) => {
      await power().fill('12');
      await page.getByLabel('For how many seconds').pressSequentially(text);
      await refusalIn(page.getByLabel('For how many seconds'), ask());
      expect(sent).toEqual([]);
    });

    it('is shown with its duration in the confirmation', async () => {
      await power().fill('12,5');
      await page.getByLabel('For how many seconds').fill('90');
      await ask().click();
      await dialog().locator('.dry-run').waitFor();
      expect(await dialog().innerText()).toMatch(/12\.5 kW[\s\S]*\b90 s\b/);
    });
  });

  describe('of an alert rule', () => {
    beforeEach(async () => {
      await page.goto(`${stack.url}/alerts`);
      await button('Create a rule').click();
      await dialog().getByLabel('Metric').fill('gridPowerKw');
    });
    const create = () => dialog().getByRole('button', { name: 'Create a rule' });

    it.each(
      eachWay<[string, number]>([
        [`${MINUS}12,5`, -12.5],
        ['-0,5', -0.5],
        ['99,5', 99.5],
      ]),
    )('is read from %j as the threshold %d, %s', async (text, threshold, way) => {
      await dialog().getByLabel('Name').fill(`Rule ${text} ${way}`);
      await WAYS[way](page, dialog().getByLabel('Threshold'), text);
      await create().click();
      await dialog().waitFor({ state: 'detached' });
      expect(bodyOf('/alerts')).toMatchObject({ threshold });
      await page
        .getByRole('row')
        .filter({ hasText: `Rule ${text} ${way}` })
        .getByText(`is above ${threshold}`)
        .waitFor();
    });

    it.each([
      ['Threshold', '1.234,5'],
      ['Threshold', '1,234'],
      ['Threshold', '1e3'],
      ['For how many seconds', '1.000'],
      ['For how many seconds', '0,5'],
      ['Seconds without a new alert after one has ended', '59'],
      ['Seconds without a new alert after one has ended', '6e1'],
    ])('is refused in place in the field "%s" for %j', async (label, text) => {
      await dialog().getByLabel('Name').fill('Refused');
      await dialog().getByLabel('Threshold').fill('5');
      await dialog().getByLabel(label).fill('');
      await dialog().getByLabel(label).pressSequentially(text);
      await refusalIn(dialog().getByLabel(label), create());
      expect(sent).toEqual([]);
    });
  });

  describe('of other forms', () => {
    it.each(WAY_NAMES)('is read as hours with a comma, and refused when it is not clear, %s', async (way) => {
      const body = {
        ...{ url: `https://hooks.example.com/${way}`, keyId: stack.described.apiKey.id, types: ['ack'] },
      };
      await stack.call('/partner/webhooks', { method: 'POST', body });
      await page.goto(`${stack.url}/webhooks`);
      const panel = page.getByRole('region', { name: body.url });
      await panel.getByText('Last attempts').click();
      const hours = panel.getByLabel('Events of the last hours');
      await hours.fill('');
      await WAYS[way](page, hours, '1.234');
      await refusalIn(hours, panel.getByRole('button', { name: 'Deliver again' }));
      expect(bodyOf('/recover')).toBeUndefined();
      await hours.fill('');
      await WAYS[way](page, hours, '2,5');
      await panel.getByRole('button', { name: 'Deliver again' }).click();
      await expect.poll(() => bodyOf('/recover'), SOON).toBeDefined();
      const sinceMs = Date.now() - Date.parse(String(bodyOf('/recover')?.since));
      expect(Math.abs(sinceMs - 2.5 * 3_600_000)).toBeLessThan(60_000);
    });

    it.each(['1.000', '0', '3651', '1e2', '30,5', `${MINUS}3`])(
      'is refused as the days of a key for %j',
      async (text) => {
        await page.goto(`${stack.url}/keys`);
        await button('Create a key').click();
        await dialog().getByLabel('Name').fill('Refused');
        await dialog().getByLabel('Partner id').fill('refused');
        await dialog().getByLabel('Expires after days').pressSequentially(text);
        await refusalIn(
          dialog().getByLabel('Expires after days'),
          dialog().getByRole('button', { name: 'Create a key' }),
        );
        expect(sent).toEqual([]);
      },
    );

    it.each(['6.000', '6,5', '6e2', '', `${MINUS}60`])(
      'is refused as a setting of the organization for %j',
      async (text) => {
        await page.goto(`${stack.url}/organization`);
        const rate = page.getByLabel('REST requests a minute');
        await rate.fill('');
        await rate.pressSequentially(text);
        await refusalIn(rate, button('Save'));
        expect(sent).toEqual([]);
      },
    );

    it('is never left to the browser, which drops a comma and takes 1e3', async () => {
      const found: string[] = [];
      const look = async (where: string) => {
        const all = await page
          .locator('input[type="number"]')
          .evaluateAll((inputs) => inputs.map((one) => (one as HTMLInputElement).name));
        found.push(...all.map((name) => `${where}: ${name}`));
      };
      await page.goto(`${stack.url}/sites/${stack.plantId}`);
      await page.getByLabel('Power in kW').waitFor();
      await look('site');
      await page.goto(`${stack.url}/organization`);
      await page.getByLabel('REST requests a minute').waitFor();
      await look('organization');
      for (const [path, name] of [
        ['/keys', 'Create a key'],
        ['/alerts', 'Create a rule'],
      ] as const) {
        await page.goto(`${stack.url}${path}`);
        await button(name).click();
        await dialog().waitFor();
        await look(name);
      }
      expect(found).toEqual([]);
    });
  });
});
