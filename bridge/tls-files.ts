/** The TLS files, read once and judged: a bridge does not start on what is not good. */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';

export interface TlsPaths {
  certificate: string;
  key: string;
  /** The authority of client certificates. */
  clientAuthority?: string;
}

/** PEM, known to be good. */
export interface TlsMaterial {
  cert: Buffer;
  key: Buffer;
  ca?: Buffer;
}

/** Throws what is wrong with them. */
export function readTlsFiles({ certificate, key, clientAuthority }: TlsPaths): TlsMaterial {
  return judge(
    readFileSync(certificate),
    readFileSync(key),
    clientAuthority === undefined ? undefined : readFileSync(clientAuthority),
  );
}

function judge(cert: Buffer, key: Buffer, ca: Buffer | undefined): TlsMaterial {
  const [own] = certificatesOf(cert, 'the certificate file');
  if (!own?.checkPrivateKey(createPrivateKey(key)))
    throw new Error('the private key is not that of the certificate');
  if (ca !== undefined) certificatesOf(ca, 'the file of the device authority');
  createSecureContext({ cert, key, ...(ca && { ca }) });
  return ca === undefined ? { cert, key } : { cert, key, ca };
}

function certificatesOf(pem: Buffer, file: string): X509Certificate[] {
  const found = pem.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g);
  if (!found) throw new Error(`no certificate in ${file}`);
  return found.map((one) => new X509Certificate(one));
}
