/** Certificates of devices: issued by provisioning, from the device’s own request, and again [C-3.3]. */
import 'reflect-metadata';
import { env } from 'cloudflare:workers';
import * as x509 from '@peculiar/x509';
import { dialWith } from '#workerd/certificates.ts';
import { describe, expect, expectError, expectInvalid, it } from '#workerd/worker-test.ts';

const MINUTE_MS = 60_000;
const MTLS = { authMethod: 'MTLS' };
const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const P384 = { name: 'ECDSA', namedCurve: 'P-384', hash: 'SHA-384' };
const P521 = { name: 'ECDSA', namedCurve: 'P-521', hash: 'SHA-512' };
const rsa = (modulusLength: number) => ({
  name: 'RSASSA-PKCS1-v1_5',
  hash: 'SHA-256',
  publicExponent: new Uint8Array([1, 0, 1]),
  modulusLength,
});

async function newPair(algorithm: object): Promise<CryptoKeyPair> {
  return (await crypto.subtle.generateKey(algorithm as never, true, ['sign', 'verify'])) as CryptoKeyPair;
}

/** A certificate request with another subject than the certificate will have. */
async function requestOf(algorithm: object, keys?: CryptoKeyPair): Promise<x509.Pkcs10CertificateRequest> {
  return await x509.Pkcs10CertificateRequestGenerator.create({
    name: 'CN=another device, O=Attacker',
    keys: keys ?? (await newPair(algorithm)),
    signingAlgorithm: algorithm as never,
    extensions: [new x509.BasicConstraintsExtension(true, 2, true)],
  });
}

/** The PEM of a request with one byte changed. */
function tampered(request: x509.Pkcs10CertificateRequest, at: (length: number) => number): string {
  const bytes = new Uint8Array(request.rawData.slice(0));
  const index = at(bytes.length);
  bytes[index] = (bytes[index] ?? 0) ^ 1;
  return x509.PemConverter.encode(bytes.buffer, 'CERTIFICATE REQUEST');
}

async function publicPart(key: CryptoKey): Promise<JsonWebKey> {
  const { x, y, n, e } = (await crypto.subtle.exportKey('jwk', key)) as JsonWebKey;
  return { x, y, n, e } as JsonWebKey;
}

async function jwkOf(key: x509.PublicKey): Promise<JsonWebKey> {
  return await publicPart(await key.export());
}

async function jwkOfPrivate(pem = ''): Promise<JsonWebKey> {
  const der = x509.PemConverter.decodeFirst(pem);
  return await publicPart(await crypto.subtle.importKey('pkcs8', der, P256, true, ['sign']));
}

/** Checks the fields that every device certificate has. */
async function expectOurs(pem: string, deviceId: string, expiresAt: string): Promise<x509.X509Certificate> {
  const certificate = new x509.X509Certificate(pem);
  const authority = new x509.X509Certificate(env.DEVICE_CA_CERTIFICATE ?? '');
  expect([certificate.subject, certificate.issuer]).toEqual([`CN=${deviceId}`, authority.subject]);
  expect(await certificate.verify({ publicKey: authority.publicKey, date: new Date() })).toBe(true);
  expect(certificate.notAfter.toISOString()).toBe(expiresAt);
  expect(certificate.notAfter.getTime()).toBeGreaterThan(Date.now());
  expect(certificate.getExtension(x509.BasicConstraintsExtension)?.ca).toBe(false);
  const usages = certificate.getExtension(x509.ExtendedKeyUsageExtension)?.usages;
  expect(usages).toEqual([x509.ExtendedKeyUsage.clientAuth]);
  return certificate;
}

