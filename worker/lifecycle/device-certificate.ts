/** Issues device certificates with our own CA [C-3.3]. CN is the device's id; a CSR's subject is ignored. */
import type { PublicKey } from '@peculiar/x509';
import { LIMIT } from '../../protocol/limits.ts';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
/** A certificate is valid from this long before its issue, because the clock of a device may be slow. */
const BACKDATED_MS = 60 * 60_000;
const DAY_MS = 86_400_000;
const YEAR_MS = 365 * DAY_MS;
const MIN_RSA_BITS = 2_048;

/** Loads the library when the first certificate is issued, because it starts slowly and few requests need it. */
async function library() {
  await import('reflect-metadata');
  return await import('@peculiar/x509');
}

type Library = Awaited<ReturnType<typeof library>>;
type Certificate = InstanceType<Library['X509Certificate']>;

export interface Authority {
  /** PEM. */
  certificate: string;
  /** PEM, PKCS #8. */
  key: string;
}

export interface IssuedCertificate {
  /** PEM. */
  certificate: string;
  /** PEM, PKCS #8; absent if the certificate was issued for a CSR. */
  privateKey?: string;
  /** SHA-256 in lower-case hex. */
  fingerprint: string;
  expiresAtMs: number;
}

/** The CSR is invalid. The message is meant for the client. */
export class CertificateRequestError extends Error {}

/** `csr`: PEM; without it a private key is generated. Throws CertificateRequestError if it is invalid. */
export async function issueCertificate(
  authority: Authority,
  deviceId: string,
  csr: string | undefined,
  now: number,
): Promise<IssuedCertificate> {
  const x509 = await library();
  const pair =
    csr === undefined ? await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']) : undefined;
  const publicKey = pair ? (pair as CryptoKeyPair).publicKey : await publicKeyOf(x509, csr ?? '');
  const issuer = new x509.X509Certificate(authority.certificate);
  const signingKey = await crypto.subtle.importKey(
    'pkcs8',
    x509.PemConverter.decodeFirst(authority.key),
    ALGORITHM,
    false,
    ['sign'],
  );
  // Certificates have a resolution of one second.
  const notAfter = new Date(Math.floor((now + LIMIT.certificateDays * DAY_MS) / 1_000) * 1_000);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: `CN=${deviceId}`,
    issuer: issuer.subject,
    notBefore: new Date(now - BACKDATED_MS),
    notAfter,
    signingAlgorithm: ALGORITHM,
    publicKey,
    signingKey,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  });
  return {
    certificate: `${certificate.toString('pem')}\n`,
    ...(pair ? { privateKey: await pemOf(x509, (pair as CryptoKeyPair).privateKey) } : {}),
    fingerprint: hex(await certificate.getThumbprint('SHA-256')),
    expiresAtMs: notAfter.getTime(),
  };
}

/** The public key of a CSR, after checking its strength and the CSR's signature with its own key. */
async function publicKeyOf(x509: Library, csr: string): Promise<PublicKey> {
  let request: InstanceType<Library['Pkcs10CertificateRequest']>;
  try {
    request = new x509.Pkcs10CertificateRequest(csr);
  } catch {
    throw new CertificateRequestError('csr: not a certificate request (PKCS #10) in PEM');
  }
  const { publicKey } = request;
  const algorithm = publicKey.algorithm as { name: string; modulusLength?: number; namedCurve?: string };
  const given = `${algorithm.name} ${algorithm.namedCurve ?? algorithm.modulusLength ?? ''}`;
  const isStrong =
    (algorithm.name === 'ECDSA' && ['P-256', 'P-384'].includes(algorithm.namedCurve ?? '')) ||
    (algorithm.name.startsWith('RSA') && (algorithm.modulusLength ?? 0) >= MIN_RSA_BITS);
  if (!isStrong)
    throw new CertificateRequestError(
      `csr: the key (${given}) must be EC P-256 or P-384, or RSA of ${MIN_RSA_BITS} bits or more`,
    );
  const isSigned = await request.verify().catch(() => false);
  if (!isSigned) throw new CertificateRequestError('csr: not signed with its own key: sign it again');
  return publicKey;
}

async function pemOf(x509: Library, key: CryptoKey): Promise<string> {
  const exported = (await crypto.subtle.exportKey('pkcs8', key)) as ArrayBuffer;
  return `${x509.PemConverter.encode(exported, 'PRIVATE KEY')}\n`;
}

/** A serial number must be positive and at most twenty bytes long. */
function serialNumber(): string {
  return hex(crypto.getRandomValues(new Uint8Array(16)).map((byte, at) => (at === 0 ? byte & 0x7f : byte)));
}

function hex(bytes: ArrayBuffer | Uint8Array): string {
  return [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** What is wrong with the authority; undefined: nothing. `isEnd`: it works now, and ends within a year. */
export async function authorityFault(
  { certificate, key }: Authority,
  now: number,
): Promise<{ text: string; isOfKey?: true; isEnd?: true } | undefined> {
  const x509 = await library();
  let issuer: Certificate;
  try {
    issuer = new x509.X509Certificate(certificate);
  } catch {
    return { text: 'must be the PEM of a certificate' };
  }
  const endMs = issuer.notAfter.getTime();
  if (endMs <= now)
    return { text: `has expired on ${dayOf(endMs)}: no device can log in with a certificate` };
  try {
    const secret = x509.PemConverter.decodeFirst(key);
    const signing = await crypto.subtle.importKey('pkcs8', secret, ALGORITHM, false, ['sign']);
    const sample = new Uint8Array(32);
    const signed = await crypto.subtle.sign({ ...ALGORITHM, hash: 'SHA-256' }, signing, sample);
    const verifying = await issuer.publicKey.export(ALGORITHM, ['verify']);
    if (!(await crypto.subtle.verify({ ...ALGORITHM, hash: 'SHA-256' }, verifying, signed, sample)))
      return { text: 'belongs to another certificate than DEVICE_CA_CERTIFICATE', isOfKey: true };
  } catch {
    return { text: 'must be the PEM of a P-256 key (PKCS #8)', isOfKey: true };
  }
  if (endMs <= now + YEAR_MS)
    return { text: `expires on ${dayOf(endMs)}: certificates of devices end with it`, isEnd: true };
  return undefined;
}

function dayOf(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 10);
}
