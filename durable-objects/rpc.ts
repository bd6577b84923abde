/**
 * The RPC contracts of the Site and the Vhost. During a deploy old and new code run at the
 * same time: add fields, never change the meaning of one.
 */
import type { CommandLogPage } from '../protocol/command-log.ts';
import type { DeviceDiagnostics, RestCommand, TokenRenewal } from '../protocol/device-record.ts';
import type { DeviceType } from '../protocol/enums.ts';
import type { Acknowledgement } from '../protocol/event.ts';
import type { DevicePage, DeviceQuery, HistoryQuery, JsonChunk, ScheduleQuery } from '../protocol/history.ts';
import type { MeterExchangeAnswer, MeterExchangeRequest, MeterReading } from '../protocol/meter.ts';
import type { CommandAnswer, PublishRefusal } from '../protocol/rest-publish.ts';
import type { CommandFamily, EventKind } from '../protocol/routing-keys.ts';
import type { SignatureVerdict } from '../protocol/signing.ts';
import type { SiteConfig, SiteConfigRequest } from '../protocol/site-config.ts';
import type { CanonicalTelemetry } from '../protocol/telemetry.ts';
import type { AuditEntry, RegistryWrite } from '../registry/entries.ts';
import type { Asker, SiteQuestion, VhostAskRpc } from './ask-rpc.ts';
import type { BackupRpc } from './backup-rpc.ts';
import type { DeadLetterRpc } from './dead-letter-rpc.ts';
import type { JournalRpc } from './journal-rpc.ts';
import type { SiteStandingRpc, VhostStandingRpc } from './standing-rpc.ts';
import type { WebhookRpc } from './webhook-rpc.ts';

// a plant's Site

/** A device as its provisioning passes it to the Site. */
export interface DeviceGrant {
  siteId: string;
  plantId: string | null;
  deviceId: string;
  type: DeviceType;
  /** 64 hex characters. */
  hmacSecret: string;
  /** The time at which the grant was created. Of two grants the one with the higher version is valid. */
  version: number;
}

/** When the secret was replaced, when the previous one expires, and the registry updates of the rotation. */
export interface SecretRotation {
  rotatedAtMs: number;
  graceUntilMs: number | null;
  writes: RegistryWrite[];
}

/** A command to a device over REST [C-3.4]. */
export interface RestCommandSubmission {
  action: string;
  payload: Record<string, unknown>;
  validUntilMs: number | null;
  idempotencyKey: string | null;
  /** False: the device's template does not have the command. A repeated idempotencyKey still gets its first answer. */
  isFit?: boolean;
}

/**
 * `reused`: the idempotency key was used with another command; `full`: too many open commands; `inactive`:
 * the device is not active; `expired`: `validUntil` has passed; `unfit`: see `isFit`.
 */
export type RestCommandAnswer =
  | { command: RestCommand }
  | { refused: 'reused' | 'full' | 'inactive' | 'expired' | 'unfit' };

/**
 * A part of the data of a device that moves to another Site [C-3.1]. The first part has the rows of its tables; each has
 * nonces that are still valid, and the place where the next part begins, if there is one.
 */
export interface DevicePack {
  tables: Record<string, (string | number | null)[][]> | null;
  nonces: { deviceId: string; nonce: string; digest: string; ts: number; receivedMs: number }[];
  next?: NoncePlace;
}

/** The place of a nonce in the order of expiry. */
export type NoncePlace = { untilMs: number; nonce: string };

/** A rejected login. `counts`: it counts toward the suspension of the device [C-3.11]. */
export interface RefusedLogin {
  address: string;
  reason: string;
  counts: boolean;
  organizationId: string;
}

/** One authorized publish, as the Vhost submits it to the Site. */
export interface Submission {
  messageId: string;
  correlationId: string | null;
  source: string;
  /** The timestamp in the envelope. */
  timestampMs: number;
  routingKey: string;
  family: CommandFamily;
  payloadText: string;
  /** When the platform got the publish, by the clock of the object that got it. */
  publishedAtMs?: number;
  signature: SignatureVerdict;
  /** Explanation of a mismatch for the rejection, if the organization has `signatureHints`. */
  signatureHint?: string;
  /** Identifies the publish: a lane that retries the publish sends the same value. */
  publishId?: string;
  /** The caller needs the acknowledgement itself, not only its event. */
  wantsResult?: boolean;
}

/** What a submission was answered with. `isRepeated`: an earlier submission with this messageId got it first. */
export interface SubmissionResult {
  /** The id of its row in the command log. */
  commandId: string;
  acknowledgement: Acknowledgement;
  isRepeated: boolean;
}

