/** PATCH /organizations/:id: name and settings within their bounds; fields that are left out stay [C-1.1]. */
import { auditRows } from '#workerd/door.ts';
import { operator } from '#workerd/operator.ts';
import type { Person } from '#workerd/people.ts';
import { uniqueSlug } from '#workerd/team.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { type OrganizationRecord, organizationSettings } from '../../../protocol/organization.ts';

const DEFAULTS = organizationSettings.parse({});

/** A new organization of `person`. */
const it = test.extend('made', ({ person }) => {
  return person.create<OrganizationRecord>('/organizations', { name: 'Acme', slug: uniqueSlug() });
});

function patch(by: Person, id: string, body: unknown): Promise<Response> {
  return by.patch(`/organizations/${id}`, body);
}

describe('PATCH /organizations/:id', () => {
  it('only an ORG_ADMIN may change an organization [C-1.1] [C-1.2]', async ({ team }) => {
    for (const member of [team.viewer, team.operator, team.admin]) {
      await expectError(await patch(member, team.id, { name: 'x' }), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
    }
    expect(await team.viewer.read(`/organizations/${team.id}`)).toMatchObject({ name: team.slug });
  });

  it('a PATCH changes the named fields and no others [C-1.1]', async ({ team, person, made }) => {
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
      expect(await (await patch(person, made.id, body)).json()).toEqual(expected);
      expect(await person.read(`/organizations/${made.id}`)).toEqual(expected);
    }
    expect(await team.viewer.read(`/organizations/${team.id}`)).toMatchObject({ settings: DEFAULTS });
  });

  it('concurrent changes of different settings are all kept [C-1.1]', async ({ person, made }) => {
    const names = ['telemetryIntervalSeconds', 'deviceRatePerSecond', 'publishRatePerSecond'];
    const changes = names.map((name) => ({ [name]: 30 }));
    await Promise.all(changes.map((settings) => patch(person, made.id, { settings })));
    const { settings } = await person.read<OrganizationRecord>(`/organizations/${made.id}`);
    expect(settings).toEqual({ ...DEFAULTS, ...Object.assign({}, ...changes) });
  });

  it('a change is audited with its actor [C-8.4]', async ({ person, made }) => {
    await patch(person, made.id, { name: 'Other', settings: { auditRetentionDays: 30 } });
    const row = (await auditRows(made.id)).find(({ event }) => event === 'organization.updated');
    expect(row).toMatchObject({ actor: person.id, target: made.id });
    expect(JSON.parse(row?.details ?? '')).toEqual({ name: 'Other', settings: { auditRetentionDays: 30 } });
  });

  it.for<[string, number, number]>([
    ['telemetryIntervalSeconds', 5, 300],
    ['publishRatePerSecond', 1, 10_000],
    ['restRatePerMinute', 10, 1_000_000],
    ['deviceRatePerSecond', 1, 1_000],
    ['auditRetentionDays', 30, 3_650],
    ['rawRetentionDays', 7, 400],
    ['fiveMinuteRetentionDays', 30, 3_650],
    ['hourlyRetentionDays', 365, 3_650],
    ['journalRetentionDays', 1, 30],
  ])('%s is a whole number from %d to %d [C-1.1]', async ([name, least, most], { person, made }) => {
    const { id } = made;
    if (/Rate/.test(name)) await operator.patch(`/platform/organizations/${id}/limits`, { [name]: most });
    const setting = async (value: number) => {
      const changed = await person.change(`/organizations/${id}`, { settings: { [name]: value } });
      expect(changed).toMatchObject({ settings: { [name]: value } });
    };
    await setting(most);
    const wrong = [least - 1, most + 1, least + 0.5, -least, String(least), null, [least], true, 1e308];
    for (const value of wrong) {
      await expectError(await patch(person, id, { settings: { [name]: value } }), 400, 'VALIDATION_ERROR');
    }
    expect(await person.read(`/organizations/${id}`)).toMatchObject({ settings: { [name]: most } });
    // The lowest value comes last, because it may limit the requests of this test.
    await setting(least);
  });

  it('a PATCH with other values or fields gets 400 and changes nothing [C-1.1] (bad input: REST)', async ({
    team,
    person,
    made,
  }) => {
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
    for (const body of [...bodies, null, [], 'x']) {
      await expectError(await patch(person, made.id, body), 400, 'VALIDATION_ERROR');
    }
    expect(await person.read(`/organizations/${made.id}`)).toEqual(made);
  });

  it.for(['{"__proto__":{"name":"x"}}', '{"settings":{"__proto__":{"requireSignedCommands":true}}}'])(
    '%s gets 400, and changes neither the organization nor a prototype (bad input: REST)',
    async (hostile, { person, made }) => {
      await expectError(await patch(person, made.id, JSON.parse(hostile)), 400, 'VALIDATION_ERROR');
      expect(await person.read(`/organizations/${made.id}`)).toEqual(made);
      for (const name of ['name', 'requireSignedCommands']) expect(name in {}).toBe(false);
    },
  );
});
