/**
 * What Worker, Site and Vhost say to each other: over RPC, and in the upgrade that hands a client's socket to its
 * object. Both sides of a deploy run at once: add fields, never re-mean one.
 */
import type { CommandLogPage } from '../protocol/command-log.ts';
import type { DeviceDiagnostics, OwnCommand, TokenRenewal } from '../protocol/device-record.ts';
import type { DeviceType } from '../protocol/enums.ts';
import { type ApiErrorCode, errorBody } from '../protocol/errors.ts';
import type { DevicePage, DeviceQuery, HistoryQuery, JsonChunk } from '../protocol/history.ts';
import type { MeterReading } from '../protocol/meter.ts';
import type { CommandFamily, EventKind } from '../protocol/routing-keys.ts';
import type { SiteConfig, SiteConfigRequest } from '../protocol/site-config.ts';
import type { CanonicalTelemetry } from '../protocol/telemetry.ts';
import type { AuditEntry, RegistryWrite } from './registry/entries.ts';

// a plant's Site

/** A device as its provisioning hands it over. */
export interface DeviceGrant {
  siteId: string;
  plantId: string | null;
  deviceId: string;
  type: DeviceType;
  /** 64 hex characters. */
  hmacSecret: string;
  /** Of two grants the one with the higher version counts: the moment at which it was made. */
  version?: number;
}

/** Until when the secret of before is good, and what of it the registry is told. */
export interface SecretRotation {
  rotatedAtMs: number;
  graceUntilMs: number;
  told: RegistryWrite[];
}

/** A command to a device over REST [C-3.4]. */
export interface OwnCommandSubmission {
  action: string;
  payload: Record<string, unknown>;
  validUntilMs: number | null;
  idempotencyKey: string | null;
}

/**
 * `reused`: its key came before with something else; `full`: too many are open; `inactive`: the device takes none;
 * `expired`: its time is over.
 */
export type OwnCommandAnswer =
  | { command: OwnCommand }
  | { refused: 'reused' | 'full' | 'inactive' | 'expired' };

/** A device on its way to another object: of each of its tables the rows, and the nonces that count [C-3.1]. */
export interface DevicePack {
  tables: Record<string, (string | number | null)[][]>;
  nonces: { deviceId: string; nonce: string; digest: string; ts: number; receivedMs: number }[];
}

/** A login that was refused; `counts`: toward the device's suspension [C-3.11]. */
export interface RefusedLogin {
  address: string;
  reason: string;
  counts: boolean;
  organizationId: string;
}

/** What the Vhost found of a publish's signature [C-7.2]. */
export type SignatureVerdict = 'valid' | 'not-needed' | 'missing' | 'mismatch';

/** One authorized publish, as the Vhost hands it to the Site. */
export interface Submission {
  messageId: string;
  correlationId: string | null;
  source: string;
  /** The envelope's own timestamp. */
  timestampMs: number;
  routingKey: string;
  family: CommandFamily;
  payloadText: string;
  signature: SignatureVerdict;
  /** What a mismatch is told with, where the organization has `signatureHints`. */
  signatureHint?: string;
  /** Names the publish itself: the same whenever a lane hands it over again. */
  publishId?: string;
}

export interface SubmissionBatch {
  siteId: string;
  keyId: string;
  keyPrefix: string;
  /** How far the Vhost needs this Site's outbox no more: it has stored that, or its clients have acknowledged it. */
  received: number;
  /** How far it has it, some of it in memory alone: not to be sent again while that is so. Absent: as `received`. */
  seen?: number;
  /** Behind this moment its Vhost has answered for them: nothing of it is recorded any more. */
  notAfterMs?: number;
  /** An earlier call with it was not answered: some of it may be recorded. */
  isRepeated?: boolean;
  submissions: Submission[];
}

/** What a submit answers: each submission recorded or failed, and the events that its Vhost does not have yet. */
export interface SubmitAnswer {
  outcomes: ('recorded' | 'failed')[];
  events: OutboxEvent[];
}

