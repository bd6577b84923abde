/**
 * The AMQP clients that partners use, each against the whole stack over TLS: a wrong key, a signed command
 * with its confirm and its acknowledgement, basic.get, a refusal, and recovery after the bridge ends by
 * SIGTERM and by SIGKILL. All clients run concurrently and share the two restarts; each client's output is
 * checked separately [C-6.3], [C-6.4].
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { OutsideClient } from '#support/outside-client.ts';
import { hasJava, hasPython, javaCommand, PYTHON, succeeds } from '#support/programs.ts';
import { TestStack } from '#support/stack.ts';

const FOLDER = join(import.meta.dirname, 'clients');
const GO_SOURCES = '/usr/share/gocode';

const UUID = '[0-9a-f-]{36}';
/** A gateway that is offline, so its commands wait. */
const ROUND = ['connected', `confirmed ${UUID}`, `acked ${UUID} QUEUED`];
const FORCED = 'CONNECTION.FORCED|ConnectionForced|\\b320\\b';

interface Kind {
  name: string;
  command: readonly string[];
  env?: Record<string, string>;
  /** How to install the client where it is missing. */
  package?: string;
  isThere?: () => boolean;
  /**
   * This client must be compiled first and takes longer than all others, so only `npm run sitewire -- conformance` runs
   * it.
   */
  isBuilt?: boolean;
  /** The client's own words for each event; `lost` is the end by SIGTERM. */
  refused: string;
  denied?: string;
  lost?: string;
  /** This client reports nothing about a connection that it restores by itself. */
  isSilent?: boolean;
  /** Lines that this client prints before `denied`. */
  more?: readonly string[];
}

const python = (script: string, module: string) => ({
  command: [PYTHON, join(FOLDER, script)],
  isThere: () => hasPython(module),
});

const KINDS: Kind[] = [
  {
    name: 'amqplib',
    command: [process.execPath, join(FOLDER, 'amqplib.ts')],
    refused: 'Handshake terminated by server: 403 .*',
  },
  {
    name: 'rabbitmq-client',
    command: [process.execPath, join(FOLDER, 'rabbitmq-client.ts')],
    refused: 'ACCESS_REFUSED',
    denied: 'ACCESS_REFUSED',
  },
  {
    name: '@cloudamqp/amqp-client',
    command: [process.execPath, join(FOLDER, 'cloudamqp.ts')],
    refused: 'connection closed: ACCESS_REFUSED .* \\(403\\)',
  },
  {
    name: 'pika',
    package: 'python3-pika',
    ...python('pika_client.py', 'pika'),
    refused: 'ProbableAuthenticationError: .*\\(403\\).*',
  },
  {
    name: 'aio-pika',
    package: 'python3-aio-pika',
    ...python('aio_pika_client.py', 'aio_pika'),
    refused: '<ProbableAuthenticationError: .*ACCESS_REFUSED .*',
    more: ['rolled 139'],
  },
  {
    name: 'kombu with py-amqp',
    package: 'python3-kombu',
    ...python('kombu_client.py', 'kombu'),
    refused: 'AccessRefused\\(403, .*',
  },
  {
    name: 'Bunny',
    package: 'ruby-bunny',
    command: ['ruby', join(FOLDER, 'bunny_client.rb')],
    isThere: () => succeeds('ruby', '-e', 'require "bunny"'),
    refused: 'Bunny::AuthenticationFailureError .*',
    isSilent: true,
  },
  {
    name: 'php-amqplib',
    package: 'php-amqplib',
    command: ['php', join(FOLDER, 'php_amqplib_client.php')],
    isThere: () => succeeds('php', '-r', 'require "PhpAmqpLib/autoload.php";'),
    refused: 'PhpAmqpLib.*AMQPConnectionClosedException ACCESS_REFUSED .* AMQPLAIN.*',
  },
  {
    name: "RabbitMQ's Java client",
    package: 'librabbitmq-client-java and a JDK',
    command: javaCommand(join(FOLDER, 'JavaClient.java')),
    isBuilt: true,
    isThere: hasJava,
    refused: 'com.rabbitmq.client.AuthenticationFailureException: ACCESS_REFUSED .*',
  },
  {
    name: 'amqp091-go',
    package: 'golang-github-rabbitmq-amqp091-go-dev and golang-go',
    command: ['go', 'run', join(FOLDER, 'go_client.go')],
    env: { GOPATH: GO_SOURCES, GO111MODULE: 'off', GOFLAGS: '-mod=mod' },
    isBuilt: true,
    isThere: () =>
      existsSync(join(GO_SOURCES, 'src/github.com/rabbitmq/amqp091-go')) && succeeds('go', 'version'),
    refused: 'Exception \\(403\\) .*',
  },
];

