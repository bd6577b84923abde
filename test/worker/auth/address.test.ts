/** allowedIps are compared with the client address that the platform reports, on the read surface [C-4.2]. */
import type { KeyClient } from '#workerd/client.ts';
import { lastUsedAtMs } from '#workerd/door.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';

const SITES = '/vcp/sites';
const CLIENT_ADDRESS = 'cf-connecting-ip';

async function statusFrom(key: KeyClient, address: string): Promise<number> {
  return (await key.call(SITES, { headers: { [CLIENT_ADDRESS]: address } })).status;
}

const CASES: { range: string; inside: string[]; outside: string[] }[] = [
  {
    range: '192.0.2.0/24',
    inside: ['192.0.2.0', '192.0.2.7', '192.0.2.255', '::ffff:192.0.2.7', '::ffff:c000:207'],
    outside: ['192.0.3.0', '192.0.1.255', '::ffff:192.0.3.7', '2001:db8::7'],
  },
  { range: '192.0.2.7/32', inside: ['192.0.2.7'], outside: ['192.0.2.6', '192.0.2.8'] },
  { range: '192.0.2.7', inside: ['192.0.2.7', '::ffff:192.0.2.7'], outside: ['192.0.2.70'] },
  { range: '192.0.2.128/25', inside: ['192.0.2.128'], outside: ['192.0.2.127'] },
  { range: '0.0.0.0/0', inside: ['1.2.3.4', '::ffff:1.2.3.4'], outside: ['2001:db8::1'] },
  {
    range: '2001:db8::/32',
    inside: ['2001:db8::1', '2001:DB8:ffff::', '2001:0db8:0000:0000:0000:0000:0000:0001'],
    outside: ['2001:db9::1', '192.0.2.7', '::1'],
  },
  { range: '2001:db8::7/128', inside: ['2001:db8::7'], outside: ['2001:db8::8'] },
  { range: '2001:db8::7', inside: ['2001:db8::7', '2001:db8:0::7'], outside: ['2001:db8::70'] },
  { range: '::ffff:192.0.2.7', inside: ['192.0.2.7', '::ffff:192.0.2.7'], outside: ['192.0.2.8'] },
];

describe('allowedIps', () => {
  it.for(CASES)(
    'the range $range admits $inside and refuses $outside [C-4.2]',
    async ({ range, inside, outside }, { newKey }) => {
      const key = await newKey({ allowedIps: [range] });
      for (const address of inside) expect([address, await statusFrom(key, address)]).toEqual([address, 200]);
      for (const address of outside)
        expect([address, await statusFrom(key, address)]).toEqual([address, 403]);
    },
  );

  it('a range of IPv4-mapped IPv6 addresses also admits plain IPv4 addresses [C-4.2]', async ({ newKey }) => {
    const key = await newKey({ allowedIps: ['::ffff:192.0.2.0/120'] });
    for (const address of ['192.0.2.7', '::ffff:192.0.2.7']) expect(await statusFrom(key, address)).toBe(200);
    for (const address of ['192.0.3.7', '2001:db8::7']) expect(await statusFrom(key, address)).toBe(403);
  });

  it('a key with several ranges admits an address in any of them [C-4.2]', async ({ newKey }) => {
    const key = await newKey({ allowedIps: ['192.0.2.0/28', '198.51.100.9', '2001:db8:1::/48'] });
    for (const address of ['192.0.2.15', '198.51.100.9', '2001:db8:1::9']) {
      expect([address, await statusFrom(key, address)]).toEqual([address, 200]);
    }
    for (const address of ['192.0.2.16', '198.51.100.8', '2001:db8:2::9']) {
      expect([address, await statusFrom(key, address)]).toEqual([address, 403]);
    }
  });

  it('a key without ranges admits every client, even one whose address is not known (spec: allowedIps)', async ({
    newKey,
  }) => {
    const key = await newKey({ allowedIps: [] });
    for (const address of ['192.0.2.7', '2001:db8::7']) expect(await statusFrom(key, address)).toBe(200);
    expect((await key.call(SITES)).status).toBe(200);
  });

  it('a refused address gets 403 and sets no lastUsedAt (spec: 403 FORBIDDEN)', async ({ newKey }) => {
    const key = await newKey({ allowedIps: ['192.0.2.0/24'] });
    const headers = { [CLIENT_ADDRESS]: '203.0.113.1' };
    await expectError(await key.call(SITES, { headers }), 403, 'FORBIDDEN');
    expect(await lastUsedAtMs(key.id)).toBeNull();
  });

  it('a key with ranges, even 0.0.0.0/0, refuses a client whose address is missing or malformed [C-4.2]', async ({
    newKey,
  }) => {
    const key = await newKey({ allowedIps: ['0.0.0.0/0', '::/0'] });
    await expectError(await key.call(SITES), 403, 'FORBIDDEN');
    for (const address of ['unknown', '192.0.2.7, 192.0.2.7', '256.0.0.1', 'localhost']) {
      expect([address, await statusFrom(key, address)]).toEqual([address, 403]);
    }
  });

  it('X-Forwarded-For and similar headers neither admit nor refuse a client [C-4.2]', async ({ newKey }) => {
    const key = await newKey({ allowedIps: ['192.0.2.0/24'] });
    const spoofs = [
      'x-forwarded-for',
      'x-real-ip',
      'forwarded',
      'true-client-ip',
      'x-client-ip',
      'cf-connecting-ipv6',
    ];
    for (const name of spoofs) {
      const value = (address: string) => (name === 'forwarded' ? `for=${address}` : address);
      const opening = { [CLIENT_ADDRESS]: '203.0.113.1', [name]: value('192.0.2.7') };
      await expectError(await key.call(SITES, { headers: opening }), 403, 'FORBIDDEN');
      const alone = { [name]: value('192.0.2.7') };
      await expectError(await key.call(SITES, { headers: alone }), 403, 'FORBIDDEN');
      const closing = { [CLIENT_ADDRESS]: '192.0.2.7', [name]: value('203.0.113.1') };
      expect((await key.call(SITES, { headers: closing })).status).toBe(200);
    }
  });

  it('a key’s ranges also apply to config, commands and telemetry of a site [C-4.2]', async ({ newKey }) => {
    const key = await newKey({ allowedIps: ['192.0.2.0/24'] });
    for (const path of ['config', 'commands', 'telemetry/latest']) {
      const headers = { [CLIENT_ADDRESS]: '203.0.113.1' };
      const response = await key.call(`${SITES}/${crypto.randomUUID()}/${path}`, { headers });
      await expectError(response, 403, 'FORBIDDEN');
    }
  });
});
