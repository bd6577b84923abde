/**
 * `npm run admin -- create-organization --name "Acme Energy" --email jana@example.com` creates the first
 * organization of a deployment over REST. Without `--url` it uses the stack that runs on this machine.
 */
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import { AdminClient } from './admin-client.ts';
import { readStack } from './stack-file.ts';

const USAGE = `npm run admin -- create-organization --name <name> --email <e-mail>
  --slug <slug>   AMQP user name and part of queue names; cannot be changed later; default: derived from the name
  --url <url>     base URL of the deployment, https://…; default: the stack on this machine`;

function refuse(text: string): never {
  console.error(text);
  process.exit(2);
}

const options = {
  name: { type: 'string' },
  email: { type: 'string' },
  slug: { type: 'string' },
  url: { type: 'string' },
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
  values: { name, email, slug, url },
} = read();
if (command !== 'create-organization' || rest.length > 0 || !name || !email) refuse(USAGE);
if (url !== undefined && !/^https?:\/\//.test(url))
  refuse(`--url must begin with https:// or http://\n\n${USAGE}`);

/** `Acme Energy, s.r.o.` becomes `acme-energy-s-r-o`. */
function slugOf(text: string): string {
  const plain = text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase();
  return plain
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 40)
    .replace(/^-+|-+$/g, '');
}

try {
  const baseUrl = url?.replace(/\/+$/, '') ?? readStack().baseUrl;
  const password = randomBytes(15).toString('base64url');
  const organizationSlug = slug ?? slugOf(name);
  const registration = { email, password, name: email, organizationName: name, organizationSlug };
  if (!(await AdminClient.register(baseUrl, registration))) {
    throw new Error(
      `${email} is already registered: log in and create the organization with POST /api/v1/organizations`,
    );
  }
  console.log(`
Organization "${name}" created.

  slug      ${organizationSlug}
  e-mail    ${email}
  password  ${password}   (shown only now; change it with POST /api/v1/auth/change-password)

Log in at ${baseUrl}/api/v1/auth/login
`);
} catch (error) {
  console.error((error as Error).message);
  process.exit(1);
}