export interface SubmissionBatch {
  siteId: string;
  /** Empty: a person of the organization sent it [C-13.5]. */
  keyId: string;
  keyPrefix: string;
  /** The partner of the key. Empty: a person of the organization sent it. */
  partnerId: string;
  /**
   * Highest outbox sequence that the Vhost has stored or its clients have acknowledged; the Site may delete
   * up to it.
   */
  received: number;
  /** Highest outbox sequence that the Vhost has, at least in memory: the Site need not send it again. */
  seen: number;
  /** The Site must not record the publishes after this time, because soon after it the Vhost nacks them. */
  notAfterMs: number;
  /** An earlier call with this batch had no answer: some of its submissions may already be recorded. */
  isRepeated: boolean;
  submissions: Submission[];
  /** The audit event of each command; `details` also get its commandId. */
  audit?: AuditEntry;
}

/**
 * The answer to a submit: the outcome of each submission, and the events that the Vhost does not have yet. `results`: if
 * a submission wants one, one for each; null: the submission is not recorded.
 */
export interface SubmitAnswer {
  outcomes: ('recorded' | 'failed')[];
  results?: (SubmissionResult | null)[];
  events: OutboxEvent[];
}

/** An admin's configuration for a plant. */
export interface ConfigPut {
  config: SiteConfigRequest;
  /** Entity tags; one of them must match the current configuration. null = no precondition. */
  ifMatch: string[] | null;
  mayChangeHardLimits: boolean;
  /** The author of the change, for the command log. */
  source: string;
}

/** The resulting configuration and its entity tag, quotes included. `refused`: why it was not changed. */
export interface ConfigAnswer {
  config: SiteConfig;
  etag: string;
  refused?: 'stale' | 'hard-limits';
}

/** Diagnostics of a device [C-3.8], and the rows that the object wrote since it was loaded. */
export interface Diagnosis extends DeviceDiagnostics {
  rowsWritten: number;
  /** The last value of each signal that the device sent in the last day, by the name that the device uses. */
  readings: Record<string, number>;
}

export interface SiteRpc extends BackupRpc, SiteStandingRpc {
  /** Adds a provisioned device. Idempotent; a decommissioned device stays decommissioned. */
  adoptDevice(grant: DeviceGrant): void;
  /**
   * Suspends, reactivates or (permanently) decommissions a device; it takes effect at once (rule 6). Returns
   * the resulting registry updates, or undefined if the device is not here or its status does not allow the
   * change.
   */
  setDeviceStatus(
    deviceId: string,
    status: 'ACTIVE' | 'SUSPENDED' | 'DECOMMISSIONED',
    reason?: string | null,
    audit?: AuditEntry,
  ): RegistryWrite[] | undefined;
  /**
   * Deletes everything that is stored. Called after the organization was deleted; the object gets no later
   * calls.
   */
  erase(): Promise<void>;
  /** Deletes a device: closes its session and ends its open dispatches. */
  forgetDevice(deviceId: string): void;
  /**
   * Stores a new secret; the previous one stays valid during a grace period, or ends at once with all older ones
   * (`endOthers`). Undefined if the device is not here.
   */
  rotateSecret(
    deviceId: string,
    hmacSecret: string,
    audit?: AuditEntry,
    endOthers?: boolean,
  ): SecretRotation | undefined;
  /**
   * Ends the tokens that were issued before now, and a session that was opened with one. Returns the earliest
   * issue time at which a new token is valid; undefined if the device is not here or not ACTIVE [C-14.5].
   */
  endTokens(deviceId: string): number | undefined;
  /**
   * Checks a device's request for a new token. Returns the maximum lifetime of that token in seconds;
   * 'full' while there is no room for its nonce; undefined if it is not authentic or is a repeat [C-3.12].
   */
  verifyRenewal(deviceId: string, renewal: TokenRenewal): number | 'full' | undefined;
  /**
   * Releases a device to another Site and returns its data; undefined if the device is not here. The caller passes all
   * parts to `takeDevice` of the other Site, the first part last, and then calls `dropDevice` here.
   */
  releaseDevice(deviceId: string, to: string, from?: NoncePlace): DevicePack | undefined;
  takeDevice(siteId: string, deviceId: string, pack: DevicePack): void;
  dropDevice(deviceId: string): void;
  noteRefusedLogin(deviceId: string, refused: RefusedLogin): void;
  /** Ends the current session of a device, if it has one, at `atMs` at the latest. */
  endSessionBy(deviceId: string, atMs: number): void;
  submitRestCommand(
    deviceId: string,
    submission: RestCommandSubmission,
    audit?: AuditEntry,
  ): RestCommandAnswer;
  /** Newest first; `page` from 1. */
  pageRestCommands(deviceId: string, page: number, limit: number): { commands: RestCommand[]; total: number };
  findRestCommand(deviceId: string, cmdId: string): RestCommand | undefined;
  configure(siteId: string, config: SiteConfig): void;
  /** Reads the configuration of a plant for admins. */
  readConfiguration(siteId: string): Promise<ConfigAnswer>;
  /** Replaces the configuration; effective at once and recorded in the command log [C-2.3]. */
  putConfiguration(siteId: string, put: ConfigPut): Promise<ConfigAnswer>;
  /** Begins to count registers of a meter again from given values. */
  exchangeMeter(
    siteId: string,
    externalId: string,
    request: MeterExchangeRequest,
    audit: AuditEntry,
  ): Promise<MeterExchangeAnswer>;
  endAlert(alertId: string): void;
  /** Returns once the site's copy of the registry has this version or a later one. */
  registryChanged(siteId: string, version: number): Promise<void>;
  /** Records a batch of publishes of one key in order, in one transaction. */
  submit(batch: SubmissionBatch): Promise<SubmitAnswer>;
  /**
   * What the submissions would be answered, each after those before it [C-13.1]: JSON of a `DryRunAnswer` for each.
   */
  dryRun(batch: SubmissionBatch, asker: Asker): Promise<string[]>;
  ask(question: SiteQuestion): Promise<string | null>;
  /** JSON of `SiteConfigSnapshot`. */
  readConfig(siteId: string, asker: Asker): Promise<string>;
  /** `atMs`: only commands that were recorded at this time or before. */
  readCommands(
    siteId: string,
    page: number,
    pageSize: number,
    asker: Asker,
    atMs?: number,
  ): Promise<CommandLogPage>;
  readLatestTelemetry(siteId: string): Promise<{ timestamp: string; payload: CanonicalTelemetry }>;
  readHistory(siteId: string, query: HistoryQuery): Promise<JsonChunk>;
  readSchedules(siteId: string, query: ScheduleQuery, asker: Asker): Promise<JsonChunk>;
  readMeterState(siteId: string): Promise<MeterReading | null>;
  readDeviceTelemetry(deviceId: string, query: DeviceQuery): DevicePage;
  diagnostics(deviceId: string): Diagnosis;
  /** How many values each version of the data keys seals here; older ones are sealed again first [C-14.7]. */
  sealedBy(): Record<string, number>;
}

