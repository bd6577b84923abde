/** The API key of a vhost: its rights, its signing key, and whether it has ended (rule 6). */
import type { VhostNames } from '../../../protocol/publish-right.ts';
import { type ApiKeyScope, effectiveScopes } from '../../../protocol/scopes.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { KeyValues } from '../../object/key-values.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { VhostGrant } from '../../rpc.ts';
import { countOfVersions, type SecretBox } from '../../secrets/secret-box.ts';

/**
 * Names in the vhost's key-value store. `revoked`: when the key was revoked or discarded, possibly before it
 * was opened. `journal`: see JournalBounds.
 */
export type VhostFact = 'key' | 'registry' | 'registryReadAt' | 'revoked' | 'ending' | 'journal';

export interface KeyRecord extends Omit<VhostGrant, 'signingKey'> {
  revokedAtMs: number | null;
  /** Queues start to fill at the key's first connection [C-6.1]. */
  firstConnectedAtMs: number | null;
  /** True if the key has expired and its connections and queues were deleted. */
  expired?: boolean;
  signingKeySealed: string;
}

export class Key implements DueSource {
  readonly name = 'key';
  readonly #values: KeyValues<VhostFact>;
  readonly #secretBox: SecretBox;
  readonly #onEnd: (turn: Turn) => void;
  #record: KeyRecord | undefined;
  #signingKey: string | undefined;
  /**
   * Whether the signing key was sealed by an older data key and must be sealed again. False for a key that
   * has ended, because it signs nothing.
   */
  #mustSealAgain = false;
  #scopes: ReadonlySet<ApiKeyScope> = new Set();

  /** `onEnd`: called in the turn in which the key expires. */
  constructor(values: KeyValues<VhostFact>, secretBox: SecretBox, onEnd: (turn: Turn) => void) {
    this.#values = values;
    this.#secretBox = secretBox;
    this.#onEnd = onEnd;
    this.#use(values.get<KeyRecord | null>('key') ?? undefined);
  }

  /** Undefined until the key was opened here. */
  get record(): KeyRecord | undefined {
    return this.#record;
  }

  get scopes(): ReadonlySet<ApiKeyScope> {
    return this.#scopes;
  }

  get names(): VhostNames {
    return { slug: this.#record?.slug ?? '', vhost: this.#record?.vhost ?? '' };
  }

  /** Whether the key was revoked or discarded here, even before it was opened. */
  get isRevoked(): boolean {
    return this.#record?.revokedAtMs != null || this.#values.get<number>('revoked') !== undefined;
  }

  hasEnded(now: number): boolean {
    const record = this.#record;
    if (!record || record.revokedAtMs !== null) return true;
    return record.expiresAtMs !== null && record.expiresAtMs <= now;
  }

  /** The plaintext signing key. */
  get signingKey(): string {
    const record = this.#record;
    if (!record)
      throw new Error(
        'the Vhost has no API key, so it has no signing key: the key was not opened here, or it was deleted',
      );
    this.#signingKey ??= this.#secretBox.open(purpose(record.keyId), record.signingKeySealed);
    return this.#signingKey;
  }

  /** Stores or replaces the key; a revoked key stays revoked. */
  open(turn: Turn, grant: VhostGrant): void {
    const { signingKey, ...rest } = grant;
    this.#save(turn, {
      ...rest,
      revokedAtMs: this.#record?.revokedAtMs ?? this.#values.get<number>('revoked') ?? null,
      firstConnectedAtMs: this.#record?.firstConnectedAtMs ?? null,
      signingKeySealed: this.#secretBox.seal(purpose(grant.keyId), signingKey),
    });
  }

  /** Revokes the key permanently, even a key that is opened here only later. */
  revoke(turn: Turn): void {
    this.#values.set(turn, 'revoked', turn.now);
    const record = this.#record;
    if (record) this.#save(turn, { ...record, revokedAtMs: record.revokedAtMs ?? turn.now });
  }

  /** Deletes the key and stores only that it was revoked. */
  forget(turn: Turn): void {
    const before = this.#record;
    turn.undo(() => this.#use(before));
    this.#values.set(turn, 'revoked', turn.now);
    this.#values.set(turn, 'key', null);
    this.#use(undefined);
  }

  noteConnection(turn: Turn): void {
    const record = this.#record;
    if (record?.firstConnectedAtMs === null) this.#save(turn, { ...record, firstConnectedAtMs: turn.now });
  }

  // agenda: a key expires once; a signing key that an older data key sealed is sealed again at once [C-14.7]

  dueMs(): number | undefined {
    return this.#mustSealAgain ? 0 : this.#expiresAtMs;
  }

  run(turn: Turn): void {
    const expiresAtMs = this.#expiresAtMs;
    // First handle the expiry: it must not fail only because the signing key cannot be decrypted.
    if (expiresAtMs !== undefined && expiresAtMs <= turn.now) {
      this.#onEnd(turn);
      if (this.#record) this.#save(turn, { ...this.#record, expired: true });
    } else this.#sealAgain(turn);
  }

  /** Seals again what an older data key sealed. Returns how many values each version of the data keys seals. */
  sealedAgain(turns: Turns): Record<string, number> {
    if (this.#mustSealAgain) turns.run((turn) => this.#sealAgain(turn));
    return countOfVersions(this.#record && !isOver(this.#record) ? [this.#record.signingKeySealed] : []);
  }

  #sealAgain(turn: Turn): void {
    const record = this.#record;
    if (!record || !this.#mustSealAgain) return;
    const signingKeySealed = this.#secretBox.seal(purpose(record.keyId), this.signingKey);
    this.#save(turn, { ...record, signingKeySealed });
  }

  get #expiresAtMs(): number | undefined {
    const record = this.#record;
    return record && !isOver(record) ? (record.expiresAtMs ?? undefined) : undefined;
  }

  #save(turn: Turn, record: KeyRecord): void {
    const before = this.#record;
    turn.undo(() => this.#use(before));
    this.#values.set(turn, 'key', record);
    this.#use(record);
  }

  #use(record: KeyRecord | undefined): void {
    this.#record = record;
    this.#signingKey = undefined;
    this.#mustSealAgain =
      record !== undefined && !isOver(record) && this.#secretBox.isOld(record.signingKeySealed);
    this.#scopes = effectiveScopes((record?.scopes ?? []) as ApiKeyScope[]);
  }
}

/** Whether the end of the key has been handled. */
function isOver({ revokedAtMs, expired }: KeyRecord): boolean {
  return revokedAtMs !== null || expired === true;
}

function purpose(keyId: string): string {
  return `key:${keyId}`;
}
