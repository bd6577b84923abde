/** Certificates of devices: by provisioning, from a request of their own, and anew [C-3.3]. */
import 'reflect-metadata';
import { env } from 'cloudflare:workers';
import * as x509 from '@peculiar/x509';
import { beforeAll, describe, expect, it } from 'vitest';
import { dialWith } from '../../support/workerd/certificates.ts';
import {
  diagnosticsOf,
  newDeviceIn,
  operate,
  postDevice,
  provision,
  readDevice,
} from '../../support/workerd/devices.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

interface Issued {
  certificate: string;
  certificateExpiresAt: string;
  privateKey?: string;
}

const MINUTE_MS = 60_000;
const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const P384 = { name: 'ECDSA', namedCurve: 'P-384', hash: 'SHA-384' };
const P521 = { name: 'ECDSA', namedCurve: 'P-521', hash: 'SHA-512' };
const rsa = (modulusLength: number) => ({
  name: 'RSASSA-PKCS1-v1_5',
  hash: 'SHA-256',
  publicExponent: new Uint8Array([1, 0, 1]),
  modulusLength,
});

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

async function newPair(algorithm: object): Promise<CryptoKeyPair> {
  return (await crypto.subtle.generateKey(algorithm as never, true, ['sign', 'verify'])) as CryptoKeyPair;
}

/** A request that names another subject than it will get. */
async function requestOf(algorithm: object, keys?: CryptoKeyPair): Promise<x509.Pkcs10CertificateRequest> {
  return await x509.Pkcs10CertificateRequestGenerator.create({
    name: 'CN=somebody else, O=Attacker',
    keys: keys ?? (await newPair(algorithm)),
    signingAlgorithm: algorithm as never,
    extensions: [new x509.BasicConstraintsExtension(true, 2, true)],
  });
}

/** The PEM of a request, with one byte of it changed. */
function tampered(request: x509.Pkcs10CertificateRequest, at: (length: number) => number): string {
  const bytes = new Uint8Array(request.rawData.slice(0));
  const index = at(bytes.length);
  bytes[index] = (bytes[index] ?? 0) ^ 1;
  return x509.PemConverter.encode(bytes.buffer, 'CERTIFICATE REQUEST');
}

function fields(): object {
  return { authMethod: 'MTLS' };
}

async function newMtlsDevice(): Promise<{ id: string; security: Issued }> {
  const { id } = await postDevice(team.operator, fields());
  return { id, security: (await provision(team, id)).security as unknown as Issued };
}

async function jwkOf(key: x509.PublicKey): Promise<JsonWebKey> {
  const exported = await crypto.subtle.exportKey('jwk', await key.export());
  const { x, y, n, e } = exported as JsonWebKey;
  return { x, y, n, e } as JsonWebKey;
}

async function jwkOfPrivate(pem: string): Promise<JsonWebKey> {
  const der = x509.PemConverter.decodeFirst(pem);
  const key = await crypto.subtle.importKey('pkcs8', der, P256, true, ['sign']);
  const { x, y, n, e } = (await crypto.subtle.exportKey('jwk', key)) as JsonWebKey;
  return { x, y, n, e } as JsonWebKey;
}

/** What every certificate of a device says. */
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
  it('has a secret, a certificate and its key, on port 8883, and no token [C-3.3]', async () => {
    const { id } = await postDevice(team.operator, fields());
    const told = await provision(team, id);
    expect(told).toMatchObject({
      deviceId: id,
      authMethod: 'MTLS',
      mqtt: { broker: 'mqtts://mqtt.example.org:8883', port: 8883 },
    });
    expect(told.security).toEqual({
      hmacSecret: expect.stringMatching(/^[0-9a-f]{64}$/),
      certificate: expect.stringMatching(/^-----BEGIN CERTIFICATE-----/),
      privateKey: expect.stringMatching(/^-----BEGIN PRIVATE KEY-----/),
      certificateExpiresAt: expect.stringMatching(/Z$/),
    });
    expect(await readDevice(team, id)).toMatchObject({ status: 'ACTIVE', tokenExpiresAt: null });
  });

  it('has a certificate of ours whose CN is the device, and the key that belongs to it [C-3.3]', async () => {
    const { id, security } = await newMtlsDevice();
    const certificate = await expectOurs(security.certificate, id, security.certificateExpiresAt);
    expect(await jwkOf(certificate.publicKey)).toEqual(await jwkOfPrivate(security.privateKey ?? ''));
  });

  it('opens the door to that device alone, whatever its password [C-3.3]', async () => {
    const [one, other] = [await newMtlsDevice(), await newMtlsDevice()];
    expect((await dialWith(one.id, one.security.certificate)).status).toBe(101);
    expect((await dialWith(one.id, one.security.certificate, 'any password')).status).toBe(101);
    expect((await dialWith(one.id, other.security.certificate)).status).toBe(401);
    const { connects } = await diagnosticsOf(team, one.id);
    expect(connects.map(({ outcome }) => outcome)).toEqual(['REFUSED', 'ACCEPTED', 'ACCEPTED']);
  });
});

