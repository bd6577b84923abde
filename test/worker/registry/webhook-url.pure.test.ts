/** Which URLs a webhook may have [C-12.4]. */
import { describe, expect, it } from 'vitest';
import { webhookUrlFault } from '../../../registry/webhook-url.ts';

const HTTPS = 'must begin with https://';
const PORT = 'must have port 443 or 8443';
const ADDRESS = 'must have a host name, not an IP address';
const DOMAIN = 'must have a host name with a domain, for example hooks.example.com';
const PRIVATE = 'must have a public host name: its last label is one of private networks';
const USER = 'must not have a user name or a password';
const FRAGMENT = 'must not have a fragment (#)';
const NO_URL = 'must be a URL, for example https://hooks.example.com/sitewire';

const GOOD = [
  'https://hooks.example.com',
  'https://hooks.example.com/',
  'https://hooks.example.com:443/',
  'https://hooks.example.com:0443/',
  'https://hooks.example.com:8443/sitewire',
  'https://hooks.example.com/a/b?c=d&e=%20f',
  'https://hooks.example.com/127.0.0.1/localhost?to=http://10.0.0.1',
  'https://hooks.example.com./',
  'https://hooks.example.com.:8443/',
  'HTTPS://HOOKS.EXAMPLE.COM/Path',
  'https://příklad.example.cz/',
  'https://例え.jp/',
  'https://xn--r8jz45g.jp/',
  'https://hooks.example.com/ž',
  'https://hooks。example。com/',
  'https://a-1.b-2.example.co.uk/',
  'https://1e3.com/',
  'https://0x7f.com/',
  'https://10.0.0.1.example.com/',
  'https://local.example.com/',
  'https://internal.example.com/',
  'https://localhost.example.com/',
  'https://mylocal.example.mylocal/',
  'https://notinternal.notinternal/',
];

const BAD: [url: string, fault: string][] = [
  // schemes
  ['http://hooks.example.com/', HTTPS],
  ['HTTP://hooks.example.com:443/', HTTPS],
  ['ftp://hooks.example.com/', HTTPS],
  ['ws://hooks.example.com/', HTTPS],
  ['wss://hooks.example.com/', HTTPS],
  ['file:///etc/passwd', HTTPS],
  ['javascript:alert(1)', HTTPS],
  ['data:text/plain,hooks.example.com', HTTPS],
  ['blob:https://hooks.example.com/x', HTTPS],
  ['mailto:hooks@example.com', HTTPS],
  ['x-https://hooks.example.com/', HTTPS],
  // ports
  ['https://hooks.example.com:80/', PORT],
  ['https://hooks.example.com:444/', PORT],
  ['https://hooks.example.com:8080/', PORT],
  ['https://hooks.example.com:0/', PORT],
  ['https://hooks.example.com:65535/', PORT],
  // IP addresses, as the parser reads them
  ['https://192.0.2.7/', ADDRESS],
  ['https://192.0.2.7:8443/x', ADDRESS],
  ['https://192.0.2.7./', ADDRESS],
  ['https://192.0.2.7../', ADDRESS],
  ['https://10.1/', ADDRESS],
  ['https://1.2.3/', ADDRESS],
  ['https://0/', ADDRESS],
  ['https://0xa9fea9fe/', ADDRESS],
  ['https://2852039166/', ADDRESS],
  ['https://0251.0376.0251.0376/', ADDRESS],
  ['https://169.254.169.254/latest/meta-data', ADDRESS],
  ['https://0xA9.254.0251.254/', ADDRESS],
  ['https://１６９.254.169.254/', ADDRESS],
  ['https://169。254。169。254/', ADDRESS],
  ['https://169%2e254%2E169.254/', ADDRESS],
  ['https://[2001:db8::1]/', ADDRESS],
  ['https://[::]/', ADDRESS],
  ['https://[fe80::1]:8443/', ADDRESS],
  ['https://[::ffff:10.0.0.1]/', ADDRESS],
  ['https://[::ffff:127.0.0.1]/', ADDRESS],
  ['https://[64:ff9b::7f00:1]/', ADDRESS],
  // names that no public DNS has
  ['https://hooks/', DOMAIN],
  ['https://hooks./', DOMAIN],
  ['https://com:8443/', DOMAIN],
  ['https://local/', DOMAIN],
  ['https://INTERNAL./', DOMAIN],
  ['https://foo.localhost/', PRIVATE],
  ['https://foo.localhost./', PRIVATE],
  ['https://foo.LOCALHOST/', PRIVATE],
  ['https://printer.local/', PRIVATE],
  ['https://printer.local./', PRIVATE],
  ['https://PRINTER.Local/', PRIVATE],
  ['https://a.b.local:8443/', PRIVATE],
  ['https://metadata.google.internal/', PRIVATE],
  ['https://metadata.google.internal./', PRIVATE],
  ['https://METADATA.GOOGLE.INTERNAL/', PRIVATE],
  ['https://metadata。internal。/', PRIVATE],
  ['https://foo.ｌｏｃａｌ/', PRIVATE],
  ['https://foo.%6Cocal/', PRIVATE],
  // other parts
  ['https://user@hooks.example.com/', USER],
  ['https://user:password@hooks.example.com/', USER],
  ['https://:password@hooks.example.com/', USER],
  ['https://hooks.example.com@127.0.0.1/', USER],
  ['https://hooks.example.com/#part', FRAGMENT],
  ['https://hooks.example.com?a=b#', FRAGMENT],
  // no URL at all
  ['', NO_URL],
  ['hooks.example.com', NO_URL],
  ['/sitewire', NO_URL],
  ['//hooks.example.com/', NO_URL],
  ['https://', NO_URL],
  ['https://?a=b', NO_URL],
  ['https://:8443/', NO_URL],
  ['https://hooks.example.com:65536/', NO_URL],
  ['https://hooks.example.com:port/', NO_URL],
  ['https://hooks example.com/', NO_URL],
  ['https://hooks%20example.com/', NO_URL],
  ['https://hooks%00.example.com/', NO_URL],
  ['https://hooks\u0001.example.com/', NO_URL],
  ['https://hooks<.example.com/', NO_URL],
  ['https://256.256.256.256/', NO_URL],
  ['https://hooks.example.1/', NO_URL],
  ['https://1.2.3.4.5/', NO_URL],
  ['https://[::1/', NO_URL],
  ['https://[v1.x]/', NO_URL],
];

