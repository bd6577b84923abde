/** The bridge proof: a request for a link without a readable proof is answered like an unknown path. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import {
  type BridgeProof,
  formatProof,
  LINK_VERSION,
  parseProof,
  proofSigningString,
  servedLinkVersions,
} from '../../protocol/link/proof.ts';

const PROOF: BridgeProof = {
  bridge: 'bridge-1.eu_a',
  boot: 'boot-7',
  connection: '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11',
  address: '2001:db8::7',
  fingerprint: 'ab'.repeat(32),
  timeMs: 1768471200000,
  probe: '',
};
const MAC = 'cd'.repeat(32);

describe('the bridge proof', () => {
  it.each([PROOF, { ...PROOF, address: '192.0.2.7', fingerprint: '' }, { ...PROOF, probe: '0f'.repeat(16) }])(
    'is read back from its header: %j [rule 1]',
    (proof) => {
      expect(parseProof(formatProof(proof, MAC))).toEqual({ proof, mac: MAC });
    },
  );

  it("is eight fields joined by semicolons, of which the last two are the probe's nonce and the MAC [rule 1]", () => {
    expect(formatProof({ ...PROOF, fingerprint: '' }, MAC)).toBe(
      `bridge-1.eu_a;boot-7;6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11;2001:db8::7;;1768471200000;;${MAC}`,
    );
  });

  it.each([
    ['nothing', ''],
    ['no MAC', formatProof(PROOF, MAC).replace(`;${MAC}`, '')],
    ['no probe field', formatProof(PROOF, MAC).replace(';;', ';')],
    ['a probe that is not hex', formatProof({ ...PROOF, probe: 'x' }, MAC)],
    ['a ninth field', `${formatProof(PROOF, 'x')};${MAC}`],
    ['a ninth field after the MAC', `${formatProof(PROOF, MAC)};`],
    ['half a probe', formatProof({ ...PROOF, probe: '0f' }, MAC)],
    ['a separator in a field', formatProof({ ...PROOF, bridge: 'a;b' }, MAC)],
    ['no bridge', formatProof({ ...PROOF, bridge: '' }, MAC)],
    ['an overlong bridge', formatProof({ ...PROOF, bridge: 'b'.repeat(65) }, MAC)],
    ['a boot with a line break', formatProof({ ...PROOF, boot: 'a\nb' }, MAC)],
    ['a connection with spaces', formatProof({ ...PROOF, connection: 'a b' }, MAC)],
    ['no address', formatProof({ ...PROOF, address: '' }, MAC)],
    ['a host name as address', formatProof({ ...PROOF, address: 'localhost' }, MAC)],
    ['a fingerprint in upper case', formatProof({ ...PROOF, fingerprint: 'AB'.repeat(32) }, MAC)],
    ['half a fingerprint', formatProof({ ...PROOF, fingerprint: 'ab' }, MAC)],
    ['no time', formatProof(PROOF, MAC).replace('1768471200000', '')],
    ['a time of zero', formatProof({ ...PROOF, timeMs: 0 }, MAC)],
    ['a negative time', formatProof({ ...PROOF, timeMs: -1 }, MAC)],
    ['half a millisecond', formatProof({ ...PROOF, timeMs: 1.5 }, MAC)],
    ['an endless time', formatProof({ ...PROOF, timeMs: Number.POSITIVE_INFINITY }, MAC)],
    ['a time that is not a number', formatProof({ ...PROOF, timeMs: Number.NaN }, MAC)],
  ])('is refused with %s [rule 1]', (_title, header) => {
    expect(parseProof(header)).toBeUndefined();
  });

  it.each([
    '+1768471200000',
    '01768471200000',
    '1768471200000.0',
    '1.7684712e12',
    '1e12',
    '0x19bc16ee180',
    '1_768_471_200_000',
    '1768471200000n',
    ' 1768471200000',
    '1768471200000 ',
    '1768471200000\n',
    '１768471200000',
    '1000000000000000',
    '9'.repeat(20),
  ])(
    'is refused with the time %j, because only plain digits are read back as they were signed [rule 1]',
    (time) => {
      expect(parseProof(formatProof(PROOF, MAC).replace('1768471200000', time))).toBeUndefined();
    },
  );

  it.each(['1', '999999999999999'])('is accepted with the time %s [rule 1]', (time) => {
    const header = formatProof(PROOF, MAC).replace('1768471200000', time);
    expect(parseProof(header)?.proof.timeMs).toBe(Number(time));
  });

  it.each([
    ['an empty MAC', ''],
    ['half a MAC', 'cd'.repeat(16)],
    ['a MAC one character short', MAC.slice(1)],
    ['a MAC one character long', `${MAC}c`],
    ['a MAC in upper case', MAC.toUpperCase()],
    ['a MAC with one letter in upper case', MAC.replace('d', 'D')],
    ['a MAC that is not hex', MAC.replace('c', 'g')],
    ['a MAC in Base64', 'zc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc0='],
    ['a blank before the MAC', ` ${MAC}`],
    ['a line break after the MAC', `${MAC}\n`],
  ])('is refused with %s [rule 1]', (_title, mac) => {
    expect(parseProof(formatProof(PROOF, mac))).toBeUndefined();
  });

  it('is read back from its printed text, for any time and MAC [rule 1]', () => {
    const hex = fc.stringMatching(/^[0-9a-f]{64}$/);
    forAll(fc.integer({ min: 1, max: 999_999_999_999_999 }), hex, (timeMs, mac) => {
      const header = formatProof({ ...PROOF, timeMs }, mac);
      const parsed = parseProof(header);
      expect(parsed && formatProof(parsed.proof, parsed.mac)).toBe(header);
    });
  });

  it('is read from no random text that would print to a different proof, and no text throws an error [rule 1]', () => {
    forAll(fc.array(fc.string(), { maxLength: 9 }), (fields) => {
      const parsed = parseProof(fields.join(';'));
      if (parsed) expect(parseProof(formatProof(parsed.proof, parsed.mac))).toEqual(parsed);
    });
  });

  it('signs a text that changes with every field, with the path and with the credential [rule 1]', () => {
    const text = proofSigningString(PROOF, '/link/mqtt', 'Basic eDp5');
    expect(text.split('\n')).toEqual([
      'sitewire-bridge',
      ...Object.values(PROOF).map(String),
      '/link/mqtt',
      'Basic eDp5',
    ]);
    const changed = [
      ...Object.keys(PROOF).map((field) =>
        proofSigningString({ ...PROOF, [field]: 'x' }, '/link/mqtt', 'Basic eDp5'),
      ),
      proofSigningString(PROOF, '/link/amqp', 'Basic eDp5'),
      proofSigningString(PROOF, '/link/mqtt', 'Basic eDp6'),
    ];
    expect(new Set([...changed, text]).size).toBe(changed.length + 1);
  });
});

describe('the versions that the edge serves', () => {
  it('are the current version and, if there is one, the previous version', () => {
    expect([1, 2, 7].map((current) => servedLinkVersions(current))).toEqual([[1], [2, 1], [7, 6]]);
    expect(servedLinkVersions()).toEqual(servedLinkVersions(LINK_VERSION));
  });
});
