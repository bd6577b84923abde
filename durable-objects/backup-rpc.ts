/** The RPC contract for backups of a Site and of a Vhost. Add fields, never change the meaning of one (see rpc.ts). */

/** The reason with which an object reloads because its fence is raised or lowered; the caller gets this error. */
export const RELOADS = 'the object reloads because of its fence';

/** The error of a call that an object behind its fence refuses, before anything has changed. */
export const FENCED = 'the object is behind a fence while it is backed up or restored';

/** A part of a backup has about this many characters, and a little more; a part to restore has at most that many. */
export const MAX_PART_CHARS = 400_000;

/** A fence that is up: the object refuses every change until then. */
export interface FenceState {
  id: string;
  untilMs: number;
}

/** The place in the tables at which a part of a backup begins. */
export interface BackupPlace {
  table: number;
  /** The primary key of the last row before it; null at the begin of the table. */
  key: (string | number | null)[] | null;
  rows: number;
}

export interface BackupPart {
  /** Whole lines, each with its line break. */
  text: string;
  next: BackupPlace | null;
}

/** The number of rows and the ids of the devices that the object now has; `refused`: why nothing has changed. */
export type RestoreAnswer = { rows: number; deviceIds: string[] } | BackupRefusal;

/** `refused`: why the request is wrong. */
export interface BackupRefusal {
  refused: string;
}

export interface BackupRpc {
  /** Raises a fence. The object reloads, so the call rejects with RELOADS; it resolves if a fence is up. */
  raiseFence(state: FenceState): Promise<void>;
  fence(): FenceState | undefined;
  /** Lowers the fence. The object reloads, so the call rejects with RELOADS; it resolves if this fence is not up. */
  lowerFence(fenceId: string): Promise<void>;
  /** Returns the part of the backup that begins at `from`, or the first part. */
  readBackup(id: string, fenceId: string, from: BackupPlace | null): BackupPart | BackupRefusal;
  /** Stores a part of a backup, numbered from 0. */
  stageBackup(fenceId: string, part: number, text: string): BackupRefusal | undefined;
  /** Replaces all data with the staged backup. The caller then lowers the fence. */
  restoreBackup(id: string, fenceId: string): RestoreAnswer;
}
