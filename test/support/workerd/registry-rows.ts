/** Rows that tests insert into the registry: valid defaults, with some columns replaced. */
import { env } from 'cloudflare:workers';
import { expect } from 'vitest';
import { createOrganization, type Organization, randomHex } from './world.ts';

export type Row = Record<string, string | number | null>;
export type Table =
  | 'organizations'
  | 'users'
  | 'sessions'
  | 'login_failures'
  | 'memberships'
  | 'plants'
  | 'devices'
  | 'sub_devices'
  | 'api_keys'
  | 'audit_events'
  | 'registry_changes'
  | 'alert_rules'
  | 'alerts';

export const CHECK = /CHECK constraint failed/;
export const UNIQUE = /UNIQUE constraint failed/;
export const FOREIGN = /FOREIGN KEY constraint failed/;
export const NOT_NULL = /NOT NULL constraint failed/;

/** The organization, the plant and the user that rows belong to by default. */
export class RegistryRows {
  readonly organization: Organization;
  readonly plantId = crypto.randomUUID();
  /** A user without memberships. */
  readonly userId = crypto.randomUUID();

  private constructor(organization: Organization) {
    this.organization = organization;
  }

  static async create(): Promise<RegistryRows> {
    const rows = new RegistryRows(await createOrganization());
    await rows.insert('plants', { id: rows.plantId });
    await rows.insert('users', { id: rows.userId });
    return rows;
  }

  good(table: Table): Row {
    const id = crypto.randomUUID();
    const { id: organizationId, adminId } = this.organization;
    switch (table) {
      case 'organizations':
        return { id, name: 'n', slug: `s-${randomHex(8)}`, created_at_ms: 1 };
      case 'users':
        return { id, email: `${id}@example.org`, name: 'n', created_at_ms: 1 };
      case 'sessions':
        return { id, user_id: adminId, created_at_ms: 1, expires_at_ms: 2, last_used_at_ms: 1 };
      case 'login_failures':
        return { email: `${id}@example.org`, network: '192.0.2.0', failures: 1, first_at_ms: 1 };
      case 'memberships':
        return { organization_id: organizationId, user_id: this.userId, role: 'ADMIN', created_at_ms: 1 };
      case 'plants':
        return { id, organization_id: organizationId, name: 'n', created_at_ms: 1 };
      case 'devices':
        return {
          id,
          organization_id: organizationId,
          name: 'n',
          serial_number: id,
          type: 'GATEWAY',
          created_at_ms: 1,
        };
      case 'sub_devices':
        return {
          id,
          plant_id: this.plantId,
          external_id: id,
          asset_type: 'BESS',
          name: 'n',
          created_at_ms: 1,
        };
      case 'api_keys':
        return {
          id,
          organization_id: organizationId,
          key_hash: randomHex(32),
          key_prefix: 'sw_00000000',
          name: 'n',
          partner_id: 'p',
          scopes: '["vcp:read"]',
          created_by: adminId,
          created_at_ms: 1,
          updated_at_ms: 1,
        };
      case 'audit_events':
        return { id, event: 'e', actor: 'a', outcome: 'SUCCESS', created_at_ms: 1 };
      case 'registry_changes':
        return {
          id,
          organization_id: organizationId,
          version: 2,
          targets: '[]',
          due_at_ms: 1,
          created_at_ms: 1,
        };
      case 'alert_rules':
        return {
          id,
          organization_id: organizationId,
          name: 'n',
          severity: 'INFO',
          metric: 'gridPowerKw',
          operator: 'GT',
          threshold: 1,
          for_seconds: 0,
          cooldown_seconds: 300,
          enabled: 1,
          created_at_ms: 1,
          updated_at_ms: 1,
        };
      case 'alerts':
        return {
          id,
          organization_id: organizationId,
          type: 'THRESHOLD',
          severity: 'INFO',
          status: 'ACTIVE',
          message: 'm',
          first_seen_at_ms: 1,
          last_seen_at_ms: 1,
          count: 1,
        };
    }
  }

  async insert(table: Table, change: Row = {}): Promise<Row> {
    const row = { ...this.good(table), ...change };
    const columns = Object.keys(row);
    await env.DB.prepare(
      `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`,
    )
      .bind(...Object.values(row))
      .run();
    return row;
  }

  async expectTaken(table: Table, ...changes: Row[]): Promise<void> {
    for (const change of changes) {
      await expect(this.insert(table, change), JSON.stringify(change)).resolves.toBeDefined();
    }
  }

  async expectRefused(table: Table, why: RegExp, ...changes: Row[]): Promise<void> {
    for (const change of changes) {
      await expect(this.insert(table, change), JSON.stringify(change)).rejects.toThrow(why);
    }
  }
}