describe('provisioning from a request', () => {
  it.each([
    ['EC P-256', P256],
    ['EC P-384', P384],
    ['RSA 2048', rsa(2_048)],
  ])('takes a key of %s, and makes and tells no other [C-3.3]', async (_name, algorithm) => {
    const request = await requestOf(algorithm);
    const { id } = await postDevice(team.operator, fields());
    const { security } = await provision(team, id, { csr: request.toString('pem') });
    expect(Object.keys(security).sort()).toEqual(['certificate', 'certificateExpiresAt', 'hmacSecret']);
    const { certificate = '', certificateExpiresAt = '' } = security;
    const issued = await expectOurs(certificate, id, certificateExpiresAt);
    expect(await jwkOf(issued.publicKey)).toEqual(await jwkOf(request.publicKey));
    expect((await dialWith(id, certificate)).status).toBe(101);
  });

  it('refuses weak keys, what was changed, and what is no request: 400, and the device is PENDING still [C-3.3]', async () => {
    const request = await requestOf(P256);
    const { privateKey: mine } = await newPair(P256);
    const foreign = { publicKey: (await newPair(P256)).publicKey, privateKey: mine };
    const { security } = await newMtlsDevice();
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
    const { id } = await postDevice(team.operator, fields());
    for (const [what, csr] of Object.entries(bad)) {
      const response = await operate(team.admin, id, 'provision', { csr });
      const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
      expect([what, details]).toEqual([what, [expect.stringMatching(/^csr: /)]]);
      expect([what, (await readDevice(team, id)).status]).toEqual([what, 'PENDING']);
    }
    await provision(team, id, { csr: request.toString('pem') });
  });
});

describe('POST /devices/{id}/certificate', () => {
  async function reissue(id: string, body?: unknown): Promise<Issued & { previousUntil: string | null }> {
    return await team.admin.read(`/devices/${id}/certificate`, { method: 'POST', body }, 201);
  }

  it('answers 201 with another, and the one before is good for 60 minutes [C-3.3]', async () => {
    const { id, security } = await newMtlsDevice();
    const beforeMs = Date.now();
    const again = await reissue(id);
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
    expect(await jwkOf(certificate.publicKey)).toEqual(await jwkOfPrivate(again.privateKey ?? ''));
    expect(again.certificate).not.toBe(security.certificate);
    for (const pem of [again.certificate, security.certificate])
      expect((await dialWith(id, pem)).status).toBe(101);
    const sibling = await newMtlsDevice();
    expect((await dialWith(id, sibling.security.certificate)).status).toBe(401);
    expect((await dialWith(sibling.id, again.certificate)).status).toBe(401);
  });

  it('from a request tells no key, and a third ends the first [C-3.3]', async () => {
    const { id, security } = await newMtlsDevice();
    const csr = (await requestOf(P256)).toString('pem');
    const second = await reissue(id, { csr });
    expect(Object.keys(second)).not.toContain('privateKey');
    const third = await reissue(id);
    const dials = [security, second, third].map(({ certificate }) => dialWith(id, certificate));
    expect((await Promise.all(dials)).map(({ status }) => status)).toEqual([401, 101, 101]);
  });

  it('refuses a request that does not hold, and the certificate stays [C-3.3]', async () => {
    const { id, security } = await newMtlsDevice();
    for (const csr of ['', 'x', (await requestOf(rsa(1_024))).toString('pem')]) {
      await expectError(await operate(team.admin, id, 'certificate', { csr }), 400, 'VALIDATION_ERROR');
    }
    expect((await dialWith(id, security.certificate)).status).toBe(101);
  });

  it.each(['PENDING', 'SUSPENDED', 'DECOMMISSIONED'] as const)(
    'of a %s device is 409 [C-3.3]',
    async (status) => {
      const id = await newDeviceIn(team, status, fields());
      await expectError(await operate(team.admin, id, 'certificate'), 409, 'CONFLICT');
    },
  );

  it('of a device with a token is 409 [C-3.3]', async () => {
    const id = await newDeviceIn(team, 'ACTIVE');
    await expectError(await operate(team.admin, id, 'certificate'), 409, 'CONFLICT');
  });

  it('lets nobody in who is suspended, and the same certificate once it is not [C-3.3]', async () => {
    const { id, security } = await newMtlsDevice();
    await operate(team.admin, id, 'suspend');
    expect((await dialWith(id, security.certificate)).status).toBe(401);
    await operate(team.admin, id, 'reactivate');
    expect((await dialWith(id, security.certificate)).status).toBe(101);
    await operate(team.admin, id, 'revoke');
    expect((await dialWith(id, security.certificate)).status).toBe(401);
  });
});
