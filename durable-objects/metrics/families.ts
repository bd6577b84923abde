/**
 * The metrics of the edge for Prometheus: each name, its labels and the closed lists of their values. The key
 * of a count consists of the family's key and the label values, separated by slashes.
 */
import {
  ACKNOWLEDGEMENT_STATUSES,
  DEVICE_DROP_REASONS,
  type DeviceDropReason,
  type ExecutionStatus,
  REJECTION_CODES,
  type RejectionCode,
} from '../../protocol/enums.ts';
import { ERROR_STATUS } from '../../protocol/errors.ts';
import { type Acknowledgement, ALARM_TYPES, type Alarm } from '../../protocol/event.ts';

export interface Family {
  name: `sitewire_edge_${string}`;
  type: 'counter' | 'gauge';
  help: string;
  labels: readonly string[];
}

/** A family of counts. Each of `values` is exposed from the beginning, starting at 0. */
export interface CountFamily extends Family {
  key: string;
  values: readonly (readonly string[])[];
}

type Answered = Exclude<Acknowledgement['status'], 'REJECTED'>;
type Ended = Exclude<ExecutionStatus, 'EXECUTING'>;
export type PartnerRefusal = (typeof PARTNER_REFUSALS)[number];
type DeviceRefusal = (typeof DEVICE_REFUSALS)[number];

export type CountKey =
  | `acknowledgements/${Answered}/`
  | `acknowledgements/REJECTED/${RejectionCode}`
  | `dry_runs/${Acknowledgement['status']}`
  | `executions/${Ended}`
  | `alarms/${Alarm['type']}`
  | `device_dropped/${DeviceDropReason}`
  | `refused_dials/partner/${PartnerRefusal}`
  | `refused_dials/device/${DeviceRefusal}`
  | `answers/${number}`
  | `journal_deleted/${(typeof JOURNAL_DELETED)[number]}`
  | `webhook_attempts/${(typeof WEBHOOK_ATTEMPTS)[number]}`
  | `webhooks_disabled/${(typeof WEBHOOKS_DISABLED)[number]}`
  | `left_out/${(typeof LEFT_OUT)[number]}`;

/** Counts by key. During a deploy newer code may send keys that this code does not know. */
export type Counts = Readonly<Record<string, number>>;

/**
 * Why a connection of a partner was rejected. Audit rows contain the same words, except that they name the
 * cause of `bad key`, such as `expired key`.
 */
const PARTNER_REFUSALS = [
  'bad key',
  'missing scope',
  'address',
  'connection limit',
  'key ended',
  'vhost',
] as const;
const DEVICE_REFUSALS = ['bad credential', 'not active'] as const;
/** What is dropped when a limit of the metrics object is reached. */
const LEFT_OUT = ['report', 'queue', 'count'] as const;
/** Why events of the journals were deleted: because of their age, or of the size of their journal. */
const JOURNAL_DELETED = ['age', 'limit'] as const;
const WEBHOOK_ATTEMPTS = ['delivered', 'failed'] as const;
const WEBHOOKS_DISABLED = ['GONE', 'ATTEMPTS_FAILED'] as const;
const ENDED: readonly Ended[] = ['COMPLETED', 'DEVIATED', 'FAILED'];
const ANSWERED = ACKNOWLEDGEMENT_STATUSES.filter((status) => status !== 'REJECTED');
const GOOD = [200, 201, 202];
const STATUSES = [...new Set<number>([...GOOD, ...Object.values(ERROR_STATUS), 405, 412])].sort();

