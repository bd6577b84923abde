/**
 * MQTT tokens: which key signs them, which tokens are accepted, and whether a rejected one was signed by us
 * [C-3.6], [C-3.11].
 */
import {
  calculateJwkThumbprint,
  decodeJwt,
  decodeProtectedHeader,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
  SignJWT,
} from 'jose';
import { describe, expect, it } from 'vitest';
import { signDeviceToken, verifyDeviceToken } from '../../../durable-objects/secrets/device-tokens.ts';

const DEVICE_ID = '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11';
const HOUR_SECONDS = 3_600;

interface KeyPair {
  private: JWK;
  public: JWK;
  kid: string;
}

async function newKey(kid?: string): Promise<KeyPair> {
  const { privateKey, publicKey } = await generateKeyPair('EdDSA', { extractable: true });
  const named = kid === undefined ? {} : { kid };
  const open = { ...(await exportJWK(publicKey)), ...named };
  return {
    private: { ...(await exportJWK(privateKey)), ...named },
    public: open,
    kid: kid ?? (await calculateJwkThumbprint(open)),
  };
}

function keySet(...keys: JWK[]): string {
  return JSON.stringify({ keys });
}

const now = () => Math.floor(Date.now() / 1_000);

/** A token with any claims, signed by any key, as the holder of that key could make it. */
async function signed(
  { private: jwk, kid }: KeyPair,
  changes: Record<string, unknown> = {},
  header: Record<string, unknown> = {},
): Promise<string> {
  const claims = { iss: 'sitewire', aud: 'mqtt', sub: DEVICE_ID, iat: now(), exp: now() + 60, ...changes };
  return await new SignJWT(claims)
    .setProtectedHeader({ alg: 'EdDSA', kid, ...header })
    .sign(await importJWK(jwk, 'EdDSA'));
}

describe('a token', () => {
  it('is for one device and for MQTT, valid for the requested time, and lists its topics [C-3.6]', async () => {
    const key = await newKey();
    const at = Date.now();
    const { token, expiresAtMs } = await signDeviceToken(keySet(key.private), DEVICE_ID, HOUR_SECONDS, at);
    const expiresAt = Math.floor(at / 1_000) + HOUR_SECONDS;
    expect(expiresAtMs).toBe(expiresAt * 1_000);
    expect(decodeProtectedHeader(token)).toMatchObject({ alg: 'EdDSA', kid: key.kid });
    expect(decodeJwt(token)).toEqual({
      iss: 'sitewire',
      aud: 'mqtt',
      sub: DEVICE_ID,
      iat: at / 1_000,
      exp: expiresAt,
      publish: ['telemetry', 'status', 'ack'].map((name) => `cpi/${DEVICE_ID}/${name}`),
      subscribe: [`cpi/${DEVICE_ID}/commands`],
    });
    expect(await verifyDeviceToken(keySet(key.private), token)).toEqual({
      ok: true,
      token: { deviceId: DEVICE_ID, issuedAtMs: at, expiresAtMs },
    });
  });

  it('may contain its device id in upper case', async () => {
    const key = await newKey();
    const token = await signed(key, { sub: DEVICE_ID.toUpperCase() });
    expect(await verifyDeviceToken(keySet(key.private), token)).toMatchObject({
      ok: true,
      token: { deviceId: DEVICE_ID },
    });
  });
});

describe('a key set', () => {
  it('signs with its first private key, even when public keys come before it', async () => {
    const [old, first, second] = [await newKey(), await newKey('first'), await newKey('second')];
    const set = keySet(old.public, first.private, second.private);
    const { token } = await signDeviceToken(set, DEVICE_ID, 60, Date.now());
    expect(decodeProtectedHeader(token).kid).toBe('first');
    expect((await verifyDeviceToken(keySet(second.private, first.public), token)).ok).toBe(true);
    expect((await verifyDeviceToken(keySet(second.private, old.public), token)).ok).toBe(false);
  });

  it('verifies tokens of each of its keys, private or public, with or without a kid', async () => {
    const keys = [await newKey(), await newKey('named'), await newKey()];
    const set = keySet(keys[0]?.private ?? {}, keys[1]?.public ?? {}, keys[2]?.public ?? {});
    for (const key of keys) expect((await verifyDeviceToken(set, await signed(key))).ok).toBe(true);
  });

  it('verifies tokens of an old key until the key is removed, and signs tokens that verify with its new first key', async () => {
    const [before, after] = [await newKey(), await newKey()];
    const { token } = await signDeviceToken(keySet(before.private), DEVICE_ID, 60, Date.now());
    const both = keySet(after.private, before.public);
    expect((await verifyDeviceToken(both, token)).ok).toBe(true);
    expect(await verifyDeviceToken(keySet(after.private), token)).toMatchObject({ ok: false, isOurs: false });
    const { token: newer } = await signDeviceToken(both, DEVICE_ID, 60, Date.now());
    expect(decodeProtectedHeader(newer).kid).toBe(after.kid);
    expect((await verifyDeviceToken(both, newer)).ok).toBe(true);
    expect((await verifyDeviceToken(keySet(after.private), newer)).ok).toBe(true);
    expect((await verifyDeviceToken(keySet(before.private), newer)).ok).toBe(false);
  });

  it('throws instead of signing if it has no private key', async () => {
    const key = await newKey();
    await expect(signDeviceToken(keySet(key.public), DEVICE_ID, 60, Date.now())).rejects.toThrow(
      /private key/,
    );
  });

  it('rejects a token that none of its keys signed, whatever its kid, and does not count it as ours', async () => {
    const [ours, foreign] = [await newKey(), await newKey()];
    for (const kid of [foreign.kid, ours.kid, 'x', '', '../key']) {
      const token = await signed(foreign, {}, { kid });
      expect(await verifyDeviceToken(keySet(ours.private), token)).toMatchObject({
        ok: false,
        isOurs: false,
      });
    }
  });

  it('never uses a key that the token itself contains (bad input: MQTT)', async () => {
    const [ours, foreign] = [await newKey(), await newKey()];
    const token = await signed(foreign, {}, { jwk: foreign.public });
    expect(await verifyDeviceToken(keySet(ours.private), token)).toMatchObject({ ok: false, isOurs: false });
  });
});

