/** The API key of a vhost: what it may, how it signs, and whether it has ended. */
import { type ApiKeyScope, effectiveScopes } from '../../protocol/scopes.ts';
import type { SecretBox } from '../secret-box.ts';
import type { VhostNames } from './authorize.ts';
import type { VhostKey } from './schema.ts';
import type { VhostStorage } from './storage.ts';

/** A key as its creation hands it over. */
export type VhostGrant = Omit<VhostKey, 'revokedAtMs' | 'firstConnectedAtMs' | 'signingKeySealed'> & {
  /** 64 hex characters. */
  signingKey: string;
};

export class KeyHolder {
  readonly #storage: VhostStorage;
  readonly #secretBox: SecretBox;
  #key: VhostKey | undefined;
  #signingKey: string | undefined;
  #scopes: ReadonlySet<ApiKeyScope> = new Set();

  constructor(storage: VhostStorage, secretBox: SecretBox) {
    this.#storage = storage;
    this.#secretBox = secretBox;
    this.#use(storage.fact<VhostKey>('key'));
  }

  /** Undefined until the key was opened here. */
  get key(): VhostKey | undefined {
    return this.#key;
  }

  get scopes(): ReadonlySet<ApiKeyScope> {
    return this.#scopes;
  }

  /** Opens or replaces the key; what was revoked here stays revoked. */
  open(grant: VhostGrant): void {
    const { signingKey, ...rest } = grant;
    this.save({
      ...rest,
      revokedAtMs: this.#key?.revokedAtMs ?? this.#storage.fact<number>('revoked') ?? null,
      firstConnectedAtMs: this.#key?.firstConnectedAtMs ?? null,
      signingKeySealed: this.#secretBox.seal(purpose(grant.keyId), signingKey),
    });
  }

  save(key: VhostKey): void {
    this.#storage.setFact('key', key);
    this.#use(key);
  }

  hasEnded(now: number): boolean {
    const key = this.#key;
    if (!key || key.revokedAtMs !== null) return true;
    return key.expiresAtMs !== null && key.expiresAtMs <= now;
  }

  /** The plaintext signing key. */
  signingKey(): string {
    const key = this.#key;
    if (!key) throw new Error('a vhost without a key signs nothing');
    this.#signingKey ??= this.#secretBox.open(purpose(key.keyId), key.signingKeySealed);
    return this.#signingKey;
  }

  names(): VhostNames {
    return { slug: this.#key?.slug ?? '', vhost: this.#key?.vhost ?? '' };
  }

  #use(key: VhostKey | undefined): void {
    this.#key = key;
    this.#signingKey = undefined;
    this.#scopes = effectiveScopes((key?.scopes ?? []) as ApiKeyScope[]);
  }
}

function purpose(keyId: string): string {
  return `key:${keyId}`;
}
