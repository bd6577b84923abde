/** An organization with a member of each role, and what they make over REST: plants, devices, keys. */
import { env } from 'cloudflare:workers';
import type { AuditEvent } from '../../../protocol/audit.ts';
import type { AuditEventName } from '../../../protocol/audit-names.ts';
import type {
  DeviceDiagnostics,
  DeviceRecord,
  ProvisioningPackage,
  RestCommand,
} from '../../../protocol/device-record.ts';
import type { DeviceTemplateRecord } from '../../../protocol/device-template.ts';
import type { DeviceStatus, Role } from '../../../protocol/enums.ts';
import type { InvitationRecord } from '../../../protocol/invitation.ts';
import type { OrganizationRecord } from '../../../protocol/organization.ts';
import type { Page } from '../../../protocol/page.ts';
import type { PlantRecord, SubDeviceRecord } from '../../../protocol/plant-record.ts';
import type { ApiKeyScope } from '../../../protocol/scopes.ts';
import { changeRole, listMembers, removeMember } from '../../../registry/members.ts';
import type { Issued } from './certificates.ts';
import type { KeyClient } from './client.ts';
import { auditOf } from './commits.ts';
import { type Rotation, registration, type TokenDevice } from './devices.ts';
import { type AuditRow, auditRows } from './door.ts';
import { joinOrganization, Person } from './people.ts';
import { ALL_VCP_SCOPES, createKey, type KeyOptions, type Organization } from './world.ts';

export function uniqueSlug(): string {
  return `org-${crypto.randomUUID().slice(0, 13)}`;
}

interface Members {
  viewer: Person;
  operator: Person;
  admin: Person;
  orgAdmin: Person;
}

/** What an organization's ADMIN gets for an invitation; the token is shown only once. */
export type Invitation = InvitationRecord & { token: string };

export class Team implements Members {
  readonly id: string;
  readonly slug: string;
  readonly viewer: Person;
  readonly operator: Person;
  readonly admin: Person;
  readonly orgAdmin: Person;

  private constructor({ id, slug }: OrganizationRecord, { viewer, operator, admin, orgAdmin }: Members) {
    this.id = id;
    this.slug = slug;
    this.viewer = viewer;
    this.operator = operator;
    this.admin = admin;
    this.orgAdmin = orgAdmin;
  }

  static async create(): Promise<Team> {
    const orgAdmin = await Person.register();
    const slug = uniqueSlug();
    const made = await orgAdmin.create<OrganizationRecord>('/organizations', { name: slug, slug });
    const join = async (role: Role) => {
      const person = await Person.register();
      await joinOrganization(made.id, person, role);
      return person;
    };
    const [viewer, operator, admin] = await Promise.all([join('VIEWER'), join('OPERATOR'), join('ADMIN')]);
    return new Team(made, { viewer, operator, admin, orgAdmin });
  }

  /** The team for functions that make keys and plants without REST. */
  get organization(): Organization {
    return { id: this.id, slug: this.slug, adminId: this.orgAdmin.id };
  }

  /** From the lowest role to the highest. */
  get members(): Person[] {
    return [this.viewer, this.operator, this.admin, this.orgAdmin];
  }

  async join(person: Person, role: Role): Promise<void> {
    await joinOrganization(this.id, person, role);
  }

  /** Restores the four roles and removes every other member. */
  async resetRoles(): Promise<void> {
    const auditAs = (event: AuditEventName) => auditOf(this.organization, event, 'USER');
    const now = Date.now();
    const { rows } = await listMembers(env.DB, this.id, { page: 1, limit: 100 });
    const found = new Map(rows.map(({ user, role }) => [user.id, role]));
    // The ORG_ADMIN comes first: an organization must have one before another leaves.
    const roles = [
      [this.orgAdmin, 'ORG_ADMIN'],
      [this.viewer, 'VIEWER'],
      [this.operator, 'OPERATOR'],
      [this.admin, 'ADMIN'],
    ] as const;
    for (const [{ id: userId }, role] of roles) {
      const from = found.get(userId);
      found.delete(userId);
      if (!from) await joinOrganization(this.id, { id: userId }, role);
      else if (from !== role)
        await changeRole(
          env.DB,
          this.id,
          userId,
          { from, to: role },
          auditAs('member.role_changed')(userId),
          now,
        );
    }
    for (const [userId, role] of found)
      await removeMember(env.DB, this.id, userId, role, auditAs('member.removed')(userId), now);
  }

  async newKey(scopes: ApiKeyScope[] = ALL_VCP_SCOPES, options: KeyOptions = {}): Promise<KeyClient> {
    return await createKey(this.organization, { ...options, scopes });
  }

  async newPlant(fields: object = {}): Promise<PlantRecord> {
    return await this.operator.create('/plants', { name: 'Plant', ...fields });
  }

  /** A battery unless `fields` says otherwise. */
  async newSubDevice(plantId: string, fields: object = {}): Promise<SubDeviceRecord> {
    const battery = { externalId: 'BESS-1', assetType: 'BESS', name: 'Battery', ratedPowerKw: 50 };
    return await this.operator.create(`/plants/${plantId}/sub-devices`, { ...battery, ...fields });
  }