// events

/**
 * One event from a Site's outbox. `sequence` only increases; the Vhost drops events that it has already seen.
 */
export interface OutboxEvent {
  sequence: number;
  kind: EventKind;
  messageId: string;
  correlationId: string | null;
  atMs: number;
  payloadText: string;
}

/** An event that a crash may lose, because it is not in the outbox (telemetry). */
export type PassingEvent = Omit<OutboxEvent, 'sequence'>;

/** The Vhost's answer to events from a Site's outbox. */
export interface Receipt {
  /**
   * Highest outbox sequence that the Vhost has stored or its clients have acknowledged; the Site may delete up
   * to it.
   */
  received: number;
  /** Highest outbox sequence that the Vhost has, at least in memory; absent: the same as `received`. */
  seen?: number;
  /** The key has ended: the Site must not send more events. */
  gone: boolean;
}

// a key's Vhost

/** An API key as its creation passes it to the Vhost. */
export interface VhostGrant {
  keyId: string;
  keyPrefix: string;
  partnerId: string;
  slug: string;
  /** The vhost name that clients use: `partner-<key_id>`, or `/` for a legacy key [C-5.3]. */
  vhost: string;
  organizationId: string;
  scopes: string[];
  allowedPlantIds: string[] | null;
  expiresAtMs: number | null;
  /** 64 hex characters. */
  signingKey: string;
}

export interface VhostRpc
  extends BackupRpc,
    JournalRpc,
    DeadLetterRpc,
    WebhookRpc,
    VhostAskRpc,
    VhostStandingRpc {
  /** A publish of a partner over HTTPS [C-13.5]. `siteId`: the site of the request, which the key may see. */
  publishOverHttps(
    siteId: string,
    routingKey: string,
    message: string,
  ): Promise<CommandAnswer | PublishRefusal>;
  /** Makes this object the vhost of a key. Idempotent; a revoked key stays revoked. */
  open(grant: VhostGrant): void;
  /**
   * Revokes the key durably, closes its connections and deletes its queues. Returns when open calls to Sites
   * have ended. The object also writes the revocation to D1 later (rule 6). A key that is opened afterwards
   * stays revoked.
   */
  revoke(keyId?: string, audit?: AuditEntry): Promise<void>;
  /**
   * Returns once the vhost's copy of the registry has this version or a later one; at once if the key has ended
   * or was not opened here.
   */
  registryChanged(version: number): Promise<void>;
  /** Deletes a key whose creation failed or whose organization was deleted; it stays revoked if it is opened again. */
  discard(): void;
  /**
   * Receives events from a Site's outbox in their order. Events that the Vhost already has are ignored, so the Site may
   * send them again.
   */
  receive(siteId: string, events: OutboxEvent[]): Promise<Receipt>;
  /** Receives events that a crash may lose. */
  receivePassing(siteId: string, events: PassingEvent[]): Promise<'taken' | 'gone'>;
  /** How many values each version of the data keys seals here; older ones are sealed again first [C-14.7]. */
  sealedBy(): Record<string, number>;
}
