/** The names that schemas have in the OpenAPI document: `#/components/schemas/<name>`. */
import type * as z from 'zod';
import * as account from '../../../protocol/account.ts';
import { savedEvent } from '../../../protocol/after-restore.ts';
import * as alert from '../../../protocol/alert.ts';
import * as apiKey from '../../../protocol/api-key-record.ts';
import { auditEvent } from '../../../protocol/audit.ts';
import { ceilings, ceilingsChange } from '../../../protocol/ceilings.ts';
import { commandLogEntry } from '../../../protocol/command-log.ts';
import * as configuration from '../../../protocol/configuration.ts';
import { deadLetter, requeued } from '../../../protocol/dead-letter.ts';
import * as device from '../../../protocol/device-record.ts';
import * as template from '../../../protocol/device-template.ts';
import * as dryRun from '../../../protocol/dry-run.ts';
import { errorEnvelope } from '../../../protocol/errors.ts';
import { commandResult } from '../../../protocol/event.ts';
import * as journal from '../../../protocol/event-journal.ts';
import * as explain from '../../../protocol/explain.ts';
import * as invitation from '../../../protocol/invitation.ts';
import * as keyStatus from '../../../protocol/key-status.ts';
import * as meter from '../../../protocol/meter.ts';
import * as organization from '../../../protocol/organization.ts';
import { plantSubDevice, plantSummary } from '../../../protocol/plant.ts';
import * as plant from '../../../protocol/plant-record.ts';
import * as restPublish from '../../../protocol/rest-publish.ts';
import * as schedule from '../../../protocol/schedule.ts';
import * as config from '../../../protocol/site-config.ts';
import { supportSession } from '../../../protocol/support.ts';
import * as telemetry from '../../../protocol/telemetry.ts';
import * as timeline from '../../../protocol/timeline.ts';
import * as user from '../../../protocol/user.ts';
import * as webhook from '../../../protocol/webhook.ts';