/** The URL parser drops these characters or encodes them: the stored text would not be what is called. */
const DISGUISED = [
  ' https://hooks.example.com/',
  'https://hooks.example.com/ ',
  '\thttps://hooks.example.com/',
  'https://hooks.example.com/\n',
  'https://hooks.exam\tple.com/',
  'https://hooks.exam\nple.com/',
  'https://hooks.exam\r\nple.com/',
  'ht\ntps://hooks.example.com/',
  'https://hooks.example.com/a b',
  'https://hooks.example.com/a\nb',
  'https://hooks.example.com/\u0000',
  'https://hooks.example.com/\u001b[31m',
  'https://hooks.example.com/\u0085',
  'https://hooks.example.com/?\u2028',
  'https://hooks.example.com/\u202e',
  'https://hooks.example.com/\ud800',
];

/** A host with an empty label is no host name; behind the last of two dots a private name would be hidden. */
const EMPTY_LABELS = [
  'https://hooks..example.com/',
  'https://.hooks.example.com/',
  'https://hooks.example.com../',
  'https://localhost../',
  'https://foo.localhost../',
  'https://printer.local../',
  'https://metadata.google.internal../',
];

/** Of this machine, which only a deployment for development allows. */
const THIS_MACHINE: [url: string, fault: string][] = [
  ['http://localhost/', HTTPS],
  ['http://localhost:4000/hooks?a=b', HTTPS],
  ['http://127.0.0.1:65535/', HTTPS],
  ['https://localhost/', DOMAIN],
  ['https://localhost./', DOMAIN],
  ['https://LOCALHOST/', DOMAIN],
  ['https://localhost:8443/', DOMAIN],
  ['https://localhost:4000/', PORT],
  ['https://loc%61lhost/', DOMAIN],
  ['https://ｌｏｃａｌｈｏｓｔ/', DOMAIN],
  ['https://127.0.0.1/', ADDRESS],
  ['https://127.0.0.1./', ADDRESS],
  ['https://127.255.255.254/', ADDRESS],
  ['https://127.1/', ADDRESS],
  ['https://0x7f.1/', ADDRESS],
  ['https://0x7f000001/', ADDRESS],
  ['https://2130706433/', ADDRESS],
  ['https://017700000001/', ADDRESS],
  ['https://１２７.１/', ADDRESS],
  ['https://127。0。0。1/', ADDRESS],
  ['https://[::1]/', ADDRESS],
  ['https://[0:0:0:0:0:0:0:1]/', ADDRESS],
  ['http://[::1]:4000/', HTTPS],
];

describe('the URL of a webhook', () => {
  it.each(GOOD)('%j is accepted, whatever the deployment allows [C-12.4]', (url) => {
    expect([webhookUrlFault(url, false), webhookUrlFault(url, true)]).toEqual([undefined, undefined]);
  });

  it.each(BAD)('%j is refused, whatever the deployment allows: it %s [C-12.4]', (url, fault) => {
    expect([webhookUrlFault(url, false), webhookUrlFault(url, true)]).toEqual([fault, fault]);
  });

  it.each(DISGUISED)('%j is refused: it has white space or control characters [C-12.4]', (url) => {
    const refused = expect.stringMatching(/^must /);
    expect([webhookUrlFault(url, false), webhookUrlFault(url, true)]).toEqual([refused, refused]);
  });

  it.each(EMPTY_LABELS)('%j is refused: a label of its host is empty [C-12.4]', (url) => {
    const refused = expect.stringMatching(/^must /);
    expect([webhookUrlFault(url, false), webhookUrlFault(url, true)]).toEqual([refused, refused]);
  });

  it.each(THIS_MACHINE)(
    '%j is accepted only where this machine is allowed; else it %s [C-12.4]',
    (url, fault) => {
      expect([webhookUrlFault(url, false), webhookUrlFault(url, true)]).toEqual([fault, undefined]);
    },
  );

  it.each(['ftp', 'ws', 'foo'])('this machine is not allowed by %s:// [C-12.4]', (scheme) => {
    expect(webhookUrlFault(`${scheme}://127.0.0.1/`, true)).toBe('must begin with https:// or http://');
  });

  it('this machine has no user name and no fragment either [C-12.4]', () => {
    expect(webhookUrlFault('http://user@localhost:4000/', true)).toBe(USER);
    expect(webhookUrlFault('http://localhost:4000/#part', true)).toBe(FRAGMENT);
  });
});

