/**
 * The commands of a deployment's operator over REST, with OPERATOR_TOKEN: create, list, suspend,
 * reactivate and delete organizations, invite people and delete accounts, read an organization's data for support, show or
 * change ceilings, retire data keys, back up and restore, and check a deployment. Without `--url` it uses the stack that runs on this machine.
 */
import { parseArgs } from 'node:util';
import { ceilings } from '../protocol/ceilings.ts';
import { parseInstant } from '../protocol/ids.ts';
import { Operator } from './admin-client.ts';
import {
  change,
  createOrganization,
  dataKeys,
  deleteOrganization,
  deleteUser,
  invite,
  limits,
  listOrganizations,
  releaseUser,
  report,
  slugOf,
  support,
} from './admin-work.ts';
import { afterRestore, saveAudit } from './after-restore.ts';
import { backUp, rehearse, restore } from './backup.ts';
import { check } from './check.ts';
import { checkConfiguration } from './configuration-check.ts';
import { showHelp } from './show-help.ts';
import { readStack } from './stack-file.ts';

const USAGE = `npm run sitewire -- admin <command> …

create-organization --name <name> --email <e-mail>
  --slug <slug>   AMQP user name and part of queue names; cannot be changed later; default: derived from the name
invite --organization <id> --email <e-mail> [--role ORG_ADMIN]
  mails an invitation; where the deployment sends no mail, prints the link that you must hand over
limits --organization <id> [--set <name>=<number|default> …]
  shows the ceilings of an organization, or sets some: ${Object.keys(ceilings.shape).join(', ')}
organizations [--slug <slug>]
  lists organizations with their ids
suspend-organization --organization <id> --reason <text>
  refuses its keys, members and devices, and closes their connections; it keeps its data
reactivate-organization --organization <id>
delete-organization --organization <id> --confirm <slug>
  deletes a suspended organization with all its data; its audit events stay for their retention period
delete-user --email <e-mail>
  deletes the account with everything personal
users release <e-mail>
  deletes an account that never proved its address, so that the owner of the address can register
support --organization <id> --reason <text>
  prints a token that reads for an hour what an ORG_ADMIN can read; the organization sees that, and the reason
data-keys
  seals the signing keys and device secrets that an older key of DATA_KEYS sealed again with the newest one, and counts
  the values of each key; waiting mails keep their key
backup (--plant <id> | --key <id>) --file <new file>
  writes the data of a plant or an API key to a file; it refuses commands and connections for that time
restore (--plant <id> | --key <id>) --file <file>
  replaces the data of the plant or key with the backup; what came after the backup is lost
rehearse (--plant <id> | --key <id>)
  backs up and restores at once: loses nothing, and shows that both work and how long they take
save-audit --since <time> --file <new file>
  saves what happened since a time, before time travel sets D1 back to it
after-restore --since <time> [--audit <file>]
  after time travel has set D1 back to that time: ends all sessions and mailed tokens, applies again every revocation,
  removal and suspension that the objects or the saved audit know, and lists what it could not. --since is an ISO 8601
  time with a time zone; run it again if it fails
check --url <url>
  says what the configuration of a deployment would make fail: settings, names, listeners and their certificates; exits
  with 1 if anything would
check [--organization <id> --plant <id> --email <e-mail of an ORG_ADMIN>] [--seconds 20]
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
  since: { type: 'string' },
  audit: { type: 'string' },
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
const work = command === 'users' ? releaseOf(rest) : rest.length > 0 ? undefined : workOf();
if (!work) refuse(USAGE);

/** The ceilings that `--set` names; null: the default. */
function changeOf(set: readonly string[]): Record<string, number | null> {
  return Object.fromEntries(
    set.map((text) => {
      const [, name = '', value = ''] = /^(\w+)=(\d+|default)$/.exec(text) ?? [];
      if (name === '') refuse(`--set must be <name>=<number> or <name>=default, not "${text}"\n\n${USAGE}`);
      return [name, value === 'default' ? null : Number(value)];
    }),
  );
}

/** `users release <email>`; undefined if it is not that. */
function releaseOf([what, email, ...more]: readonly string[]) {
  if (what !== 'release' || !email || more.length > 0) return undefined;
  return (operator: Operator) => releaseUser(operator, email);
}

/** The command with its arguments; undefined if it is unknown or lacks one. */
function workOf(): ((operator: Operator, baseUrl: string) => Promise<void>) | undefined {
  const { name, email, slug, organization, role = 'ORG_ADMIN', set = [], reason, confirm } = values;
  if (command === 'create-organization' && name && email)
    return (operator, baseUrl) =>
      createOrganization(operator, baseUrl, { name, email, slug: slug ?? slugOf(name) });
  if (command === 'invite' && organization && email)
    return (operator) => invite(operator, organization, { email, role });
  if (command === 'data-keys') return dataKeys;
  if (command === 'check' && url !== undefined && !organization && !values.plant && !email)
    return checkConfiguration;
  if (command === 'check') return (_operator, baseUrl) => checkDeployment(baseUrl);
  const { plant, key, file, since, audit } = values;
  if (command === 'save-audit' || command === 'after-restore') {
    const fromMs = parseInstant(since ?? '');
    if (fromMs === undefined || fromMs > Date.now() || !since)
      refuse(`--since must be an ISO 8601 time with a time zone that has passed\n\n${USAGE}`);
    if (command === 'after-restore') return (operator) => afterRestore(operator, since, audit);
    return file ? (operator) => saveAudit(operator, since, file) : undefined;
  }
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
  if (command === 'limits' && organization)
    return (operator) => limits(operator, organization, changeOf(set));
  return undefined;
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
  const { message, cause } = error as Error;
  // `fetch` says why only in the cause.
  console.error(message === 'fetch failed' ? `the edge cannot be reached: ${String(cause)}` : message);
  process.exit(1);
}