/** An admin's configuration for a plant. */
export interface ConfigPut {
  config: SiteConfigRequest;
  /** The tags of which one must be the present one's; null = whatever that is. */
  ifMatch: string[] | null;
  mayChangeHardLimits: boolean;
  /** Who puts it, for the log. */
  source: string;
}

/** The configuration as it is then, and its entity tag, quotes included; `refused` when it was left so. */
export interface ConfigAnswer {
  config: SiteConfig;
  etag: string;
  refused?: 'stale' | 'hard-limits';
}

/** [C-3.8], and the rows written since this wake. */
export interface Diagnosis extends DeviceDiagnostics {
  rowsWritten: number;
}

export interface SiteRpc {
  /** Takes a provisioned device in. The same grant again changes nothing; a decommissioned device stays so. */
  adoptDevice(grant: DeviceGrant): void;
  /**
   * Suspends, reactivates or, for good, decommissions a device here, where it takes effect at once (rule 6). Returns what
   * it tells the registry; undefined where the device is not here, or in no state that leads there.
   */
  setDeviceStatus(
    deviceId: string,
    status: 'ACTIVE' | 'SUSPENDED' | 'DECOMMISSIONED',
    reason?: string | null,
    audit?: AuditEntry,
  ): RegistryWrite[] | undefined;
  /** Nothing of it is left: its session is cut, what it had under way ends. */
  forgetDevice(deviceId: string): void;
  /** A new secret; the one of before is good until then. Undefined where the device is not here. */
  rotateSecret(deviceId: string, hmacSecret: string, audit?: AuditEntry): SecretRotation | undefined;
  /** Whether a device's own request for a token holds: each only once [C-3.12]. */
  proveRenewal(deviceId: string, renewal: TokenRenewal): boolean;
  /** Lets go of a device: what another object takes it over with; undefined where it is not here. */
  releaseDevice(deviceId: string, to: string): DevicePack | undefined;
  takeDevice(siteId: string, deviceId: string, pack: DevicePack): void;
  dropDevice(deviceId: string): void;
  noteRefusedLogin(deviceId: string, refused: RefusedLogin): void;
  /** Its session, if it is in one, goes on until then at most. */
  endSessionBy(deviceId: string, atMs: number): void;
  submitOwnCommand(deviceId: string, submission: OwnCommandSubmission, audit?: AuditEntry): OwnCommandAnswer;
  /** Newest first; `page` from 1. */
  pageOwnCommands(deviceId: string, page: number, limit: number): { commands: OwnCommand[]; total: number };
  findOwnCommand(deviceId: string, cmdId: string): OwnCommand | undefined;
  configure(siteId: string, config: SiteConfig): void;
  /** A plant's configuration by itself, as admins have it. */
  readConfiguration(siteId: string): Promise<ConfigAnswer>;
  /** Puts another, in force at once, with a row in the log [C-2.3]. */
  putConfiguration(siteId: string, put: ConfigPut): Promise<ConfigAnswer>;
  endAlert(alertId: string): void;
  /** Returns once the site's copy of the registry is of this version or a later one. */
  registryChanged(siteId: string, version: number): Promise<void>;
  /** Records a batch of one key's publishes, all in one transaction, in order. */
  submit(batch: SubmissionBatch): Promise<SubmitAnswer>;
  /** JSON of `SiteConfigSnapshot`. */
  readConfig(siteId: string): Promise<string>;
  readCommands(siteId: string, page: number, pageSize: number): Promise<CommandLogPage>;
  readLatestTelemetry(siteId: string): Promise<{ timestamp: string; payload: CanonicalTelemetry }>;
  readHistory(siteId: string, query: HistoryQuery): Promise<JsonChunk>;
  readMeterState(siteId: string): Promise<MeterReading | null>;
  readDeviceTelemetry(deviceId: string, query: DeviceQuery): DevicePage;
  diagnostics(deviceId: string): Diagnosis;
}

// events

