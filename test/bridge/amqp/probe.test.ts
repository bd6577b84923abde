/** The nonce of a new key's probe: the only client property that travels in the bridge proof [C-5.4]. */
import { describe, expect } from 'vitest';
import { amqpTest } from '#support/bridge-amqp.ts';
import { type Fields, PROTOCOL_HEADER } from '#support/bridge-amqp-frames.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { PROBE_PROPERTY, PROOF_HEADER } from '../../../protocol/link/proof.ts';

const NONCE = '0123456789abcdef0123456789abcdef';

/** `probeOf` logs in with these client properties and returns the nonce that the edge receives. */
const it = amqpTest.extend('probeOf', ({ edge, amqp }) => async (clientProperties: Fields) => {
  const { peer } = amqp.connect();
  peer.write(PROTOCOL_HEADER);
  const credential = { mechanism: 'PLAIN', response: Buffer.from('\0acme\0key') };
  peer.send(METHOD.connectionStartOk, { clientProperties, ...credential, locale: 'en_US' });
  // The login continues with any nonce: only the edge judges it.
  await peer.takeMethods(METHOD.connectionStart, METHOD.connectionTune);
  return edge.dialed.at(-1)?.proof.probe;
});

describe('the client property of a probe', () => {
  it('the nonce of a probe travels in the signed proof of its dial [C-5.4]', async ({ edge, probeOf }) => {
    const capabilities = { authentication_failure_close: true };
    expect(await probeOf({ product: 'x', capabilities, [PROBE_PROPERTY]: NONCE })).toBe(NONCE);
    expect(edge.dialed).toMatchObject([{ username: 'acme', password: 'key' }]);
  });

  it('a later connection without the property has no nonce [C-5.4]', async ({ probeOf }) => {
    expect(await probeOf({ [PROBE_PROPERTY]: NONCE })).toBe(NONCE);
    expect(await probeOf({})).toBe('');
  });

  it.for<[string, unknown]>([
    ['in upper case', NONCE.toUpperCase()],
    ['of 31 characters', NONCE.slice(1)],
    ['of 33 characters', `${NONCE}0`],
    ['that is empty', ''],
    ['that is not hexadecimal', NONCE.replace('0', 'g')],
    ['with a separator in it', `${NONCE.slice(1)};`],
    ['before a line break', `${NONCE}\n`],
    ['after a line', `x\n${NONCE}`],
    ['that is a number', 1_234_567],
    ['that is a boolean', true],
    ['that is a table', { [NONCE]: NONCE }],
    ['that is a list', [NONCE]],
    ['that is void', null],
  ])('a nonce %s is ignored, and the login continues [C-5.4]', async ([_, value], { probeOf }) => {
    expect(await probeOf({ [PROBE_PROPERTY]: value })).toBe('');
  });

  it('a nonce in a capability, a nested table or a prototype is ignored [C-5.4]', async ({ probeOf }) => {
    expect(await probeOf({ capabilities: { [PROBE_PROPERTY]: NONCE } })).toBe('');
    expect(await probeOf({ nested: { [PROBE_PROPERTY]: NONCE } })).toBe('');
    expect(await probeOf({ ['__proto__']: { [PROBE_PROPERTY]: NONCE } })).toBe('');
  });

  it('the seventh field of a proof is the nonce, empty without one [C-5.4]', async ({ edge, probeOf }) => {
    for (const nonce of [undefined, 'nonsense', NONCE]) {
      const probe = await probeOf({ product: 'amqplib', ...(nonce ? { [PROBE_PROPERTY]: nonce } : {}) });
      const fields = String(edge.dialed.at(-1)?.headers[PROOF_HEADER]).split(';');
      const expected = nonce === NONCE ? NONCE : '';
      expect([probe, fields.length, fields[6]]).toEqual([expected, 8, expected]);
    }
  });
});
