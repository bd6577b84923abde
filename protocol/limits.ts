/**
 * All limits, lifetimes and retention periods that clients can observe, except the ceilings (`ceilings.ts`): value, unit,
 * clause (`ours` if neither spec nor contract has one) and, if any, the organization setting that overrides the value.
 * Code reads them from `LIMIT`, and `npm run docs` prints them. Code that enforces internal bounds defines them.
 */
import { DEVICE_LIMITS, type Limit } from './device-limits.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;
const KIB = 1_024;
const MIB = 1_024 * KIB;

export const LIMITS = {
  // REST
  commandsPageSize: [500, 'rows', 'spec: Limits'],
  commandsPageSizeDefault: [50, 'rows', 'spec: Limits'],
  commandsPage: [1_000_000, 'pages', 'ours'],
  commandsPageCharacters: [4 * MIB, 'characters', 'ours'],
  pendingCommands: [100, 'commands', 'spec: Limits'],
  // The rows that `page` can reach; later ones need a cursor. A total is counted only up to one more than this.
  listTotal: [10_000, 'rows', 'C-14.3'],
  listRows: [100, 'rows', 'spec: Limits'],
  listRowsDefault: [20, 'rows', 'spec: Limits'],
  addressRequestsPerMinute: [1_200, 'requests', 'C-14.2'],
  requestsPerMinute: [600, 'requests', 'C-4.7', 'restRatePerMinute'],
  restBodyBytes: [MIB, 'bytes', 'C-4.7'],
  // For routes that need no credential: a body, a browser's report, all unfinished bodies of a network.
  publicBodyBytes: [16 * KIB, 'bytes', 'C-15.7'],
  reportBodyBytes: [64 * KIB, 'bytes', 'C-15.7'],
  openBodiesBytes: [256 * KIB, 'bytes', 'C-15.7'],
  restBodyDepth: [64, 'levels', 'ours'],
  schedulesWindowMs: [7 * DAY, 'ms', 'spec: Limits'],
  lastUsedStepMs: [MINUTE, 'ms', 'ours'],

  // the event journal of a key, and its webhooks
  journalBytes: [256 * MIB, 'bytes', 'C-12.1'],
  journalRetentionDays: [7, 'days', 'C-12.1', 'journalRetentionDays'],
  journalRetentionDaysMin: [1, 'days', 'C-12.1'],
  journalRetentionDaysMax: [30, 'days', 'C-12.1'],
  eventsPerPage: [500, 'events', 'C-12.2'],
  eventsPerPageDefault: [100, 'events', 'C-12.2'],
  streamsPerKey: [10, 'streams', 'C-12.3'],
  streamsOfPlantPerPerson: [5, 'streams', 'C-15.4'],
  streamsPerPerson: [20, 'streams', 'C-15.4'],
  streamsPerPlant: [50, 'streams', 'C-15.4'],
  streamOpensPerMinute: [60, 'streams', 'C-15.4'],
  streamMs: [15 * MINUTE, 'ms', 'C-12.3'],
  streamCommentMs: [15 * SECOND, 'ms', 'C-12.3'],
  streamRetryMs: [2 * SECOND, 'ms', 'C-12.3'],
  webhooksPerKey: [16, 'webhooks', 'C-12.4'],
  webhooksPerUrl: [4, 'webhooks', 'C-15.3'],
  webhookUrlCharacters: [2_048, 'characters', 'ours'],
  webhookSites: [100, 'sites', 'ours'],
  webhookDescriptionCharacters: [200, 'characters', 'ours'],
  webhookWindow: [8, 'events', 'C-12.4'],
  webhookPosts: [5, 'requests', 'ours'],
  webhookPostsOfKey: [6, 'requests', 'ours'],
  webhookAnswerMs: [20 * SECOND, 'ms', 'C-12.4'],
  webhookAnswerBytes: [KIB, 'bytes', 'C-12.4'],
  webhookAttemptsKept: [200, 'attempts', 'C-12.4'],
  webhookRecoverMs: [MINUTE, 'ms', 'C-15.3'],
  webhookSecretGraceMs: [DAY, 'ms', 'C-12.4'],
  webhookTestsPerMinute: [30, 'requests', 'ours'],

  // users and organizations
  passwordMinCharacters: [10, 'characters', 'C-1.4'],
  passwordMaxCharacters: [200, 'characters', 'C-1.4'],
  nameCharacters: [100, 'characters', 'spec: Limits'],
  emailCharacters: [254, 'characters', 'ours'],
  // Wrong passwords for one account: from one client network, and from all networks together.
  wrongLogins: [10, 'logins', 'C-1.4'],
  wrongLoginsEverywhere: [100, 'logins', 'C-14.4'],
  wrongLoginsMs: [15 * MINUTE, 'ms', 'C-1.4'],
  knownBrowserMs: [90 * DAY, 'ms', 'ours'],
  accessTokenMs: [15 * MINUTE, 'ms', 'C-1.4'],
  refreshTokenMs: [30 * DAY, 'ms', 'C-1.4'],
  sessionMs: [90 * DAY, 'ms', 'C-14.7'],
  verifyEmailMs: [DAY, 'ms', 'C-14.1'],
  emailChangeMs: [DAY, 'ms', 'C-11.3'],
  passwordResetMs: [30 * MINUTE, 'ms', 'C-11.4'],
  mailsPerHour: [3, 'mails', 'C-15.5'],
  mailsPerDay: [10, 'mails', 'C-15.5'],
  mailPauseMs: [MINUTE, 'ms', 'ours'],
  unprovedAccountMs: [7 * DAY, 'ms', 'ours'],
  // A login over the limit ends the oldest session.
  sessionsPerUser: [100, 'sessions', 'ours'],
  organizationsPerUser: [100, 'organizations', 'ours'],
  // A user who is ORG_ADMIN of this many organizations cannot create another one.
  organizationsMade: [10, 'organizations', 'C-14.2'],
  supportSessionMs: [60 * MINUTE, 'ms', 'ours'],
  supportReasonCharacters: [500, 'characters', 'ours'],
  invitationMs: [7 * DAY, 'ms', 'C-11.2'],
  invitationsPerDay: [100, 'invitations', 'C-14.2'],
  invitationChecksPerMinute: [20, 'requests', 'C-11.2'],
  mailRequestsPerMinute: [30, 'requests', 'C-15.5'],
  membersPerOrganization: [1_000, 'members', 'ours'],
  plantsPerOrganization: [10_000, 'plants', 'ours'],
  subDevicesPerPlant: [500, 'assets', 'ours'],
  keysPerOrganization: [1_000, 'keys', 'ours'],
  bundleSites: [100, 'sites', 'ours'],
  allowedIpsPerKey: [100, 'ranges', 'ours'],
  allowedPlantsPerKey: [1_000, 'plants', 'ours'],
  auditEvents: [1_000_000, 'events', 'C-14.3'],
  auditRetentionDays: [400, 'days', 'C-1.1', 'auditRetentionDays'],

  // command payloads
  commandsPerBatch: [32, 'commands', 'spec: Limits'],
  commandMagnitude: [1e9, 'kW, kWh', 'C-7.4'],
  commandIntervalMinutes: [7 * 24 * 60, 'minutes', 'ours'],
  commandReasonCharacters: [500, 'characters', 'spec: Limits'],
  envelopeDepth: [32, 'levels', 'ours'],
  dryRunCommands: [20, 'commands', 'C-13.1'],
  rejectedPayloadCharacters: [4 * KIB, 'characters', 'ours'],
  envelopeTextCharacters: [256, 'characters', 'C-7.1'],
  constraintMagnitude: [1e9, 'kW', 'C-7.4'],
  fallbackAfterSeconds: [300, 'seconds', 'C-2.3'],
  fallbackAfterSecondsMin: [30, 'seconds', 'C-2.3'],
  fallbackAfterSecondsMax: [3_600, 'seconds', 'C-2.3'],
  scheduleSlots: [672, 'slots', 'C-7.9'],
  scheduleSlotMinutes: [15, 'minutes', 'C-7.9'],
  scheduleSlotMinutesMin: [1, 'minutes', 'C-7.9'],
  scheduleSlotMinutesMax: [60, 'minutes', 'C-7.9'],
  // Over these limits the oldest open schedule ends FAILED, and the oldest ended schedule is deleted.
  openSchedules: [100, 'schedules', 'ours'],
  schedulesKept: [4_000, 'schedules', 'ours'],
  // Faults that are reported for one invalid payload, body or envelope, and the length of each.
  faultsReported: [20, 'faults', 'ours'],
  faultCharacters: [200, 'characters', 'ours'],

  // command execution
  messageIdMemoryMs: [7 * DAY, 'ms', 'C-7.3'],
  deviceCommandWaitMs: [15 * MINUTE, 'ms', 'C-7.6'],
  waitingCommands: [50, 'commands', 'C-7.6'],
  commandsAhead: [1_000, 'commands', 'ours'],
  noResultMs: [15 * MINUTE, 'ms', 'C-7.8'],
  ackTimeoutMs: [30 * SECOND, 'ms', 'C-7.8'],
  dispatchTries: [3, 'tries', 'C-7.8'],
  openSetpointMs: [5 * MINUTE, 'ms', 'C-7.8'],
  violationDampingMs: [10 * SECOND, 'ms', 'C-8.3'],
  settlingMs: [MINUTE, 'ms', 'C-7.8'],
  // The allowed deviation from a setpoint: this fraction of its target, but at least this much power or energy.
  verdictTolerance: [0.05, 'fraction', 'C-7.8'],
  verdictToleranceKw: [0.5, 'kW', 'C-7.8'],
  verdictToleranceKwh: [0.1, 'kWh', 'C-7.8'],
  // How far before the start of a setpoint its verdict reads samples, to find the one that was valid at the start.
  verdictLookBackMs: [60 * MINUTE, 'ms', 'ours'],
  registerFreshMs: [30 * SECOND, 'ms', 'ours'],
  // A verdict evaluates at most the last day of a setpoint, and at most this many spans in which it was active.
  verdictDepthMs: [DAY, 'ms', 'ours'],
  planSpans: [1_000, 'spans', 'ours'],
  confirmMs: [8 * SECOND, 'ms', 'C-6.4'],

  // signatures
  signatureHintCharacters: [2 * KIB, 'characters', 'ours'],
  timestampToleranceMs: [300 * SECOND, 'ms', 'spec: Limits'],
  nonceWindowMs: [300 * SECOND, 'ms', 'spec: Limits'],

  // AMQP
  connectionsPerKey: [10, 'connections', 'C-6.3'],
  channelsPerConnection: [64, 'channels', 'C-6.3'],
  consumersPerConnection: [256, 'consumers', 'C-6.3'],
  amqpHeartbeatSeconds: [60, 'seconds', 'C-6.3'],
  amqpHandshakeMs: [10 * SECOND, 'ms', 'C-6.3'],
  amqpCloseMs: [3 * SECOND, 'ms', 'ours'],
  // How long close-ok waits for publishes that are held because of the rate limit.
  amqpLeaveMs: [30 * SECOND, 'ms', 'ours'],
  // amqpOutputBytes: if this much output waits for a client, the bridge stops reading from it.
  // amqpUndrainedMs: a client without heartbeats that reads none of its waiting output for this time is
  // closed; with heartbeats the time is three intervals, at most three minutes.
  amqpOutputBytes: [MIB, 'bytes', 'ours'],
  amqpUndrainedMs: [30 * SECOND, 'ms', 'ours'],
  // Rejected AMQP logins a minute from one address with one credential, including those over the connection limit.
  // Above it the bridge rejects logins without a dial to the edge. For MQTT: from this many rejected logins a minute
  // on, the address counts as guessing device ids.
  refusedLoginsPerMinute: [30, 'logins', 'C-3.11'],
  // As in RabbitMQ: the end of a failed login without the client capability `authentication_failure_close`.
  failedLoginMs: [3 * SECOND, 'ms', 'ours'],
  tlsHandshakeMs: [5 * SECOND, 'ms', 'ours'],
  // Connections of a bridge whose clients have not sent a login yet; at the limit the oldest one is closed.
  silentConnectionsPerNetwork: [64, 'connections', 'C-14.6'],
  silentConnections: [5_000, 'connections', 'C-14.6'],
  // Those of them with a finished TLS handshake: each needs up to 85 KB, and all together less than 300 MB.
  silentTlsConnections: [1_500, 'connections', 'ours'],
  amqpFrameBytes: [131_072, 'bytes', 'C-6.3'],
  amqpFrameBytesMin: [4 * KIB, 'bytes', 'C-6.3'],
  amqpBodyBytes: [256 * KIB, 'bytes', 'C-6.3'],
  amqpPropertiesBytes: [16 * KIB, 'bytes', 'C-6.3'],
  amqpTableDepth: [32, 'levels', 'C-6.3'],
  publishesPerSecond: [50, 'publishes', 'C-6.5', 'publishRatePerSecond'],
  publishesBurst: [200, 'publishes', 'C-6.5'],
  heldPublishes: [256, 'publishes', 'C-6.5'],
  openPublishes: [128, 'publishes', 'ours'],
  openPublishBytes: [8 * MIB, 'bytes', 'ours'],
  openRequests: [32, 'requests', 'ours'],

  // queues
  queueMessages: [100_000, 'messages', 'C-6.4'],
  queueBytes: [64 * MIB, 'bytes', 'C-6.4'],
  deadLetterBytes: [16 * MIB, 'bytes', 'C-6.4'],
  queueAgeMs: [7 * DAY, 'ms', 'C-6.4'],
  telemetryQueueAgeMs: [DAY, 'ms', 'C-6.4'],
  // Partner queues. All of them together may hold as much as one event queue.
  partnerQueues: [32, 'queues', 'C-6.6'],
  bindingsPerQueue: [64, 'bindings', 'ours'],
  // A delivery that is not acknowledged within this time closes its channel.
  unacknowledgedMs: [30 * MINUTE, 'ms', 'C-6.4'],
  deliveriesPerMessage: [20, 'deliveries', 'C-6.4'],

  ...DEVICE_LIMITS,

  // telemetry
  telemetryIntervalSecondsMin: [5, 'seconds', 'C-1.1'],
  telemetryIntervalSecondsMax: [300, 'seconds', 'C-1.1'],
  telemetryIntervalSeconds: [10, 'seconds', 'C-8.2', 'telemetryIntervalSeconds'],
  telemetryPulseMs: [MINUTE, 'ms', 'C-8.2'],
  rawRetentionDays: [30, 'days', 'ours', 'rawRetentionDays'],
  fiveMinuteRetentionDays: [365, 'days', 'ours', 'fiveMinuteRetentionDays'],
  hourlyRetentionDays: [5 * 365, 'days', 'ours', 'hourlyRetentionDays'],
  // The longest range of one request, by bucket width.
  rawSpanMs: [7 * DAY, 'ms', 'C-4.5'],
  fiveMinuteSpanMs: [92 * DAY, 'ms', 'C-4.5'],
  hourSpanMs: [2 * 366 * DAY, 'ms', 'C-4.5'],
  metricCharacters: [200, 'characters', 'spec: Limits'],
  deviceTelemetryPage: [1_000_000, 'pages', 'ours'],
  deviceTelemetryRows: [1_000, 'rows', 'C-3.5'],
  deviceTelemetryDefaultMs: [DAY, 'ms', 'C-3.5'],
  meterReadingsDefaultMs: [DAY, 'ms', 'C-4.1'],
  meterReadingStepMs: [15 * MINUTE, 'ms', 'C-4.5'],
  // Age up to which a register reading is GOOD, and up to which it is answered at all.
  registerGoodMs: [5 * MINUTE, 'ms', 'C-4.6'],
  // What a register counts at most where neither the power of its sub-device nor the connection's limits are known.
  registerPowerKw: [100_000, 'kW', 'ours'],
  registerStaleMs: [15 * MINUTE, 'ms', 'C-4.6'],
  signalStaleMs: [5 * MINUTE, 'ms', 'C-4.5'],

  // alerts
  alertRulesPerOrganization: [200, 'rules', 'ours'],
  alertSecondsMax: [86_400, 'seconds', 'ours'],
  alertAbsentSeconds: [300, 'seconds', 'C-9'],
  alertCooldownSeconds: [300, 'seconds', 'C-9'],
  // At least a minute, so that a condition that becomes true again and again does not open an alert each time.
  alertCooldownSecondsMin: [60, 'seconds', 'ours'],
  alertsKept: [20_000, 'alerts', 'ours'],
  alertRecipients: [20, 'members', 'ours'],
  alertNoteCharacters: [500, 'characters', 'ours'],

  // presence
  sessionGoneMs: [90 * SECOND, 'ms', 'C-2.5'],
  subDeviceFreshMs: [5 * MINUTE, 'ms', 'C-2.5'],
  subDeviceOfflineMs: [15 * MINUTE, 'ms', 'C-2.5'],
  // An OFFLINE sub-device rejects commands only after its serving device has been connected for this long.
  offlineGraceMs: [MINUTE, 'ms', 'C-7.4'],
} as const satisfies Record<string, Limit>;

export type LimitName = keyof typeof LIMITS;

/** Only the numbers: `LIMIT.connectionsPerKey` is 10. */
export const LIMIT = Object.fromEntries(
  Object.entries(LIMITS).map(([name, [value]]) => [name, value]),
) as Readonly<Record<LimitName, number>>;
