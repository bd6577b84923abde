/** Which URLs a webhook may have [C-12.4] [C-15.3]. */

const PORTS = ['', '8443'];
/** White space, and what `plainText` refuses: the URL parser would drop it or encode it. */
const DISGUISE = /[\s\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/u;
/** Last labels that no public host has: of RFC 6761, of RFC 6762, and of private networks. */
const PRIVATE_NAME =
  /(^|\.)(test|invalid|example|localhost|local|internal|lan|corp|home|home\.arpa|intranet|private|localdomain|svc|onion|alt)$/;
/** Where the platform serves Workers, this one among them. */
const WORKERS_NAME = /(^|\.)workers\.dev$/;

/** What of the deployment decides which URLs are allowed. */
interface UrlEnv {
  WEBHOOK_PRIVATE?: string;
  PUBLIC_URL?: string;
  AMQP_HOST?: string;
  MQTT_HOST?: string;
}

/** What is wrong with the URL of a webhook in this deployment; undefined if nothing is. */
export function webhookUrlFaultIn(env: UrlEnv, url: string): string | undefined {
  const { PUBLIC_URL = '', AMQP_HOST = '', MQTT_HOST = '' } = env;
  const publicHost = URL.canParse(PUBLIC_URL) ? hostOf(PUBLIC_URL) : '';
  return webhookUrlFault(url, env.WEBHOOK_PRIVATE === 'allow', [publicHost, AMQP_HOST, MQTT_HOST]);
}

/** The host name of a URL, written in one way. */
export function hostOf(url: string): string {
  return plainHost(new URL(url).hostname);
}

/** A URL, written in one way: two texts of one URL are equal. */
export function urlKeyOf(text: string): string {
  const url = new URL(text);
  url.hostname = plainHost(url.hostname);
  return url.href;
}

/**
 * What is wrong with the URL of a webhook; undefined if nothing is. `mayBePrivate`: the deployment allows this machine
 * by http and on any port, for development. `ownHosts`: the host names of the deployment.
 */
export function webhookUrlFault(
  text: string,
  mayBePrivate: boolean,
  ownHosts: readonly string[] = [],
): string | undefined {
  if (!URL.canParse(text)) return 'must be a URL, for example https://hooks.example.com/sitewire';
  if (DISGUISE.test(text)) return 'must not contain white space or control characters';
  const { protocol, hostname, port, username, password } = new URL(text);
  if (username !== '' || password !== '') return 'must not have a user name or a password';
  if (text.includes('#')) return 'must not have a fragment (#)';
  const host = plainHost(hostname);
  if (mayBePrivate && isThisMachine(host))
    return ['http:', 'https:'].includes(protocol) ? undefined : 'must begin with https:// or http://';
  if (protocol !== 'https:') return 'must begin with https://';
  if (!PORTS.includes(port)) return 'must have port 443 or 8443';
  // The URL parser writes every form of an IPv4 address, such as 0x7f.1, as four decimal numbers.
  if (host.startsWith('[') || /^[\d.]+$/.test(host)) return 'must have a host name, not an IP address';
  if (host.split('.').includes('')) return 'must have a host name without empty labels';
  if (!host.includes('.')) return 'must have a host name with a domain, for example hooks.example.com';
  if (PRIVATE_NAME.test(host))
    return 'must have a public host name: its last label is one of private networks';
  if (WORKERS_NAME.test(host)) return 'must not have a host name of workers.dev';
  if (ownHosts.some((own) => plainHost(own) === host))
    return 'must not have a host name of the deployment itself';
  return undefined;
}

function plainHost(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

function isThisMachine(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}
