/**
 * The TLS files on disk. They are read at the start, when they change, and on request; if they are invalid
 * later, the previous ones stay in use. Changes are found by polling inodes and times, not by watching, because
 * the files change by renames (certbot) and by moved symbolic links (Kubernetes), and certificate and key do
 * not always change at the same time.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';

interface TlsPaths {
  certificate: string;
  key: string;
  /** The CA of client certificates. */
  clientAuthority?: string;
}

/** Validated PEM files. */
export interface TlsMaterial {
  cert: Buffer;
  key: Buffer;
  ca?: Buffer;
  /** When the first certificate of each file expires, epoch milliseconds. */
  expiresMs: { server: number; 'device-ca'?: number };
}

interface TlsFilesHost {
  taken(material: TlsMaterial): void;
  /** Called when the files are invalid: the previous ones stay in use. */
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

  /** Reads the files if they have changed since the last call; the first call only records their state. */
  look(): Promise<void> {
    return this.#inTurn(async () => {
      const before = this.#seen;
      const now = await this.#look();
      if (before !== undefined && before !== now) this.#read();
    });
  }

  /** Reads the files, whether they have changed or not. */
  reread(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#look();
      this.#read();
    });
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#looking = this.#looking.then(work);
    return this.#looking;
  }

  /**
   * Records the state of the files before they are read, so that the next check notices a change during the
   * read.
   */
  async #look(): Promise<string> {
    this.#seen = (await Promise.all(Object.values(this.#paths).map(stampOf))).join();
    return this.#seen;
  }

  #read(): void {
    try {
      this.#host.taken(readTlsFiles(this.#paths));
    } catch (error) {
      this.#host.kept((error as Error).message);
    }
  }
}

/** A text that changes whenever the file changes. A missing file is an error only when it is read. */
async function stampOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeMs, ctimeMs } = await stat(path);
    return [dev, ino, size, mtimeMs, ctimeMs].join(' ');
  } catch (error) {
    return (error as Error).message;
  }
}

/** Throws an error that says what is wrong with the files. */
export function readTlsFiles(paths: TlsPaths): TlsMaterial {
  const [cert, key] = [readFileSync(paths.certificate), readFileSync(paths.key)];
  const ca = paths.clientAuthority === undefined ? undefined : readFileSync(paths.clientAuthority);
  const [own, ...chain] = certificatesOf(cert, 'the certificate file');
  if (!own?.checkPrivateKey(createPrivateKey(key)))
    throw new Error('the private key does not belong to the certificate');
  const server = firstExpiry([own, ...chain]);
  if (ca === undefined) {
    createSecureContext({ cert, key });
    return { cert, key, expiresMs: { server } };
  }
  const authorities = certificatesOf(ca, 'the device CA file');
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