describe('an invalid token that we signed [C-3.11]', () => {
  it.each<[string, () => Record<string, unknown>]>([
    ['expired', () => ({ iat: now() - 120, exp: now() - 60 })],
    ['of another audience', () => ({ aud: 'rest' })],
    ['of another issuer', () => ({ iss: 'other' })],
    ['not valid yet', () => ({ nbf: now() + 60 })],
    ['without a subject', () => ({ sub: undefined })],
    ['with a subject that is not a device', () => ({ sub: 'gateway-1' })],
    ['without an expiry', () => ({ exp: undefined })],
    ['without an issue time', () => ({ iat: undefined })],
    ['with its expiry as text', () => ({ exp: String(now() + 60) })],
  ])('(%s) is rejected, and counts as ours', async (_title, changes) => {
    const key = await newKey();
    const verdict = await verifyDeviceToken(keySet(key.private), await signed(key, changes()));
    const deviceId = 'sub' in changes() ? null : DEVICE_ID;
    expect(verdict).toEqual({
      ok: false,
      isOurs: true,
      deviceId,
      reason: expect.stringMatching(/^(token |the subject of the token )/),
    });
  });
});

describe('a token that is not ours', () => {
  it.each<[string, (token: string) => string]>([
    ['an empty text', () => ''],
    ['a word', () => 'token'],
    ['two dots', () => '..'],
    ['only dots', () => '.....'],
    ['no signature', (token) => token.slice(0, token.lastIndexOf('.') + 1)],
    ['half a signature', (token) => token.slice(0, -40)],
    ['other claims under its signature', (token) => token.replace(/\.[^.]+\./, `.${btoa('{"sub":"x"}')}.`)],
    ['a header that is not JSON', (token) => token.replace(/^[^.]+/, btoa('hello'))],
    ['a header that is a list', (token) => token.replace(/^[^.]+/, btoa('[]'))],
    ['a header without alg', (token) => token.replace(/^[^.]+/, btoa('{}').replaceAll('=', ''))],
    ['alg none', (token) => `${btoa('{"alg":"none"}').replaceAll('=', '')}.${token.split('.')[1]}.`],
    ['alg HS256', (token) => token.replace(/^[^.]+/, btoa('{"alg":"HS256"}').replaceAll('=', ''))],
    [
      'crit of an unknown kind',
      (token) => token.replace(/^[^.]+/, btoa('{"alg":"EdDSA","crit":["x"],"x":1}')),
    ],
    ['NUL', () => '\0'],
    ['a lone surrogate', () => '\ud800.\ud800.\ud800'],
    ['100 000 characters', () => 'a'.repeat(100_000)],
    ['100 000 dots', () => '.'.repeat(100_000)],
    ['a second token after it', (token) => `${token}.${token}`],
    ['white space before it', (token) => ` ${token}`],
  ])(
    '(%s) is refused without an exception, and does not count as ours (bad input: MQTT)',
    async (_title, change) => {
      const key = await newKey();
      const { token } = await signDeviceToken(keySet(key.private), DEVICE_ID, 60, Date.now());
      const verdict = await verifyDeviceToken(keySet(key.private), change(token));
      expect(verdict).toEqual({ ok: false, isOurs: false, reason: expect.stringMatching(/\S/) });
    },
  );

  it('is refused when it is signed with HS256 and our public key as the secret, under our kid', async () => {
    const key = await newKey();
    const secret = new TextEncoder().encode(JSON.stringify(key.public));
    const token = await new SignJWT({
      sub: DEVICE_ID,
      iss: 'sitewire',
      aud: 'mqtt',
      iat: now(),
      exp: now() + 60,
    })
      .setProtectedHeader({ alg: 'HS256', kid: key.kid })
      .sign(secret);
    expect(await verifyDeviceToken(keySet(key.private), token)).toMatchObject({ ok: false, isOurs: false });
  });
});