  /** A template for batteries unless `fields` says otherwise. */
  async newTemplate(fields: object = {}): Promise<DeviceTemplateRecord> {
    return await this.admin.create('/device-templates', { name: 'Template', assetType: 'BESS', ...fields });
  }

  /** A PENDING gateway unless `fields` says otherwise. */
  async newDevice(fields: object = {}): Promise<DeviceRecord> {
    return await this.operator.create('/devices', registration(fields));
  }

  async provision(id: string, body: object = {}): Promise<ProvisioningPackage> {
    return await this.admin.read(`/devices/${id}/provision`, { method: 'POST', body });
  }

  /** An ACTIVE device with a token and a secret. */
  async newTokenDevice(fields: object = {}): Promise<TokenDevice> {
    const { id, plantId } = await this.newDevice(fields);
    const { hmacSecret, mqttToken = '' } = (await this.provision(id)).security;
    return { id, hmacSecret, token: mqttToken, siteId: plantId ?? id };
  }

  /** `POST /devices/{id}/mqtt-token`. */
  async newToken(id: string, body: object = {}): Promise<string> {
    const path = `/devices/${id}/mqtt-token`;
    return (await this.admin.read<{ token: string }>(path, { method: 'POST', body })).token;
  }

  /** An ACTIVE device with a certificate. */
  async newMtlsDevice(
    fields: object = {},
  ): Promise<{ id: string; security: Issued & { hmacSecret: string } }> {
    const { id } = await this.newDevice({ authMethod: 'MTLS', ...fields });
    return { id, security: (await this.provision(id)).security as Issued & { hmacSecret: string } };
  }

  /** `POST /devices/{id}/certificate`. */
  async reissue(id: string, body?: object): Promise<Issued & { previousUntil: string | null }> {
    return await this.admin.create(`/devices/${id}/certificate`, body);
  }

  /** The id of a new device in that status. */
  async newDeviceIn(status: DeviceStatus, fields: object = {}): Promise<string> {
    const { id } = await this.newDevice(fields);
    if (status !== 'PENDING') await this.provision(id);
    if (status === 'SUSPENDED') await this.admin.operate(id, 'suspend');
    if (status === 'DECOMMISSIONED') await this.admin.operate(id, 'revoke');
    return id;
  }

  /** Sends a device a command as an OPERATOR. */
  async command(id: string, body: object = { action: 'REBOOT' }): Promise<RestCommand> {
    return await this.operator.read(`/devices/${id}/commands`, { method: 'POST', body }, 202);
  }

  /** `POST /devices/{id}/commands`, whose answer may be a refusal. */
  async postCommand(id: string, body: unknown): Promise<Response> {
    return await this.operator.operate(id, 'commands', body);
  }

  async listCommands(id: string, query = ''): Promise<Page<RestCommand>> {
    return await this.viewer.read(`/devices/${id}/commands${query}`);
  }

  async readCommand({ deviceId, cmdId }: RestCommand, by: Person = this.viewer): Promise<RestCommand> {
    return await by.read(`/devices/${deviceId}/commands/${cmdId}`);
  }

  async moveDevice(id: string, plantId: string | null, also: object = {}): Promise<DeviceRecord> {
    return await this.operator.change(`/devices/${id}`, { plantId, ...also });
  }

  async rotateSecret(id: string): Promise<Rotation> {
    return await this.admin.read(`/devices/${id}/rotate-secret`, { method: 'POST' });
  }

  async invite(email: string, role: Role = 'VIEWER', by: Person = this.orgAdmin): Promise<Invitation> {
    return await by.create(`/organizations/${this.id}/invitations`, { email, role });
  }

  async listInvitations(query = ''): Promise<Page<InvitationRecord>> {
    return await this.admin.read(`/organizations/${this.id}/invitations${query}`);
  }

  /** Whether the organization answers a person as its member. */
  async hasMember(person: Person): Promise<boolean> {
    return (await person.call(`/organizations/${this.id}`)).status === 200;
  }

  /** How many things a list has. */
  async totalOf(path: string): Promise<number> {
    return (await this.viewer.read<Page<object>>(path)).meta.total;
  }

  async readDevice(id: string): Promise<DeviceRecord> {
    return await this.viewer.read(`/devices/${id}`);
  }

  async diagnosticsOf(id: string): Promise<DeviceDiagnostics> {
    return await this.admin.read(`/devices/${id}/diagnostics`);
  }

  /** The audit events about one thing among the hundred newest, as REST shows them, newest first. */
  async eventsAbout(targetId: string): Promise<AuditEvent[]> {
    const { data } = await this.admin.read<Page<AuditEvent>>('/audit-events?limit=100');
    return data.filter(({ target }) => target?.id === targetId);
  }

  /** The audit rows about one thing, oldest first. */
  async auditRowsOf(targetId: string): Promise<AuditRow[]> {
    return (await auditRows(this.id)).filter(({ target }) => target === targetId);
  }

  /** The audit rows about one thing, oldest first, as event, actor, type of target and details. */
  async trailOf(targetId: string): Promise<unknown[][]> {
    const rows = await this.auditRowsOf(targetId);
    return rows.map((row) => [row.event, row.actor, row.target_type, JSON.parse(row.details)]);
  }
}