describe('the package of a device with a certificate', () => {
  it('the package has a secret, a certificate, its key and port 8883 [C-3.3]', async ({ team }) => {
    const { id } = await team.newDevice(MTLS);
    const { security, ...rest } = await team.provision(id);
    const mqtt = { broker: 'mqtts://mqtt.example.org:8883', port: 8883 };
    expect(rest).toMatchObject({ deviceId: id, authMethod: 'MTLS', mqtt });
    expect(security).toEqual({
      hmacSecret: expect.stringMatching(/^[0-9a-f]{64}$/),
      certificate: expect.stringMatching(/^-----BEGIN CERTIFICATE-----/),
      privateKey: expect.stringMatching(/^-----BEGIN PRIVATE KEY-----/),
      certificateExpiresAt: expect.stringMatching(/Z$/),
    });
    expect(await team.readDevice(id)).toMatchObject({ status: 'ACTIVE', tokenExpiresAt: null });
  });

  it('the certificate names the device, and its public key belongs to the private key [C-3.3]', async ({
    team,
  }) => {
    const { id, security } = await team.newMtlsDevice();
    const certificate = await expectOurs(security.certificate, id, security.certificateExpiresAt);
    expect(await jwkOf(certificate.publicKey)).toEqual(await jwkOfPrivate(security.privateKey));
  });

  it('the certificate lets only its device connect, and a client with another user name is in its diagnostics [C-3.3]', async ({
    team,
  }) => {
    const [one, other] = [await team.newMtlsDevice(), await team.newMtlsDevice()];
    expect((await dialWith(one.id, one.security.certificate)).status).toBe(101);
    // The bridge passes on the user name of a client if it is not that of the certificate.
    expect((await dialWith(one.id, one.security.certificate, 'gateway-1')).status).toBe(401);
    expect((await dialWith(one.id, other.security.certificate)).status).toBe(401);
    const { connects } = await team.diagnosticsOf(one.id);
    expect(connects.map(({ outcome }) => outcome)).toEqual(['REFUSED', 'REFUSED', 'ACCEPTED']);
    expect(connects[1]?.reason).toBe(
      'the client sent the user name "gateway-1" with the certificate of this device: send none, or the device id',
    );
  });
});

describe('provisioning with a certificate request (CSR)', () => {
  it.for([
    ['EC P-256', P256],
    ['EC P-384', P384],
    ['RSA 2048', rsa(2_048)],
  ] as const)(
    'a CSR with a key of %s gets a certificate for that key, and no private key [C-3.3]',
    async ([_name, algorithm], { team }) => {
      const request = await requestOf(algorithm);
      const { id } = await team.newDevice(MTLS);
      const { security } = await team.provision(id, { csr: request.toString('pem') });
      expect(Object.keys(security).sort()).toEqual(['certificate', 'certificateExpiresAt', 'hmacSecret']);
      const { certificate = '', certificateExpiresAt = '' } = security;
      const issued = await expectOurs(certificate, id, certificateExpiresAt);
      expect(await jwkOf(issued.publicKey)).toEqual(await jwkOf(request.publicKey));
      expect((await dialWith(id, certificate)).status).toBe(101);
    },
  );

  it('a CSR with a weak key, a wrong signature or malformed text gets 400; the device stays PENDING [C-3.3]', async ({
    team,
  }) => {
    const request = await requestOf(P256);
    const { privateKey: mine } = await newPair(P256);
    const foreign = { publicKey: (await newPair(P256)).publicKey, privateKey: mine };
    const { security } = await team.newMtlsDevice();
    const bad: Record<string, string> = {
      'RSA 1024': (await requestOf(rsa(1_024))).toString('pem'),
      'EC P-521': (await requestOf(P521)).toString('pem'),
      'another signature': tampered(request, (length) => length - 1),
      'another subject': tampered(request, () => 30),
      'another’s key': (await requestOf(P256, foreign)).toString('pem'),
      nothing: '',
      garbage: 'x',
      'an empty block': '-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----',
      'a block of zeros': x509.PemConverter.encode(new ArrayBuffer(64), 'CERTIFICATE REQUEST'),
      'a certificate': security.certificate,
      'a private key': security.privateKey ?? '',
      'too much': 'x'.repeat(16 * 1_024 + 1),
    };
    const { id } = await team.newDevice(MTLS);
    for (const [what, csr] of Object.entries(bad)) {
      await expectInvalid(await team.admin.operate(id, 'provision', { csr }), 'csr', what);
      expect([what, (await team.readDevice(id)).status]).toEqual([what, 'PENDING']);
    }
    await team.provision(id, { csr: request.toString('pem') });
  });
});