/** Host names that no public host has: RFC 6761, RFC 6762 and names of private networks [C-15.3]. */
const NOT_PUBLIC = [
  ...['test', 'invalid', 'example', 'localhost', 'local', 'internal', 'lan', 'corp', 'home', 'home.arpa'],
  ...['intranet', 'private', 'localdomain', 'svc', 'onion', 'alt'],
];

/** How one host name may be written. */
const WRITTEN = [
  (name: string) => `https://hooks.${name}/`,
  (name: string) => `https://hooks.${name}./x`,
  (name: string) => `https://HOOKS.${name.toUpperCase()}:8443/`,
  (name: string) => `https://a.b.c.${name}/?to=hooks.example.com`,
  (name: string) => `https://hooks.${name.replaceAll('.', '。')}/`,
  (name: string) => `https://hooks.%${name.charCodeAt(0).toString(16)}${name.slice(1)}/`,
];

/** Public names that only look like those. */
const PUBLIC = [
  ...['https://hooks.plan/', 'https://hooks.mylan/', 'https://lan.example.com/', 'https://hooks.homes/'],
  ...['https://corp.example.com/', 'https://home.arpa.example.com/', 'https://svc.example.com/'],
  ...['https://onion.example.com/', 'https://example.example.com/', 'https://hooks.example.com/lan'],
  ...[
    'https://hooks.xn--corp/',
    'https://hooks.testing/',
    'https://hooks.salt/',
    'https://hooks.example.net/',
  ],
  ...['https://notworkers.dev/', 'https://hooks.notworkers.dev/', 'https://workers.dev.example.com/'],
  ...['https://hooks.pages.dev/', 'https://workers.development/', 'https://other.sitewire-prod.eu/'],
  ...['https://xapi.sitewire-prod.eu/', 'https://api.sitewire-prod.eu.example.com/'],
];

/** Host names of a deployment: REST, AMQP and MQTT. */
const OWN = ['api.sitewire-prod.eu', 'amqp.sitewire-prod.eu', 'mqtt.sitewire-prod.eu'];
const faultOf = (url: string, mayBePrivate = false) => webhookUrlFault(url, mayBePrivate, OWN);

describe('the host name of a webhook', () => {
  it.each(NOT_PUBLIC)('refuses .%s, however it is written [C-15.3]', (name) => {
    for (const write of WRITTEN) {
      const url = write(name);
      const refused = expect.stringMatching(/host name/);
      expect([url, faultOf(url), faultOf(url, true)]).toEqual([url, refused, refused]);
    }
  });

  it.each(PUBLIC)('accepts %s, which is public [C-15.3]', (url) => {
    expect([faultOf(url), faultOf(url, true)]).toEqual([undefined, undefined]);
  });

  it.each(OWN)('refuses %s of the deployment itself, however it is written [C-15.3]', (name) => {
    const urls = [
      `https://${name}/`,
      `https://${name}./`,
      `https://${name.toUpperCase()}/`,
      `https://${name}:8443/hook`,
      `https://${name.replaceAll('.', '。')}/`,
    ];
    for (const url of urls) {
      const refused = expect.stringMatching(/deployment/);
      expect([url, faultOf(url), faultOf(url, true)]).toEqual([url, refused, refused]);
    }
  });

  it.each(['workers.dev', 'sitewire.workers.dev', 'sitewire.acme.workers.dev', 'A.WORKERS.DEV.'])(
    'refuses %s, where the platform serves Workers [C-15.3]',
    (host) => {
      for (const url of [`https://${host}/`, `https://${host}:8443/hook`]) {
        const refused = expect.stringMatching(/host name/);
        expect([url, faultOf(url), faultOf(url, true)]).toEqual([url, refused, refused]);
      }
    },
  );

  it('accepts this machine for development, although the deployment itself is on it [C-15.3]', () => {
    for (const url of ['http://127.0.0.1:4000/', 'http://localhost:4000/hook', 'http://[::1]:4000/'])
      expect(webhookUrlFault(url, true, ['127.0.0.1', 'localhost'])).toBeUndefined();
  });
});
