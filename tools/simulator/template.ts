/**
 * What a simulated gateway does with the organization's device templates [C-11.6]: it reports their signals and executes
 * their actions. The simulated plant itself has the signals of SYSTEM templates.
 */
import type { DeviceRecord } from '../../protocol/device-record.ts';
import {
  type DeviceTemplateRecord,
  paramFaults,
  type TemplateSignal,
} from '../../protocol/device-template.ts';
import { LIMIT } from '../../protocol/limits.ts';
import type { SubDeviceRecord } from '../../protocol/plant-record.ts';
import { systemTemplate } from '../../protocol/system-template.ts';
import type { AdminClient } from '../admin-client.ts';
import type { SiteCommand } from './orders.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** A template with the prefix of its signals: empty for the gateway itself, else `BESS-1/`. */
export interface AppliedTemplate {
  prefix: string;
  template: DeviceTemplateRecord;
}

/** The templates of a gateway and of the sub-devices of its plant that no other device serves. */
export async function templatesOf(admin: AdminClient, deviceId: string): Promise<AppliedTemplate[]> {
  const { templateId, plantId } = await admin.call<DeviceRecord>('GET', `/devices/${deviceId}`);
  const assets = plantId ? await admin.list<SubDeviceRecord>(`/plants/${plantId}/sub-devices`) : [];
  const served = assets.filter(({ linkedDeviceId }) => linkedDeviceId === null);
  const named = [
    { prefix: '', templateId },
    ...served.map((asset) => ({ prefix: `${asset.externalId}/`, templateId: asset.templateId })),
  ];
  const applied: AppliedTemplate[] = [];
  for (const { prefix, templateId: id } of named) {
    if (id === null || systemTemplate(id)) continue;
    const template = await admin.call<DeviceTemplateRecord>('GET', `/device-templates/${id}`);
    applied.push({ prefix, template });
  }
  return applied;
}

/** A value for each signal of the templates, within its bounds, by the name that the gateway sends. */
export function templateReadings(applied: readonly AppliedTemplate[], atMs: number): Record<string, number> {
  return Object.fromEntries(
    applied.flatMap(({ prefix, template }) =>
      template.signals.map((signal) => [`${prefix}${signal.name}`, valueAt(signal, atMs)]),
    ),
  );
}

function valueAt(
  { kind, max: most, min = Math.min(0, most ?? 0), states = [] }: TemplateSignal,
  atMs: number,
): number {
  if (kind === 'STATE') return states[Math.floor(atMs / MINUTE_MS) % states.length]?.value ?? 0;
  if (kind === 'REGISTER') return Math.min(most ?? LIMIT.signalMagnitude, min + Math.floor(atMs / HOUR_MS));
  const max = most ?? Math.min(min + 100, LIMIT.signalMagnitude);
  const share = (1 + Math.sin((atMs / HOUR_MS) * 2 * Math.PI)) / 2;
  const value = Math.round((min + share * (max - min)) * 1_000) / 1_000;
  return Math.min(Math.max(value, min), max);
}

/** Whether the command is an action of the gateway's own template, with valid parameters. */
export function isTemplateAction(
  applied: readonly AppliedTemplate[],
  { action, payload }: SiteCommand,
): boolean {
  const own = applied.find(({ prefix }) => prefix === '');
  const meant = own?.template.actions.find((one) => one.action === action);
  return meant !== undefined && paramFaults(meant, payload).length === 0;
}
