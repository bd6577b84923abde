/** What the operator's commands do: each calls the API of a deployment and prints what it answers. */
import { randomBytes } from 'node:crypto';
import { cut } from '../protocol/cut.ts';
import { LIMIT } from '../protocol/limits.ts';
import type { Page } from '../protocol/page.ts';
import { shellText } from '../protocol/quoted.ts';
import type { Operator } from './admin-client.ts';
import type { BackupReport } from './backup.ts';

export async function createOrganization(
  operator: Operator,
  baseUrl: string,
  { name, email, slug }: { name: string; email: string; slug: string },
): Promise<void> {
  const password = randomBytes(15).toString('base64url');
  if (
    !(await operator.createOrganization(
      { name, slug },
      { email, password, name: cut(email, LIMIT.nameCharacters) },
    ))
  )
    throw new Error(
      `${email} is already registered: log in and create the organization with POST /api/v1/organizations`,
    );
  console.log(`
Organization "${name}" created.

  slug      ${slug}
  e-mail    ${email}
  password  ${password}   (shown only now; change it with POST /api/v1/auth/change-password)

Log in at ${baseUrl}/api/v1/auth/login
`);
}

export async function invite(
  operator: Operator,
  organization: string,
  invitee: { email: string; role: string },
): Promise<void> {
  const { expiresAt, url: link } = await operator.call<{ expiresAt: string; url?: string }>(
    'POST',
    `/organizations/${organization}/invitations`,
    invitee,
  );
  console.log(`${invitee.email} is invited as ${invitee.role}, until ${expiresAt}.`);
  console.log(link === undefined ? 'A mail with the link is on its way.' : `Hand over this link: ${link}`);
}

export async function limits(
  operator: Operator,
  organization: string,
  change: Readonly<Record<string, number | null>>,
): Promise<void> {
  const path = `/organizations/${organization}/limits`;
  const answer = await (Object.keys(change).length === 0
    ? operator.call<{ limits: Record<string, number> }>('GET', path)
    : operator.call<{ limits: Record<string, number> }>('PATCH', path, change));
  for (const [name, most] of Object.entries(answer.limits)) console.log(`${name.padEnd(28)} ${most}`);
}

interface OrganizationState {
  id: string;
  name: string;
  slug: string;
  status: string;
}

export async function listOrganizations(operator: Operator, slug: string | undefined): Promise<void> {
  const query = slug === undefined ? '' : `&slug=${encodeURIComponent(slug)}`;
  for (let page = 1, pages = 1; page <= pages; page++) {
    const { data, meta } = await operator.call<Page<OrganizationState>>(
      'GET',
      `/organizations?limit=100&page=${page}${query}`,
    );
    const width = Math.max(24, ...data.map((one) => one.slug.length));
    for (const { id, slug: own, status, name } of data)
      console.log(`${id}  ${status.padEnd(9)}  ${own.padEnd(width)}  ${name}`);
    pages = meta.totalPages;
  }
}

export async function change(
  operator: Operator,
  method: string,
  path: string,
  body?: unknown,
): Promise<void> {
  const { slug, status } = await operator.call<OrganizationState>(method, path, body);
  console.log(`${slug} is ${status}.`);
}

/** `confirm` must be the organization's slug, so that a mistyped id deletes nothing. */
export async function deleteOrganization(operator: Operator, id: string, confirm: string): Promise<void> {
  const path = `/organizations?slug=${encodeURIComponent(confirm)}`;
  const { data } = await operator.call<Page<OrganizationState>>('GET', path);
  if (data[0]?.id !== id.toLowerCase())
    throw new Error(`--confirm must be the slug of the organization ${id}: nothing was deleted`);
  await change(operator, 'DELETE', `/organizations/${id}`);
  console.log('Housekeeping now erases its plants and devices, 150 of each a minute.');
}

export async function releaseUser(operator: Operator, email: string): Promise<void> {
  await operator.call('POST', '/users/release', { email });
  console.log(`${email} is free again: its owner can register or be invited.`);
}

export async function deleteUser(operator: Operator, email: string): Promise<void> {
  const { userId } = await operator.call<{ userId: string }>('POST', '/users/delete', { email });
  console.log(`The account of ${email} is deleted. Audit events name it ${userId}.`);
}

export async function support(
  operator: Operator,
  baseUrl: string,
  organization: string,
  reason: string,
): Promise<void> {
  const { token, expiresAt } = await operator.call<{ token: string; expiresAt: string }>(
    'POST',
    `/organizations/${organization}/support`,
    { reason },
  );
  console.log(`
Until ${expiresAt} this token reads what an ORG_ADMIN of the organization can read:

  ${token}

For example: curl -H ${shellText(`authorization: Bearer ${token}`)} ${shellText(`${baseUrl}/api/v1/plants`)}
`);
}

export async function dataKeys(operator: Operator): Promise<void> {
  const versions: Record<string, number> = {};
  for (let after: string | null = ''; after !== null; ) {
    const query: string = after === '' ? '' : `?after=${after}`;
    const page: { versions: Record<string, number>; next: string | null } = await operator.call(
      'GET',
      `/data-keys${query}`,
    );
    for (const [version, count] of Object.entries(page.versions))
      versions[version] = (versions[version] ?? 0) + count;
    after = page.next;
  }
  for (const [version, count] of Object.entries(versions))
    console.log(
      version === 'unreadable' ? `unreadable: ${count} objects` : `key ${version}: ${count} values`,
    );
}

export async function report(work: Promise<BackupReport & { changedDevices?: number }>): Promise<void> {
  const { rows, fencedMs, changedDevices = 0 } = await work;
  console.log(`${rows} rows; commands and connections were refused for ${fencedMs} ms`);
  if (changedDevices > 0) console.log(`${changedDevices} devices were deleted or got their present status`);
}

/** `Acme Energy, s.r.o.` becomes `acme-energy-s-r-o`. */
export function slugOf(text: string): string {
  const plain = text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  return plain
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replace(/^-+|-+$/g, '');
}
