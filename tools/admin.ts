/**
 * The commands of a deployment's operator over REST, with OPERATOR_TOKEN: create, list, suspend,
 * reactivate and delete organizations, invite people and delete accounts, read an organization's data for support, show or
 * change ceilings, retire data keys, back up and restore, and check a deployment. Without `--url` it uses the stack that runs on this machine.
 */
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import type { Page } from '../protocol/page.ts';
import { Operator } from './admin-client.ts';
import { type BackupReport, backUp, rehearse, restore } from './backup.ts';
import { check } from './check.ts';
import { showHelp } from './show-help.ts';
import { readStack } from './stack-file.ts';

const USAGE = `npm run admin -- create-organization --name <name> --email <e-mail>
  --slug <slug>   AMQP user name and part of queue names; cannot be changed later; default: derived from the name
npm run admin -- invite --organization <id> --email <e-mail> [--role ORG_ADMIN]
  mails an invitation; where the deployment sends no mail, prints the link that you must hand over
npm run admin -- limits --organization <id> [--set <name>=<number|default> …]
  shows the ceilings of an organization, or sets some: restRatePerMinute, publishRatePerSecond, deviceRatePerSecond,
  changesPerMinute, keyTestsPerMinute, invitationsPerDay, plants, alertRules
npm run admin -- organizations [--slug <slug>]
  lists organizations with their ids
npm run admin -- suspend-organization --organization <id> --reason <text>
  refuses its keys, members and devices, and closes their connections; it keeps its data
npm run admin -- reactivate-organization --organization <id>
npm run admin -- delete-organization --organization <id> --confirm <slug>
  deletes a suspended organization with all its data; its audit events stay for their retention period
npm run admin -- delete-user --email <e-mail>
  deletes the account with everything personal
npm run admin -- support --organization <id> --reason <text>
  prints a token that reads for an hour what an ORG_ADMIN can read; the organization sees that, and the reason
npm run admin -- data-keys
  seals the signing keys and device secrets that an older key of DATA_KEYS sealed again with the newest one, and counts
  the values of each key; waiting mails keep their key
npm run admin -- backup (--plant <id> | --key <id>) --file <new file>
  writes the data of a plant or an API key to a file; it refuses commands and connections for that time
npm run admin -- restore (--plant <id> | --key <id>) --file <file>
  replaces the data of the plant or key with the backup; what came after the backup is lost
npm run admin -- rehearse (--plant <id> | --key <id>)
  backs up and restores at once: loses nothing, and shows that both work and how long they take
npm run admin -- check [--organization <id> --plant <id> --email <e-mail of an ORG_ADMIN>] [--seconds 20]
  uses the deployment as a partner would: creates a key, sends a command to a test plant, reads the plant and revokes
  the key; exits with 1 at the first step that fails. With --url the password is SITEWIRE_CHECK_PASSWORD

  --url <url>     base URL of the deployment, https://…; default: the stack on this machine
  With --url the environment variable SITEWIRE_OPERATOR_TOKEN must be one of the deployment's OPERATOR_TOKEN.`;

function refuse(text: string): never {
  console.error(text);
  process.exit(2);
}

const options = {
  name: { type: 'string' },
  email: { type: 'string' },
  slug: { type: 'string' },
  url: { type: 'string' },
  organization: { type: 'string' },
  role: { type: 'string' },
  set: { type: 'string', multiple: true },
  reason: { type: 'string' },
  confirm: { type: 'string' },
  plant: { type: 'string' },
  key: { type: 'string' },
  file: { type: 'string' },
  seconds: { type: 'string', default: '20' },
} as const;

showHelp(USAGE);

function read() {
  try {
    return parseArgs({ options, allowPositionals: true });
  } catch (error) {
    return refuse(`${(error as Error).message}\n\n${USAGE}`);
  }
}

