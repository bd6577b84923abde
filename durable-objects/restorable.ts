/** An object with tables, alarm and links, which can be backed up and restored: a fence keeps work away from it. */
import { DurableObject } from 'cloudflare:workers';
import type {
  BackupPart,
  BackupPlace,
  BackupRefusal,
  BackupRpc,
  FenceState,
  RestoreAnswer,
} from './backup-rpc.ts';
import { fencedResponse } from './dial.ts';
import type { Env } from './env.ts';
import { Backup, type BackupKind } from './object/backup.ts';
import { Clock } from './object/clock.ts';
import { Fence } from './object/fence.ts';
import { migrate } from './object/migrate.ts';

export abstract class RestorableObject extends DurableObject<Env> implements BackupRpc {
  protected readonly guard: Fence;
  readonly #backup: Backup;
  readonly #clock = new Clock();

  constructor(ctx: DurableObjectState, env: Env, kind: BackupKind) {
    super(ctx, env);
    migrate(ctx.storage, kind.migrations);
    this.guard = new Fence(ctx, this.#clock);
    this.#backup = new Backup(ctx.storage, this.guard, kind);
  }

  /** Whether a fence is up; then nothing is due before its end. */
  protected waitsForFence(): boolean {
    if (!this.guard.state) return false;
    void this.ctx.blockConcurrencyWhile(() => this.guard.wait());
    return true;
  }

  /** The upgrade of an authenticated client or device. */
  protected abstract dialed(request: Request): Promise<Response>;

  override async fetch(request: Request): Promise<Response> {
    return this.guard.state ? fencedResponse(this.guard.state.untilMs) : await this.dialed(request);
  }

  /** Does the due work. */
  protected abstract due(): void;

  override alarm(): void {
    this.guard.check();
    this.due();
  }

  async raiseFence(state: FenceState): Promise<void> {
    await this.guard.raise(state);
  }

  fence(): FenceState | undefined {
    return this.guard.state;
  }

  async lowerFence(fenceId: string): Promise<void> {
    await this.guard.lower(fenceId);
  }

  readBackup(id: string, fenceId: string, from: BackupPlace | null): BackupPart | BackupRefusal {
    return this.#backup.read(id, fenceId, from, this.#clock.now());
  }

  stageBackup(fenceId: string, part: number, text: string): BackupRefusal | undefined {
    return this.#backup.stage(fenceId, part, text);
  }

  restoreBackup(id: string, fenceId: string): RestoreAnswer {
    return this.#backup.restore(id, fenceId);
  }
}