describe('POST /devices/{id}/certificate', () => {
  it('returns a new certificate; the previous one stays valid for 60 minutes [C-3.3]', async ({ team }) => {
    const { id, security } = await team.newMtlsDevice();
    const beforeMs = Date.now();
    const again = await team.reissue(id);
    const graceMs = Date.parse(again.previousUntil ?? '') - 60 * MINUTE_MS;
    expect(graceMs).toBeGreaterThanOrEqual(beforeMs);
    expect(graceMs).toBeLessThanOrEqual(Date.now());
    expect(again).toEqual({
      deviceId: id,
      certificate: expect.any(String),
      privateKey: expect.any(String),
      certificateExpiresAt: expect.any(String),
      previousUntil: expect.any(String),
    });
    const certificate = await expectOurs(again.certificate, id, again.certificateExpiresAt);
    expect(await jwkOf(certificate.publicKey)).toEqual(await jwkOfPrivate(again.privateKey));
    expect(again.certificate).not.toBe(security.certificate);
    for (const pem of [again.certificate, security.certificate])
      expect((await dialWith(id, pem)).status).toBe(101);
    const sibling = await team.newMtlsDevice();
    expect((await dialWith(id, sibling.security.certificate)).status).toBe(401);
    expect((await dialWith(sibling.id, again.certificate)).status).toBe(401);
  });

  it('returns no private key for a CSR; a third certificate makes the first one invalid if the device never used it [C-3.3]', async ({
    team,
  }) => {
    const { id, security } = await team.newMtlsDevice();
    const csr = (await requestOf(P256)).toString('pem');
    const second = await team.reissue(id, { csr });
    expect(Object.keys(second)).not.toContain('privateKey');
    const third = await team.reissue(id);
    const dials = [security, second, third].map(({ certificate }) => dialWith(id, certificate));
    expect((await Promise.all(dials)).map(({ status }) => status)).toEqual([401, 101, 101]);
  });

  it('an invalid CSR gets 400, and the current certificate stays valid [C-3.3]', async ({ team }) => {
    const { id, security } = await team.newMtlsDevice();
    for (const csr of ['', 'x', (await requestOf(rsa(1_024))).toString('pem')]) {
      await expectError(await team.admin.operate(id, 'certificate', { csr }), 400, 'VALIDATION_ERROR');
    }
    expect((await dialWith(id, security.certificate)).status).toBe(101);
  });

  it('a certificate for a device with a token is refused with 409 [C-3.3]', async ({ team }) => {
    const id = await team.newDeviceIn('ACTIVE');
    await expectError(await team.admin.operate(id, 'certificate'), 409, 'CONFLICT');
  });

  it('gets 503 where the deployment has no DEVICE_CA, as provisioning does, and the certificate stays valid [C-10]', async ({
    team,
  }) => {
    const { id, security } = await team.newMtlsDevice();
    const [pending, withToken] = [await team.newDevice(MTLS), await team.newDevice()];
    for (const bindings of [{ DEVICE_CA_CERTIFICATE: '' }, { DEVICE_CA_KEY: '' }]) {
      for (const path of [`/devices/${id}/certificate`, `/devices/${pending.id}/provision`]) {
        const response = await team.admin.call(path, { method: 'POST' }, bindings);
        expect(response.headers.get('retry-after')).toBe('3600');
        const { message } = await expectError(response, 503, 'SERVICE_UNAVAILABLE');
        expect(message).toContain('MTLS');
      }
    }
    expect((await team.readDevice(pending.id)).status).toBe('PENDING');
    expect((await dialWith(id, security.certificate)).status).toBe(101);
    const noCa = { DEVICE_CA_CERTIFICATE: '', DEVICE_CA_KEY: '' };
    const provision = `/devices/${withToken.id}/provision`;
    expect((await team.admin.call(provision, { method: 'POST' }, noCa)).status).toBe(200);
  });

  it('a certificate opens a link after a reactivation, and gets 401 while its device is suspended or revoked [C-3.3]', async ({
    team,
  }) => {
    const { id, security } = await team.newMtlsDevice();
    await team.admin.operate(id, 'suspend');
    expect((await dialWith(id, security.certificate)).status).toBe(401);
    await team.admin.operate(id, 'reactivate');
    expect((await dialWith(id, security.certificate)).status).toBe(101);
    await team.admin.operate(id, 'revoke');
    expect((await dialWith(id, security.certificate)).status).toBe(401);
  });
});