const SCHEMAS = {
  Accepted: account.accepted,
  Alert: alert.alertRecord,
  AlertAction: alert.alertAction,
  AlertChange: alert.alertChange,
  AlertRule: alert.alertRuleRecord,
  AlertRuleRequest: alert.alertRuleRequest,
  ApiKey: apiKey.apiKeyRecord,
  ApiKeyCreated: apiKey.createdApiKey,
  ApiKeyRequest: apiKey.apiKeyRequest,
  AuditEvent: auditEvent,
  SavedEvent: savedEvent,
  CertificateAnswer: device.certificateAnswer,
  CertificateRequest: device.certificateRequest,
  Ceilings: ceilings,
  ConfigurationCheck: configuration.configurationCheck,
  Finding: configuration.finding,
  Listener: configuration.listener,
  CeilingsChange: ceilingsChange,
  CommandAnswer: restPublish.commandAnswer,
  CommandLogEntry: commandLogEntry,
  CommandRequest: restPublish.personCommandRequest,
  CommandResult: commandResult,
  ConnectionBundle: apiKey.connectionBundle,
  ConnectionTest: apiKey.connectionTest,
  Constraints: config.constraints,
  DeadLetter: deadLetter,
  Deletion: plant.deletion,
  Device: device.deviceRecord,
  DeviceChange: device.deviceChange,
  DeviceDiagnostics: device.deviceDiagnostics,
  DeviceRequest: device.deviceRequest,
  DeviceSample: telemetry.deviceSample,
  DeviceTelemetryPoint: telemetry.deviceTelemetryPoint,
  DeviceTemplate: template.deviceTemplateRecord,
  DeviceTemplateChange: template.deviceTemplateChange,
  DeviceTemplateRequest: template.deviceTemplateRequest,
  DryRunAnswer: dryRun.dryRunAnswer,
  DryRunAdmissible: dryRun.admissible,
  DryRunCommand: dryRun.dryRunCommand,
  DryRunPlan: dryRun.dryRunPlan,
  DryRunStage: dryRun.dryRunStage,
  EmailChangePending: account.emailChangePending,
  EmailChangeState: account.emailChangeState,
  EmailChangeRequest: account.emailChangeRequest,
  Error: errorEnvelope,
  EventPage: journal.eventPage,
  Explanation: explain.explanation,
  Fallback: config.fallback,
  Invitation: invitation.invitationRecord,
  InvitationAcceptance: invitation.invitationAcceptance,
  InvitationAccepted: invitation.invitationAccepted,
  InvitationQuestion: invitation.invitationQuestion,
  InvitationSummary: invitation.invitationSummary,
  InvitedMember: invitation.invitedMember,
  JournalEvent: journal.journalEvent,
  KeyConnection: keyStatus.keyConnection,
  KeyQueue: keyStatus.keyQueue,
  KeyRejection: keyStatus.keyRejection,
  KeyStatus: keyStatus.keyStatus,
  LatestTelemetry: telemetry.latestTelemetry,
  Login: user.login,
  LoginAnswer: user.loginAnswer,
  Member: organization.memberRecord,
  MemberRequest: organization.memberRequest,
  Membership: user.membership,
  MeterEntry: meter.meterEntry,
  MeterExchange: meter.meterExchange,
  MeterExchangeRequest: meter.meterExchangeRequest,
  MeterReading: meter.meterReading,
  MeterState: meter.meterState,
  ModeOverride: config.modeOverride,
  Organization: organization.organizationRecord,
  OrganizationChange: organization.organizationChange,
  OrganizationRequest: organization.organizationRequest,
  OrganizationSettings: organization.organizationSettings,
  PasswordChange: user.passwordChange,
  PasswordChanged: account.passwordChanged,
  PasswordResetConfirmation: account.resetConfirmation,
  Plant: plant.plantRecord,
  PlanChange: explain.planChange,
  PlanPlace: explain.planPlace,
  PlantCommand: dryRun.plantCommand,
  PlantChange: plant.plantChange,
  PlantRequest: plant.plantRequest,
  PlantSubDevice: plantSubDevice,
  PlantSummary: plantSummary,
  ProvisioningPackage: device.provisioningPackage,
  ReasonRequest: device.reasonRequest,
  RefreshAnswer: user.refreshAnswer,
  RefreshRequest: user.refreshRequest,
  Registration: user.registration,
  Requeued: requeued,
  RestCommand: device.restCommand,
  RestCommandRequest: device.restCommandRequest,
  RoleChange: user.roleChange,
  ScheduleSlot: schedule.scheduleSlot,
  ScheduleSummary: schedule.scheduleSummary,
  SecretRotation: device.secretRotation,
  Session: account.sessionRecord,
  SiteConfig: config.siteConfig,
  SiteConfigRequest: config.siteConfigRequest,
  SiteConfigSnapshot: config.siteConfigSnapshot,
  SubDevice: plant.subDeviceRecord,
  SubDeviceChange: plant.subDeviceChange,
  SubDeviceRequest: plant.subDeviceRequest,
  Success: user.success,
  SupportSession: supportSession,
  TelemetryPoint: telemetry.telemetryPoint,
  TemplateAction: template.templateAction,
  TemplateParam: template.templateParam,
  TemplateSignal: template.templateSignal,
  Timeline: timeline.timeline,
  TimelineStep: timeline.timelineStep,
  PlantMessage: timeline.plantMessage,
  TokenAnswer: device.tokenAnswer,
  TokenProof: account.tokenProof,
  TokenRenewal: device.tokenRenewal,
  TokenRequest: device.tokenRequest,
  User: user.userRecord,
  Webhook: webhook.webhookRecord,
  WebhookAttempt: webhook.webhookAttempt,
  WebhookChange: webhook.webhookChange,
  WebhookCreated: webhook.createdWebhook,
  WebhookDelivery: webhook.webhookDelivery,
  WebhookHeld: webhook.webhookHeld,
  WebhookItem: webhook.webhookItem,
  WebhookRequest: webhook.webhookRequest,
} satisfies Record<string, z.ZodType>;

export type SchemaName = keyof typeof SCHEMAS;

/** The name of each schema. */
export const NAMES: ReadonlyMap<unknown, SchemaName> = new Map(
  Object.entries(SCHEMAS).map(([name, schema]) => [schema, name as SchemaName]),
);
