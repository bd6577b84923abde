/**
 * What the operator of a deployment does over REST, with a token of its own (OPERATOR_TOKEN): create an organization with
 * its first admin, invite people, show or change ceilings, and retire data keys. Without `--url` it uses the stack that
 * runs on this machine.
 */
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { Operator } from './admin-client.ts';
import { readStack } from './stack-file.ts';

const USAGE = `npm run admin -- create-organization --name <name> --email <e-mail>
  --slug <slug>   AMQP user name and part of queue names; cannot be changed later; default: derived from the name
npm run admin -- invite --organization <id> --email <e-mail> [--role ORG_ADMIN]
  mails an invitation; where the deployment sends no mail, prints the link that you must hand over
npm run admin -- limits --organization <id> [--set <name>=<number|default> …]
  shows the ceilings of an organization, or sets some: restRatePerMinute, publishRatePerSecond, deviceRatePerSecond,
  keyTestsPerMinute, invitationsPerDay, plants, alertRules
npm run admin -- data-keys
  seals everything that an older key of DATA_KEYS sealed again with the newest one, and counts the values of each key

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
} as const;

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
  const { name, email, slug, organization, role = 'ORG_ADMIN', set = [] } = values;
  if (command === 'create-organization' && name && email)
    return (operator, baseUrl) =>
      createOrganization(operator, baseUrl, { name, email, slug: slug ?? slugOf(name) });
  if (command === 'invite' && organization && email)
    return (operator) => invite(operator, organization, { email, role });
  if (command === 'data-keys') return dataKeys;
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
  for (const [version, count] of Object.entries(versions)) console.log(`key ${version}: ${count} values`);
}

/** `Acme Energy, s.r.o.` becomes `acme-energy-s-r-o`. */
function slugOf(text: string): string {
  const plain = text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  return plain
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replace(/^-+|-+$/g, '');
}

/** The deployment, and the operator's token for it. */
function target(): { baseUrl: string; token: string } {
  if (url === undefined) {
    const { baseUrl, operator } = readStack();
    return { baseUrl, token: operator.token };
  }
  const token = process.env.SITEWIRE_OPERATOR_TOKEN;
  if (!token) throw new Error('Set SITEWIRE_OPERATOR_TOKEN to one of the OPERATOR_TOKEN of the deployment');
  return { baseUrl: url.replace(/\/+$/, ''), token };
}

try {
  const { baseUrl, token } = target();
  await work(new Operator(baseUrl, token), baseUrl);
} catch (error) {
  console.error((error as Error).message);
  process.exit(1);
}