const COUNTS: readonly Omit<CountFamily, 'type'>[] = [
  {
    key: 'acknowledgements',
    name: 'sitewire_edge_command_acknowledgements_total',
    help: "Acknowledgements of partners' commands, by status and, if REJECTED, by code; a repeated acknowledgement counts once",
    labels: ['status', 'code'],
    values: [...ANSWERED.map((status) => [status, '']), ...REJECTION_CODES.map((code) => ['REJECTED', code])],
  },
  {
    key: 'dry_runs',
    name: 'sitewire_edge_dry_runs_total',
    help: 'Commands of dry runs, by the status of the acknowledgement that they would get',
    labels: ['status'],
    values: ACKNOWLEDGEMENT_STATUSES.map((status) => [status]),
  },
  {
    key: 'executions',
    name: 'sitewire_edge_executions_total',
    help: 'Commands that have ended, by final status',
    labels: ['status'],
    values: ENDED.map((status) => [status]),
  },
  {
    key: 'alarms',
    name: 'sitewire_edge_alarms_raised_total',
    help: 'Alarms raised, by type; an alarm counts once, however many keys receive it',
    labels: ['type'],
    values: ALARM_TYPES.map((type) => [type]),
  },
  {
    key: 'device_dropped',
    name: 'sitewire_edge_device_dropped_messages_total',
    help: 'Dropped messages from devices, by reason',
    labels: ['reason'],
    values: DEVICE_DROP_REASONS.map((reason) => [reason]),
  },
  {
    key: 'refused_dials',
    name: 'sitewire_edge_refused_dials_total',
    help: 'Rejected connection attempts of partners and devices, by reason',
    labels: ['client', 'reason'],
    values: [
      ...PARTNER_REFUSALS.map((reason) => ['partner', reason]),
      ...DEVICE_REFUSALS.map((reason) => ['device', reason]),
    ],
  },
  {
    key: 'answers',
    name: 'sitewire_edge_http_answers_total',
    help: 'Responses of the REST API, by status code',
    labels: ['code'],
    values: STATUSES.map((status) => [String(status)]),
  },
  {
    key: 'journal_deleted',
    name: 'sitewire_edge_journal_deleted_events_total',
    help: 'Events deleted from the journals of all keys, by reason: age, or the size of the journal (limit)',
    labels: ['reason'],
    values: JOURNAL_DELETED.map((reason) => [reason]),
  },
  {
    key: 'webhook_attempts',
    name: 'sitewire_edge_webhook_attempts_total',
    help: 'POSTs to the receivers of webhooks, by result: delivered (answered with 2xx) or failed',
    labels: ['result'],
    values: WEBHOOK_ATTEMPTS.map((result) => [result]),
  },
  {
    key: 'webhooks_disabled',
    name: 'sitewire_edge_webhooks_disabled_total',
    help: 'Webhooks that the platform disabled, by reason: GONE (the receiver answered 410) or ATTEMPTS_FAILED',
    labels: ['reason'],
    values: WEBHOOKS_DISABLED.map((reason) => [reason]),
  },
  {
    key: 'left_out',
    name: 'sitewire_edge_metrics_left_out_total',
    help: 'Object reports, queues and counts that were dropped because a limit of these metrics was reached',
    labels: ['what'],
    values: LEFT_OUT.map((what) => [what]),
  },
];

export const COUNTED = COUNTS.map((own): CountFamily => ({ ...own, type: 'counter' }));

/**
 * Why a queue dropped a message. After the last two the message goes to the dead-letter queue, unless it came
 * from there. Messages that a client purges, or that are deleted with their queue, are not counted.
 */
export const QUEUE_DROPS = ['limit', 'age', 'deliveries', 'rejected'] as const;
export type QueueDrop = (typeof QUEUE_DROPS)[number];

const QUEUE = ['organization', 'key', 'queue'];

export const QUEUE_MESSAGES: Family = {
  name: 'sitewire_edge_queue_messages',
  type: 'gauge',
  help: 'Messages in a queue: ready (waiting for a consumer) or unacked (delivered, not yet acknowledged)',
  labels: [...QUEUE, 'state'],
};
export const QUEUE_AGE: Family = {
  name: 'sitewire_edge_queue_oldest_message_age_seconds',
  type: 'gauge',
  help: 'Age of the oldest message that is ready or unacked; 0 if the queue is empty',
  labels: QUEUE,
};
export const QUEUE_DROPPED: Family = {
  name: 'sitewire_edge_queue_dropped_messages_total',
  type: 'counter',
  help: 'Messages that left a queue without being acknowledged, by reason: limit, age, or (dead-lettered) deliveries, rejected',
  labels: [...QUEUE, 'reason'],
};
export const AWAKE: Family = {
  name: 'sitewire_edge_objects_awake',
  type: 'gauge',
  help: 'Objects that reported within the last five minutes, by class',
  labels: ['class'],
};
export const BUILD: Family = {
  name: 'sitewire_edge_build_info',
  type: 'gauge',
  help: 'Always 1; version is the id of the deployed version, if Cloudflare reports it',
  labels: ['version'],
};

export const DATABASE: Family = {
  name: 'sitewire_edge_database_bytes',
  type: 'gauge',
  help: 'Size of D1, which has at most 10 GB; absent while D1 does not answer',
  labels: [],
};

export const FAMILIES: readonly Family[] = [
  ...COUNTED,
  QUEUE_MESSAGES,
  QUEUE_AGE,
  QUEUE_DROPPED,
  AWAKE,
  BUILD,
  DATABASE,
];
