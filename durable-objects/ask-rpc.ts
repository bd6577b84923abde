/** The RPC contracts for questions about commands and the plan. Add fields, never change the meaning of one. */
import type { Sight } from '../protocol/api-key-record.ts';
import type { DryRunCommand } from '../protocol/dry-run.ts';
import type { KeyStatus } from '../protocol/key-status.ts';
import type { PublishRefusal } from '../protocol/rest-publish.ts';
import type { SignatureVerdict } from '../protocol/signing.ts';
import type { PlantMessage, UntimedStep } from '../protocol/timeline.ts';
import type { EventSearch } from './journal-rpc.ts';

/** A moment, null: now; or the changes in a time. */
export type ExplainQuery = { atMs: number | null } | { fromMs: number; toMs: number };

/** A part of an export: the lines from `fromMs` on, before `toMs`; with `isFirst` the head, too. */
export type ExportQuery = { fromMs: number; toMs: number; isFirst?: true };

/** JSON of the lines without their hashes; `nextMs`: where the next part begins; null: this was the last one. */
export interface ExportPart {
  lines: string[];
  nextMs: number | null;
}

/**
 * The life of a command. `keyId`: the key whose journal has the events of the command, empty for the command of a person;
 * `command`: JSON of its log entry; `steps`: in order; `events`: what the site has sent to the key about it. `signed`: the
 * result of the check of its signature, and the timestamp of the message; `messages`: those to devices.
 */
export interface CommandLife {
  keyId: string;
  command: string;
  steps: UntimedStep[];
  events: (EventSearch & { name: string })[];
  signed?: { verdict: SignatureVerdict; timestampMs: number } | null;
  messages?: PlantMessage[];
}

/**
 * Who asks a Site about commands [C-15.1]: a member of the organization, or a key. `slug`: the source that the key reads
 * of a command that a person sent.
 */
export type Asker = 'member' | { partnerId: string; sees: Sight; slug: string };

type Asking = { siteId: string };

/**
 * The answer is the JSON that the route answers; of `export` the JSON of an `ExportPart`, of `telemetry` the JSON of the
 * timestamp and the payload that were the latest at that time [C-4.1]. `explain`: why the site does what it does [C-13.3].
 * `timeline`: the JSON of a `CommandLife` [C-13.2]; null: no such command, or one that the asker does not see. `export`:
 * one part of an export [C-13.4].
 */
export type SiteQuestion =
  | (Asking & { kind: 'explain'; asker: Asker; query: ExplainQuery })
  | (Asking & { kind: 'telemetry'; atMs: number })
  | (Asking & { kind: 'timeline'; asker: Asker; commandId: string })
  | (Asking & { kind: 'export'; query: ExportQuery });

/** `place`: which of the commands is refused, from 0. */
export type DryRunRefusal = PublishRefusal & { place: number };

export interface VhostAskRpc {
  /** What the key does now; null: it has ended, or was not opened here. */
  readStatus(): KeyStatus | null;
  /** A dry run of publishes of the key. `siteId`: the site of the request, which the key may see. */
  dryRunOverHttps(siteId: string, commands: DryRunCommand[]): Promise<string[] | DryRunRefusal>;
}