/** One event out of a Site's outbox. `sequence` only grows; the Vhost drops what it has seen. */
export interface OutboxEvent {
  sequence: number;
  kind: EventKind;
  messageId: string;
  correlationId: string | null;
  atMs: number;
  payloadText: string;
}

/** An event that a crash may lose: it has no place in the outbox (telemetry). */
export type PassingEvent = Omit<OutboxEvent, 'sequence'>;

/** What a Vhost answers to events: how far it needs them no more and has them, or that the key is no more. */
export interface Receipt {
  received: number;
  /** As in `SubmissionBatch`. */
  seen?: number;
  gone: boolean;
}

// a key's Vhost

/** A key as its creation hands it over. */
export interface VhostGrant {
  keyId: string;
  keyPrefix: string;
  slug: string;
  /** Its name to clients: `partner-<key_id>`, or `/` for a legacy key [C-5.3]. */
  vhost: string;
  organizationId: string;
  scopes: string[];
  allowedPlantIds: string[] | null;
  expiresAtMs: number | null;
  /** 64 hex characters. */
  signingKey: string;
}

export interface VhostRpc {
  /** Makes this the vhost of a key. Idempotent; a revoked key stays revoked. */
  open(grant: VhostGrant): void;
  /**
   * Revokes here: durable, sockets closed, queues gone; a call to a Site that was under way has ended when this
   * returns. D1 follows, from here too (rule 6). A key that was never opened stays revoked when it is.
   */
  revoke(keyId?: string): Promise<void>;
  /** Returns once the vhost's copy of the registry is of this version or a later one. */
  registryChanged(version: number): Promise<void>;
  /** Nothing of a key whose creation failed is left; it is not opened again. */
  discard(): void;
  /** Takes events of a Site's outbox, each once, in order. */
  receive(siteId: string, events: OutboxEvent[]): Promise<Receipt>;
  /** Takes events that a crash may lose. */
  receivePassing(siteId: string, events: PassingEvent[]): Promise<'taken' | 'gone'>;
}

/** The REST requests of one key or user in its present minute. */
export interface RequestCount {
  isOver: boolean;
  /** Requests that are left until the count begins anew. */
  remaining: number;
  resetMs: number;
}

export interface RequestCounterRpc {
  /** One request more, of so many a minute. One that is over is not counted. */
  take(perMinute: number): RequestCount;
}

// the upgrade of a client's link

/** What the Worker found out about a device that dials. */
export interface DeviceDial {
  siteId: string;
  plantId: string | null;
  deviceId: string;
  connection: string;
  bridge: string;
  boot: string;
  /** The version of the link's frames that the bridge speaks. */
  link: number;
  expiresAtMs: number | null;
  /** Both absent from older code; when its token was issued, null for a certificate. */
  issuedAtMs?: number | null;
  address?: string;
}

/** What the Worker found out about a partner's client that dials. */
export interface ClientDial {
  keyId: string;
  connection: string;
  bridge: string;
  boot: string;
  /** The version of the link's frames that the bridge speaks. */
  link: number;
  address: string;
  /** The probe of a new key: no connection of its partner's [C-5.4]. */
  isProbe?: boolean;
}

/** The header in which the Worker hands an authenticated dial to the object. Clients cannot set it: the request is new. */
export const DIAL_HEADER = 'sitewire-dial';

export function readDial<Dial extends DeviceDial | ClientDial>(request: Request): Dial | undefined {
  const header = request.headers.get(DIAL_HEADER);
  if (!header || request.headers.get('upgrade') !== 'websocket') return undefined;
  return JSON.parse(header) as Dial;
}

/** As the upgrade's HTTP answer: our error envelope, which the bridge turns into its client's protocol. */
export function refusalResponse(code: ApiErrorCode, message: string): Response {
  const body = errorBody(code, message);
  return Response.json(body, { status: body.statusCode });
}

/** What a path that does not exist answers: so does the door without a valid proof (rule 1). */
export function notFoundResponse(): Response {
  return refusalResponse('NOT_FOUND', 'Not found');
}
