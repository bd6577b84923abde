/** allowedIps against the platform's own client address, on the read surface [C-4.2]. */
import { describe, expect, it } from 'vitest';
import { lastUsedAtMs } from '../../support/workerd/door.ts';
import { expectError, restRequest, send, settle } from '../../support/workerd/rest.ts';
import { createKey, createOrganization } from '../../support/workerd/world.ts';

const SITES = '/api/v1/vcp/sites';
const CLIENT_ADDRESS = 'cf-connecting-ip';

async function keyFor(allowedIps: string[]): Promise<{ id: string; key: string }> {
  return await createKey(await createOrganization(), { allowedIps });
}

async function statusFrom(key: string, address: string): Promise<number> {
  const response = await send(SITES, { key, headers: { [CLIENT_ADDRESS]: address } });
  await response.arrayBuffer();
  return response.status;
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
  it.each(CASES)(
    '$range lets in $inside and keeps out $outside [C-4.2]',
    async ({ range, inside, outside }) => {
      const { key } = await keyFor([range]);
      for (const address of inside) expect([address, await statusFrom(key, address)]).toEqual([address, 200]);
      for (const address of outside)
        expect([address, await statusFrom(key, address)]).toEqual([address, 403]);
    },
  );

  it('a range written as IPv4 mapped into IPv6 counts as IPv4 too [C-4.2]', async () => {
    const { key } = await keyFor(['::ffff:192.0.2.0/120']);
    for (const address of ['192.0.2.7', '::ffff:192.0.2.7']) expect(await statusFrom(key, address)).toBe(200);
    for (const address of ['192.0.3.7', '2001:db8::7']) expect(await statusFrom(key, address)).toBe(403);
  });

  it('that are several let in an address in any of them [C-4.2]', async () => {
    const { key } = await keyFor(['192.0.2.0/28', '198.51.100.9', '2001:db8:1::/48']);
    for (const address of ['192.0.2.15', '198.51.100.9', '2001:db8:1::9']) {
      expect([address, await statusFrom(key, address)]).toEqual([address, 200]);
    }
    for (const address of ['192.0.2.16', '198.51.100.8', '2001:db8:2::9']) {
      expect([address, await statusFrom(key, address)]).toEqual([address, 403]);
    }
  });

  it('that are empty are no restriction, whatever the address, known or not (spec: allowedIps)', async () => {
    const { key } = await keyFor([]);
    for (const address of ['192.0.2.7', '2001:db8::7']) expect(await statusFrom(key, address)).toBe(200);
    expect((await send(SITES, { key })).status).toBe(200);
  });

  it('refuse with the envelope of 403, and the key does not count as used (spec: 403 FORBIDDEN)', async () => {
    const { id, key } = await keyFor(['192.0.2.0/24']);
    const request = restRequest(SITES, { key, headers: { [CLIENT_ADDRESS]: '203.0.113.1' } });
    await expectError(await settle(request), 403, 'FORBIDDEN');
    expect(await lastUsedAtMs(id)).toBeNull();
  });

  it('refuse a client whose address nobody knows or can read [C-4.2]', async () => {
    const { key } = await keyFor(['0.0.0.0/0', '::/0']);
    await expectError(await send(SITES, { key }), 403, 'FORBIDDEN');
    for (const address of ['unknown', '192.0.2.7, 192.0.2.7', '256.0.0.1', 'localhost']) {
      expect([address, await statusFrom(key, address)]).toEqual([address, 403]);
    }
  });

  it('take no word of the client for its address: forwarding headers neither open nor close [C-4.2]', async () => {
    const { key } = await keyFor(['192.0.2.0/24']);
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
      await expectError(await send(SITES, { key, headers: opening }), 403, 'FORBIDDEN');
      await expectError(
        await send(SITES, { key, headers: { [name]: value('192.0.2.7') } }),
        403,
        'FORBIDDEN',
      );
      const closing = { [CLIENT_ADDRESS]: '192.0.2.7', [name]: value('203.0.113.1') };
      expect((await send(SITES, { key, headers: closing })).status).toBe(200);
    }
  });

  it('hold on every path of the surface [C-4.2]', async () => {
    const { key } = await keyFor(['192.0.2.0/24']);
    for (const path of ['config', 'commands', 'telemetry/latest']) {
      const headers = { [CLIENT_ADDRESS]: '203.0.113.1' };
      const response = await send(`${SITES}/${crypto.randomUUID()}/${path}`, { key, headers });
      await expectError(response, 403, 'FORBIDDEN');
    }
  });
});