const {
  positionals: [command, ...rest],
  values,
} = read();
const { url } = values;
if (url !== undefined && !/^https?:\/\//.test(url))
  refuse(`--url must begin with https:// or http://\n\n${USAGE}`);
const work = rest.length > 0 ? undefined : workOf();
if (!work) refuse(USAGE);

/** The command with its arguments; undefined if it is unknown or lacks one. */
function workOf(): ((operator: Operator, baseUrl: string) => Promise<void>) | undefined {
  const { name, email, slug, organization, role = 'ORG_ADMIN', set = [], reason, confirm } = values;
  if (command === 'create-organization' && name && email)
    return (operator, baseUrl) =>
      createOrganization(operator, baseUrl, { name, email, slug: slug ?? slugOf(name) });
  if (command === 'invite' && organization && email)
    return (operator) => invite(operator, organization, { email, role });
  if (command === 'data-keys') return dataKeys;
  if (command === 'check') return (_operator, baseUrl) => checkDeployment(baseUrl);
  const { plant, key, file } = values;
  const id = plant ?? key;
  if (id && !(plant && key)) {
    const one = { object: plant ? ('plant' as const) : ('key' as const), id };
    if (command === 'backup' && file) return (operator) => report(backUp(operator, one, file));
    if (command === 'restore' && file) return (operator) => report(restore(operator, one, file));
    if (command === 'rehearse') return (operator) => report(rehearse(operator, one));
  }
  if (command === 'organizations') return (operator) => listOrganizations(operator, slug);
  if (command === 'delete-user' && email) return (operator) => deleteUser(operator, email);
  if (organization && reason && command === 'suspend-organization')
    return (operator) => change(operator, 'POST', `/organizations/${organization}/suspend`, { reason });
  if (organization && command === 'reactivate-organization')
    return (operator) => change(operator, 'POST', `/organizations/${organization}/reactivate`);
  if (organization && confirm && command === 'delete-organization')
    return (operator) => deleteOrganization(operator, organization, confirm);
  if (organization && reason && command === 'support')
    return (operator, baseUrl) => support(operator, baseUrl, organization, reason);
  if (command === 'limits' && organization) return (operator) => limits(operator, organization, set);
  return undefined;
}

async function createOrganization(
  operator: Operator,
  baseUrl: string,
  { name, email, slug }: { name: string; email: string; slug: string },
): Promise<void> {
  const password = randomBytes(15).toString('base64url');
  if (!(await operator.createOrganization({ name, slug }, { email, password, name: email })))
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

async function invite(
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

async function limits(operator: Operator, organization: string, set: readonly string[]): Promise<void> {
  const change = Object.fromEntries(
    set.map((text) => {
      const [, name = '', value = ''] = /^(\w+)=(\d+|default)$/.exec(text) ?? [];
      if (name === '') refuse(`--set must be <name>=<number> or <name>=default, not "${text}"\n\n${USAGE}`);
      return [name, value === 'default' ? null : Number(value)];
    }),
  );
  const path = `/organizations/${organization}/limits`;
  const answer = await (set.length === 0
    ? operator.call<{ limits: Record<string, number> }>('GET', path)
    : operator.call<{ limits: Record<string, number> }>('PATCH', path, change));
  for (const [name, most] of Object.entries(answer.limits)) console.log(`${name.padEnd(22)} ${most}`);
}

interface OrganizationState {
  id: string;
  name: string;
  slug: string;
  status: string;
}

async function listOrganizations(operator: Operator, slug: string | undefined): Promise<void> {
  const query = slug === undefined ? '' : `&slug=${encodeURIComponent(slug)}`;
  for (let page = 1, pages = 1; page <= pages; page++) {
    const { data, meta } = await operator.call<Page<OrganizationState>>(
      'GET',
      `/organizations?limit=100&page=${page}${query}`,
    );
    for (const { id, slug: own, status, name } of data)
      console.log(`${id}  ${status.padEnd(9)}  ${own.padEnd(24)}  ${name}`);
    pages = meta.totalPages;
  }
}

async function change(operator: Operator, method: string, path: string, body?: unknown): Promise<void> {
  const { slug, status } = await operator.call<OrganizationState>(method, path, body);
  console.log(`${slug} is ${status}.`);
}

/** `confirm` must be the organization's slug, so that a mistyped id deletes nothing. */
async function deleteOrganization(operator: Operator, id: string, confirm: string): Promise<void> {
  const path = `/organizations?slug=${encodeURIComponent(confirm)}`;
  const { data } = await operator.call<Page<OrganizationState>>('GET', path);
  if (data[0]?.id !== id.toLowerCase())
    throw new Error(`--confirm must be the slug of the organization ${id}: nothing was deleted`);
  await change(operator, 'DELETE', `/organizations/${id}`);
  console.log('Housekeeping now erases its plants and devices, 150 of each a minute.');
}

async function deleteUser(operator: Operator, email: string): Promise<void> {
  const { userId } = await operator.call<{ userId: string }>('POST', '/users/delete', { email });
  console.log(`The account of ${email} is deleted. Audit events name it ${userId}.`);
}

async function support(
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

For example: curl -H 'authorization: Bearer ${token}' ${baseUrl}/api/v1/plants
`);
}

async function dataKeys(operator: Operator): Promise<void> {
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

async function report(work: Promise<BackupReport & { changedDevices?: number }>): Promise<void> {
  const { rows, fencedMs, changedDevices = 0 } = await work;
  console.log(`${rows} rows; commands and connections were refused for ${fencedMs} ms`);
  if (changedDevices > 0) console.log(`${changedDevices} devices were deleted or got their present status`);
}

/** `Acme Energy, s.r.o.` becomes `acme-energy-s-r-o`. */
function slugOf(text: string): string {
  const plain = text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  return plain
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replace(/^-+|-+$/g, '');
}

async function checkDeployment(baseUrl: string): Promise<void> {
  const { plant, email, organization, seconds } = values;
  const stack = url === undefined ? readStack() : undefined;
  const password = stack ? stack.admin.password : process.env.SITEWIRE_CHECK_PASSWORD;
  const organizationId = organization ?? stack?.organization.id;
  const plantId = plant ?? stack?.plants[0]?.id;
  const login = { email: email ?? stack?.admin.email ?? '', password: password ?? '' };
  if (!organizationId || !plantId || login.email === '' || login.password === '')
    refuse(`check needs --organization, --plant, --email and SITEWIRE_CHECK_PASSWORD\n\n${USAGE}`);
  if (!(Number(seconds) > 0)) refuse(`--seconds must be a number above 0\n\n${USAGE}`);
  await check({
    ...{ baseUrl, login, organizationId, plantId, timeoutMs: 1_000 * Number(seconds) },
    done: (step, tookMs) => console.log(`ok  ${String(tookMs).padStart(6)} ms  ${step}`),
  });
}

/** The URL of the deployment, and the operator's token for it. */
function target(): { baseUrl: string; token: string } {
  if (url === undefined) {
    const { baseUrl, operator } = readStack();
    return { baseUrl, token: operator.token };
  }
  const token = process.env.SITEWIRE_OPERATOR_TOKEN ?? '';
  // The check uses an account of its own.
  if (token === '' && command !== 'check')
    throw new Error('Set SITEWIRE_OPERATOR_TOKEN to one of the OPERATOR_TOKEN of the deployment');
  return { baseUrl: url.replace(/\/+$/, ''), token };
}

try {
  const { baseUrl, token } = target();
  await work(new Operator(baseUrl, token), baseUrl);
} catch (error) {
  console.error((error as Error).message);
  process.exit(1);
}