const isWhole = process.env.SITEWIRE_CONFORMANCE !== undefined;
const kinds = KINDS.map((kind) => {
  const isLeftOut = kind.isBuilt === true && !isWhole;
  return { ...kind, isLeftOut, isMissing: isLeftOut || kind.isThere?.() === false };
});

describe('the AMQP clients of partners', () => {
  let stack: TestStack;
  const clients = new Map<string, OutsideClient>();

  beforeAll(async () => {
    stack = await TestStack.start({ bridgeProcess: true });
    for (const { name, command, env } of kinds.filter(({ isMissing }) => !isMissing)) {
      const { slug, host, port, vhost, key, signingKey, ca } = stack.partnerOptions(await stack.addKey());
      const url = (password: string) => `amqps://${slug}:${password}@${host}:${port}/${vhost}`;
      const settings = {
        AMQP_URL: url(key),
        WRONG_URL: url(`${key}x`),
        CA_FILE: ca,
        SLUG: slug,
        SIGNING_KEY: signingKey,
        SITE_ID: stack.credentials.plantId,
      };
      clients.set(name, new OutsideClient(command, { ...settings, ...env }));
    }
    const all = [...clients.values()];
    const eachAcked = (times: number) => Promise.all(all.map((client) => client.untilTimes('acked', times)));
    for (const client of all) client.resume();
    await Promise.all(all.map((client) => client.untilTimes('denied', 1)));
    await stack.bridge.stop();
    await stack.restartBridge();
    for (const client of all) client.resume();
    await eachAcked(2);
    await stack.bridge.kill();
    await stack.restartBridge();
    for (const client of all) client.resume();
    await eachAcked(3);
    await Promise.all(all.map((client) => client.untilEnded()));
  }, 120_000);
  afterAll(async () => {
    for (const client of clients.values()) await client.stop();
    await stack.stop();
  });

  it.for(kinds)(
    '$name publishes, consumes, reports each refusal, and reconnects after a stopped and a killed bridge',
    ({ name, isMissing, isLeftOut, package: needed, more = [], ...words }, { skip }) => {
      if (isMissing) skip(isLeftOut ? 'npm run sitewire -- conformance runs it' : `install ${needed}`);
      const { refused, denied = '.*(403|ACCESS_REFUSED).*', lost = `.*(${FORCED}).*`, isSilent } = words;
      const unlessSilent = (line: string) => (isSilent ? [] : [line]);
      const client = clients.get(name);
      expect(client?.lines, client?.errors).toEqual(
        [
          `refused ${refused}`,
          ...ROUND,
          'got no envelope',
          ...more,
          `denied ${denied}`,
          ...unlessSilent(`lost ${lost}`),
          ...ROUND,
          // A killed bridge sends no close, so the client's view of the socket's end varies from run to run.
          ...unlessSilent('lost .+'),
          ...ROUND,
          'bye',
        ].map((line) => expect.stringMatching(new RegExp(`^${line}$`))),
      );
      expect(client?.exitCode).toBe(0);
    },
  );
});
