/** PATCH /organizations/:id: name and settings, within their bounds; what is left out stays [C-1.1]. */
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import { type OrganizationRecord, organizationSettings } from '../../../protocol/organization.ts';
import { createTeam, Person, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

const DEFAULTS = organizationSettings.parse({});

let team: Team;
let person: Person;

beforeAll(async () => {
  [team, person] = await Promise.all([createTeam(), Person.register()]);
});

async function make(): Promise<OrganizationRecord> {
  const slug = `org-${crypto.randomUUID().slice(0, 13)}`;
  return await person.read('/organizations', { method: 'POST', body: { name: 'Acme', slug } }, 201);
}

function patch(id: string, body: unknown, by = person): Promise<Response> {
  return by.call(`/organizations/${id}`, { method: 'PATCH', body });
}

async function expectRefused(id: string, body: unknown): Promise<void> {
  await expectError(await patch(id, body), 400, 'VALIDATION_ERROR');
}

describe('PATCH /organizations/:id', () => {
  it('is the ORG_ADMIN’s alone [C-1.1] [C-1.2]', async () => {
    for (const member of [team.viewer, team.operator, team.admin]) {
      const response = await patch(team.id, { name: 'x' }, member);
      await expectError(response, 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    }
    expect(await team.viewer.read(`/organizations/${team.id}`)).toMatchObject({ name: team.slug });
  });

  it('changes what it names and leaves the rest, whoever reads it then [C-1.1]', async () => {
    const made = await make();
    const steps = [
      [{ name: 'Ácme 2' }, { name: 'Ácme 2' }],
      [{ settings: { requireSignedCommands: true } }, {}],
      [{ settings: { restRatePerMinute: 1_000, authFailurePolicy: 'attested' } }, {}],
      [{ settings: { requireSignedCommands: false, signatureHints: true } }, {}],
      [{ settings: {} }, {}],
      [{}, {}],
    ] as const;
    let expected: OrganizationRecord = made;
    for (const [body, changes] of steps) {
      const settings = { ...expected.settings, ...('settings' in body ? body.settings : {}) };
      expected = { ...expected, ...changes, settings };
      expect(await (await patch(made.id, body)).json()).toEqual(expected);
      expect(await person.read(`/organizations/${made.id}`)).toEqual(expected);
    }
    expect(await team.viewer.read(`/organizations/${team.id}`)).toMatchObject({ settings: DEFAULTS });
  });

  it('keeps two changes that come at once [C-1.1]', async () => {
    const made = await make();
    const changes = [
      { telemetryIntervalSeconds: 30 },
      { deviceRatePerSecond: 30 },
      { publishRatePerSecond: 30 },
    ];
    await Promise.all(changes.map((settings) => patch(made.id, { settings })));
    const { settings } = await person.read<OrganizationRecord>(`/organizations/${made.id}`);
    expect(settings).toEqual({ ...DEFAULTS, ...Object.assign({}, ...changes) });
  });

  it('leaves a row of who changed what [C-8.4]', async () => {
    const made = await make();
    await patch(made.id, { name: 'Other', settings: { auditRetentionDays: 30 } });
    const row = await env.DB.prepare(
      `SELECT actor, target, details FROM audit_events WHERE organization_id = ? AND event = 'organization.updated'`,
    )
      .bind(made.id)
      .first<{ actor: string; target: string; details: string }>();
    expect(row).toMatchObject({ actor: person.id, target: made.id });
    expect(JSON.parse(row?.details ?? '')).toEqual({ name: 'Other', settings: { auditRetentionDays: 30 } });
  });

  it.each([
    ['telemetryIntervalSeconds', 5, 300],
    ['publishRatePerSecond', 1, 10_000],
    ['restRatePerMinute', 10, 1_000_000],
    ['deviceRatePerSecond', 1, 1_000],
    ['auditRetentionDays', 30, 3_650],
    ['rawRetentionDays', 7, 400],
    ['fiveMinuteRetentionDays', 30, 3_650],
    ['hourlyRetentionDays', 365, 3_650],
  ])('holds %s to whole numbers from %d to %d [C-1.1]', async (name, least, most) => {
    const { id } = await make();
    const setting = async (value: number) => {
      const changed = (await (await patch(id, { settings: { [name]: value } })).json()) as OrganizationRecord;
      expect(changed).toMatchObject({ settings: { [name]: value } });
    };
    await setting(most);
    const wrong = [least - 1, most + 1, least + 0.5, -least, String(least), null, [least], true, 1e308];
    await Promise.all(wrong.map((value) => expectRefused(id, { settings: { [name]: value } })));
    expect(await person.read(`/organizations/${id}`)).toMatchObject({ settings: { [name]: most } });
    // Last: so few requests a minute are over by now.
    await setting(least);
  });

  it('takes no other value, no other setting, and never the slug [C-1.1] (bad input: REST)', async () => {
    const bodies: unknown[] = [
      { slug: 'other' },
      { slug: team.slug },
      { id: crypto.randomUUID() },
      { createdAt: '2020-01-01T00:00:00Z' },
      { role: 'VIEWER' },
      { name: '' },
      { name: null },
      { settings: null },
      { settings: [] },
      { settings: { requireSignedCommands: 'true' } },
      { settings: { requireSignedCommands: null } },
      { settings: { signatureHints: 1 } },
      { settings: { authFailurePolicy: 'none' } },
      { settings: { authFailurePolicy: null } },
      { settings: { retentionDays: 30 } },
      { settings: { constructor: 1 } },
    ];
    const made = await make();
    await Promise.all([...bodies, null, [], 'x'].map((body) => expectRefused(made.id, body)));
    const hostile = JSON.parse(
      '{"settings":{"__proto__":{"requireSignedCommands":true}},"__proto__":{"name":"x"}}',
    );
    expect([200, 400]).toContain((await patch(made.id, hostile)).status);
    expect(await person.read(`/organizations/${made.id}`)).toEqual(made);
  });
});
