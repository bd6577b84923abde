/** Which URLs a webhook may have [C-12.4]. */

const PORTS = ['', '8443'];
/** White space, and what `plainText` refuses: the URL parser would drop it or encode it. */
const DISGUISE = /[\s\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/u;
const PRIVATE_NAME = /(^|\.)(local|internal|localhost)$/;

/**
 * What is wrong with the URL of a webhook; undefined if nothing is. `mayBePrivate`: the deployment allows this machine
 * by http and on any port, for development.
 */
export function webhookUrlFault(text: string, mayBePrivate: boolean): string | undefined {
  if (!URL.canParse(text)) return 'must be a URL, for example https://hooks.example.com/sitewire';
  if (DISGUISE.test(text)) return 'must not contain white space or control characters';
  const { protocol, hostname, port, username, password } = new URL(text);
  if (username !== '' || password !== '') return 'must not have a user name or a password';
  if (text.includes('#')) return 'must not have a fragment (#)';
  const host = hostname.toLowerCase().replace(/\.$/, '');
  if (mayBePrivate && isThisMachine(host))
    return ['http:', 'https:'].includes(protocol) ? undefined : 'must begin with https:// or http://';
  if (protocol !== 'https:') return 'must begin with https://';
  if (!PORTS.includes(port)) return 'must have port 443 or 8443';
  // The URL parser writes every form of an IPv4 address, such as 0x7f.1, as four decimal numbers.
  if (host.startsWith('[') || /^[\d.]+$/.test(host)) return 'must have a host name, not an IP address';
  if (host.split('.').includes('')) return 'must have a host name without empty labels';
  if (!host.includes('.')) return 'must have a host name with a domain, for example hooks.example.com';
  if (PRIVATE_NAME.test(host)) return 'must not have a private host name (.local, .internal, .localhost)';
  return undefined;
}

function isThisMachine(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}
