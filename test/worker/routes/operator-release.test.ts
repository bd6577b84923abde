/**
 * With mail off, nobody can prove an address by mail, so the operator gives an address back to its owner: the account
 * of the stranger who registered it is deleted [C-15.6].
 */
import { anonymous, bodyOf } from '#workerd/client.ts';
import { countOf, rowsFrom } from '#workerd/d1.ts';
import { operator } from '#workerd/operator.ts';
import { logIn, PASSWORD, Person, refresh, uniqueEmail } from '#workerd/people.ts';
import { uniqueSlug } from '#workerd/team.ts';
import { describe, expect, expectError, test, UUID } from '#workerd/worker-test.ts';

const OTHER_PASSWORD = 'another horse battery';

const it = test.extend('squatter', async () => {
  const [email, organizationSlug] = [uniqueEmail(), uniqueSlug()];
  const body = { email, password: PASSWORD, name: 'Stranger', organizationName: 'Acme', organizationSlug };
  await anonymous.create('/auth/register', body);
  return { person: await Person.logIn(email), email, organizationSlug, body };
});

function release(email: unknown): Promise<Response> {
  return operator.post('/platform/users/release', { email });
}

describe('POST /platform/users/release', () => {
  it('gives the address and the slug back: the owner can register, and the stranger is out [C-15.6]', async ({
    squatter,
  }) => {
    const { email, body, person } = squatter;
    const owner = { ...body, password: OTHER_PASSWORD, name: 'Owner' };
    await expectError(await anonymous.post('/auth/register', owner), 409, 'EMAIL_ALREADY_REGISTERED');
    expect(await bodyOf(await release(email.toUpperCase()), 200)).toEqual({
      userId: person.id,
      released: true,
    });
    await expectError(await person.call('/auth/me'), 401, 'UNAUTHORIZED');
    expect((await refresh(person.refreshToken)).status).toBe(401);
    await expectError(await logIn(email), 401, 'INVALID_CREDENTIALS');
    expect(await anonymous.create('/auth/register', owner)).toMatchObject({
      user: { id: UUID, email, name: 'Owner' },
      organization: { slug: squatter.organizationSlug },
    });
    await expectError(await logIn(email), 401, 'INVALID_CREDENTIALS');
    expect((await logIn(email, OTHER_PASSWORD)).status).toBe(200);
  });

  it('writes an audit event that names the operator and the account, and not the address [C-15.6]', async ({
    squatter,
  }) => {
    await bodyOf(await release(squatter.email), 200);
    const rows = await rowsFrom(
      "SELECT actor_type, outcome, details FROM audit_events WHERE event = 'user.released' AND target = ?",
      squatter.person.id,
    );
    expect(rows).toEqual([expect.objectContaining({ outcome: 'SUCCESS' })]);
    expect(JSON.stringify(rows)).not.toContain(squatter.email);
  });

  it('keeps an organization in which the stranger is not alone [C-15.6]', async ({ squatter, ownTeam }) => {
    await ownTeam.join(squatter.person, 'VIEWER');
    await bodyOf(await release(squatter.email), 200);
    expect(await countOf('organizations', 'id = ?', ownTeam.id)).toBe(1);
    expect(await countOf('memberships', 'organization_id = ?', ownTeam.id)).toBe(4);
    expect(await countOf('organizations', 'slug = ?', squatter.organizationSlug)).toBe(0);
  });

  it('gets 409 for an account that has proved its address, and changes nothing [C-15.6]', async ({
    person,
  }) => {
    const { message } = await expectError(await release(person.email), 409, 'CONFLICT');
    expect(message).toContain('delete-user');
    expect((await person.call('/auth/me')).status).toBe(200);
  });

  it('gets 404 for an address without an account, and the second time [C-15.6]', async ({ squatter }) => {
    await expectError(await release(uniqueEmail()), 404, 'NOT_FOUND');
    await bodyOf(await release(squatter.email), 200);
    await expectError(await release(squatter.email), 404, 'NOT_FOUND');
  });

  it('gets 400 for what is no address, and for a further field (bad input: REST)', async () => {
    for (const email of [undefined, null, '', 'x', 7, ['a@example.com']])
      await expectError(await release(email), 400, 'VALIDATION_ERROR');
    const more = { email: uniqueEmail(), force: true };
    await expectError(await operator.post('/platform/users/release', more), 400, 'VALIDATION_ERROR');
  });

  it('is only for the operator: anybody else gets 401 or 403, also the stranger [C-15.6]', async ({
    squatter,
  }) => {
    const body = { email: squatter.email };
    const callers = [anonymous, squatter.person];
    const statuses = callers.map(
      async (caller) => (await caller.post('/platform/users/release', body)).status,
    );
    expect(await Promise.all(statuses)).toEqual([401, 403]);
    expect((await squatter.person.call('/auth/me')).status).toBe(200);
  });
});
