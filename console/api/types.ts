/** The shapes of the API under short names. */
import type { components } from '../../dist/console/api.d.ts';

type Schemas = components['schemas'];

export type Alert = Schemas['Alert'];
export type AlertRule = Schemas['AlertRule'];
export type ApiKey = Schemas['ApiKey'];
export type ApiKeyCreated = Schemas['ApiKeyCreated'];
export type Attempt = Schemas['WebhookAttempt'];
export type AuditEvent = Schemas['AuditEvent'];
export type Command = Schemas['CommandLogEntry'];
export type DeadLetter = Schemas['DeadLetter'];
export type Device = Schemas['Device'];
export type DeviceTemplate = Schemas['DeviceTemplate'];
export type Diagnostics = Schemas['DeviceDiagnostics'];
export type DryRun = Schemas['DryRunAnswer'];
export type Explanation = Schemas['Explanation'];
export type KeyStatus = Schemas['KeyStatus'];
export type Latest = Schemas['LatestTelemetry'];
export type Member = Schemas['Member'];
export type Organization = Schemas['Organization'];
export type PlanChange = Schemas['PlanChange'];
export type PlanPlace = Schemas['PlanPlace'];
export type Plant = Schemas['Plant'];
export type Point = Schemas['TelemetryPoint'];
export type Package = Schemas['ProvisioningPackage'];
export type Session = Schemas['Session'];
export type SiteConfig = Schemas['SiteConfig'];
export type SubDevice = Schemas['SubDevice'];
export type Timeline = Schemas['Timeline'];
export type Webhook = Schemas['WebhookItem'];
