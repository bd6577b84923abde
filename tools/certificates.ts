/** A development certificate authority, and a server certificate for localhost. Not for production. */
import 'reflect-metadata';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as x509 from '@peculiar/x509';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const DAY_MS = 24 * 3_600_000;
const VALID_DAYS = 825;
/** Longer than the lifetime of any device certificate that this authority signs. */
const DEVICE_CA_DAYS = 3_650;

export interface CertificateFiles {
  /** Absolute paths of PEM files. */
  ca: string;
  certificate: string;
  key: string;
  /** The authority of device certificates. */
  deviceCa: { certificate: string; key: string };
}

/** Creates the certificates once per data folder; later starts use the same files. */
export async function ensureCertificates(folder: string): Promise<CertificateFiles> {
  const files = {
    ca: join(folder, 'ca.pem'),
    certificate: join(folder, 'server.pem'),
    key: join(folder, 'server.key'),
    deviceCa: await ensureDeviceCa(folder),
  };
  if ([files.ca, files.certificate, files.key].every((file) => existsSync(file))) return files;

  const { ca, caKeys, notBefore, notAfter } = await makeAuthority('Sitewire development CA', VALID_DAYS);
  const serverKeys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const server = await x509.X509CertificateGenerator.create({
    serialNumber: serial(),
    subject: 'CN=localhost',
    issuer: ca.subject,
    notBefore,
    notAfter,
    signingAlgorithm: ALGORITHM,
    publicKey: serverKeys.publicKey,
    signingKey: caKeys.privateKey,
    extensions: [
      new x509.SubjectAlternativeNameExtension([
        { type: 'dns', value: 'localhost' },
        { type: 'ip', value: '127.0.0.1' },
        { type: 'ip', value: '::1' },
      ]),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      await x509.AuthorityKeyIdentifierExtension.create(caKeys.publicKey),
    ],
  });
  await writeKey(files.key, serverKeys.privateKey);
  writeFileSync(files.certificate, `${server.toString('pem')}\n`);
  writeFileSync(files.ca, `${ca.toString('pem')}\n`);
  return files;
}

/** The authority of device certificates: the edge needs certificate and key, the bridge only the certificate. */
export async function ensureDeviceCa(folder: string): Promise<CertificateFiles['deviceCa']> {
  const files = { certificate: join(folder, 'device-ca.pem'), key: join(folder, 'device-ca.key') };
  if (Object.values(files).every((file) => existsSync(file))) return files;
  mkdirSync(folder, { recursive: true });
  const { ca, caKeys } = await makeAuthority('Sitewire device CA', DEVICE_CA_DAYS);
  await writeKey(files.key, caKeys.privateKey);
  writeFileSync(files.certificate, `${ca.toString('pem')}\n`);
  return files;
}

async function makeAuthority(commonName: string, days: number) {
  const notBefore = new Date(Date.now() - DAY_MS);
  const notAfter = new Date(Date.now() + days * DAY_MS);
  const caKeys = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const ca = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serial(),
    name: `CN=${commonName}`,
    notBefore,
    notAfter,
    signingAlgorithm: ALGORITHM,
    keys: caKeys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(caKeys.publicKey),
    ],
  });
  return { ca, caKeys, notBefore, notAfter };
}

async function writeKey(file: string, key: CryptoKey): Promise<void> {
  const exported = await crypto.subtle.exportKey('pkcs8', key);
  writeFileSync(file, `${x509.PemConverter.encode(exported, 'PRIVATE KEY')}\n`, { mode: 0o600 });
}

function serial(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString('hex');
}
