/**
 * The TLS files on disk. They are read at the start, and again when they change or somebody asks: what is not good is not
 * taken, and what was read before stays in force. Looked at by their inodes and times and not watched, for they change by
 * renames (certbot) and by links that are moved (Kubernetes), and not always both at once.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
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
  /** When the first certificate of each file expires. */
  expiresMs: { server: number; 'device-ca'?: number };
}

/** Throws what is wrong with them. */
export function readTlsFiles({ certificate, key, clientAuthority }: TlsPaths): TlsMaterial {
  return judge(
    readFileSync(certificate),
    readFileSync(key),
    clientAuthority === undefined ? undefined : readFileSync(clientAuthority),
  );
}

export interface TlsFilesHost {
  taken(material: TlsMaterial): void;
  /** They are not good: what was before stays in force. */
  kept(why: string): void;
}

export class TlsFiles {
  readonly #paths: TlsPaths;
  readonly #host: TlsFilesHost;
  #seen: string | undefined;
  #looking: Promise<void> = Promise.resolve();

  constructor(paths: TlsPaths, host: TlsFilesHost) {
    this.#paths = paths;
    this.#host = host;
  }

  /** Reads them where they are others than at the last look; the first look only sees them. */
  look(): Promise<void> {
    return this.#inTurn(async () => {
      const before = this.#seen;
      const now = await this.#look();
      if (before !== undefined && before !== now) await this.#read();
    });
  }

  /** Reads them, whether they have changed or not. */
  reread(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#look();
      await this.#read();
    });
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#looking = this.#looking.then(work);
    return this.#looking;
  }

  /** Seen before they are read: what changes meanwhile is another the next time. */
  async #look(): Promise<string> {
    this.#seen = (await Promise.all(Object.values(this.#paths).map(stampOf))).join();
    return this.#seen;
  }

  async #read(): Promise<void> {
    const { certificate, key, clientAuthority } = this.#paths;
    try {
      const read = (path: string | undefined) => (path === undefined ? undefined : readFile(path));
      const [cert, privateKey, ca] = await Promise.all([
        readFile(certificate),
        readFile(key),
        read(clientAuthority),
      ]);
      this.#host.taken(judge(cert, privateKey, ca));
    } catch (error) {
      this.#host.kept((error as Error).message);
    }
  }
}

/** What is another when a file is. One that is not there is told when it is read. */
async function stampOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeMs, ctimeMs } = await stat(path);
    return [dev, ino, size, mtimeMs, ctimeMs].join(' ');
  } catch (error) {
    return (error as Error).message;
  }
}

function judge(cert: Buffer, key: Buffer, ca: Buffer | undefined): TlsMaterial {
  const [own, ...chain] = certificatesOf(cert, 'the certificate file');
  if (!own?.checkPrivateKey(createPrivateKey(key)))
    throw new Error('the private key is not that of the certificate');
  const server = firstExpiry([own, ...chain]);
  if (ca === undefined) {
    createSecureContext({ cert, key });
    return { cert, key, expiresMs: { server } };
  }
  const authorities = certificatesOf(ca, 'the file of the device authority');
  createSecureContext({ cert, key, ca });
  return { cert, key, ca, expiresMs: { server, 'device-ca': firstExpiry(authorities) } };
}

function certificatesOf(pem: Buffer, file: string): X509Certificate[] {
  const found = pem.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g);
  if (!found) throw new Error(`no certificate in ${file}`);
  return found.map((one) => new X509Certificate(one));
}

function firstExpiry(certificates: readonly X509Certificate[]): number {
  return Math.min(...certificates.map(({ validToDate }) => validToDate.getTime()));
}
