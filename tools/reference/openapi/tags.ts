/** The groups in which the OpenAPI document and docs show the routes, in this order. */

interface Tag {
  name: string;
  description: string;
  /** The beginnings of its paths after `/api/v1`. */
  paths: readonly string[];
}

export const TAGS: readonly Tag[] = [
  {
    name: 'Sites',
    description:
      'What partners read with an API key: sites, their configuration, commands, schedules, telemetry and events.',
    paths: ['/vcp/'],
  },
  {
    name: 'Login',
    description: 'Register, log in, and manage your own account and sessions.',
    paths: ['/auth/'],
  },
  {
    name: 'Organizations',
    description: 'Organizations, their members and their invitations.',
    paths: ['/organizations', '/invitations', '/users'],
  },
  {
    name: 'Plants',
    description: 'Plants, their sub-devices and their configuration.',
    paths: ['/plants'],
  },
  {
    name: 'Devices',
    description: 'Devices: register, provision, suspend, read what they send, and send commands to them.',
    paths: ['/devices', '/telemetry'],
  },
  {
    name: 'Device templates',
    description: 'What a type of device reports and executes.',
    paths: ['/device-templates'],
  },
  {
    name: 'API keys',
    description: 'The keys of partners. Only an ORG_ADMIN manages them.',
    paths: ['/partner/api-keys'],
  },
  {
    name: 'Webhooks',
    description: 'URLs to which the events of an API key are posted. Only an ORG_ADMIN manages them.',
    paths: ['/partner/webhooks'],
  },
  {
    name: 'Alerts',
    description: 'Alert rules on telemetry, and the alerts that they open.',
    paths: ['/alerts'],
  },
  { name: 'Audit', description: 'Who did what, and who was refused.', paths: ['/audit-events'] },
  {
    name: 'Operator',
    description: 'What the operator of the deployment does for organizations and accounts.',
    paths: ['/platform/'],
  },
  {
    name: 'Service',
    description: 'Health, API documents and reports of browsers. They need no credential.',
    paths: ['/openapi.json', '/asyncapi.json', '/docs', '/csp-report', ''],
  },
];

/** The tag of a path: the first one that has a beginning of it. */
export function tagOf(path: string): string {
  const rest = path.replace(/^\/api\/v1/, '');
  const tag = TAGS.find(({ paths }) => paths.some((one) => rest.startsWith(one)));
  return tag?.name ?? 'Service';
}
