/** Alert rules and alerts over REST. */
import type { AlertRecord, AlertRuleRecord } from '../../../protocol/alert.ts';
import type { Page } from '../../../protocol/page.ts';
import type { Client } from './client.ts';

export const RULE = { name: 'Rule', severity: 'INFO', metric: 'gridPowerKw', operator: 'GT', threshold: 10 };

/** Creates a rule "grid power over 10 kW", with other fields replaced. */
export async function makeRule(by: Client, fields: object = {}): Promise<AlertRuleRecord> {
  return await by.create('/alerts', { ...RULE, ...fields });
}

export async function listAlerts(by: Client, query = ''): Promise<Page<AlertRecord>> {
  return await by.read(`/alerts${query}`);
}

export async function listRules(by: Client, query = ''): Promise<Page<AlertRuleRecord>> {
  return await by.read(`/alerts?kind=RULE${query}`);
}

export async function findAlert(by: Client, id: string): Promise<AlertRecord | undefined> {
  return (await listAlerts(by, '?limit=100')).data.find((alert) => alert.id === id);
}
