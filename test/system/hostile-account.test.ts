/**
 * A hostile account at full rate: for two minutes it makes and tests webhooks that get events, asks for mails, logs in,
 * opens streams and sends large and slow bodies. Meanwhile partners and people of other organizations must notice little
 * [C-14.2], [C-15.3] to [C-15.7].
 *
 * Both times of the ratio are of one run, because they depend on the machine. The load runs in a process of its own with
 * the lowest priority, so that it keeps neither the clock of this test nor, on two cores, the stack from running. It asks
 * for a hundred requests a second in all: more than the limits of an account let in, and the rest are refusals. It takes
 * about a tenth of one core itself (5 to 15 % measured), mostly for bodies of megabytes; the last test checks that. Its requests name an
 * address for each kind, and those of the others name another one, as a proxy in front of the edge would.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { SMTPServer } from 'smtp-server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HostileOrder, HostileWord } from '#support/hostile-account.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import type { AdminClient, Login } from '../../tools/admin-client.ts';
import { percentile } from '../../tools/bench/figures.ts';
import { CommandingPartner } from '../../tools/bench/plant-load.ts';
import { freePort } from '../../tools/ports.ts';
import { type SeededPlant, seedApiKey, seedOrganization, seedPlant } from '../../tools/seed.ts';
import type { Gateway } from '../../tools/simulator/gateway.ts';

const QUIET_MS = 20_000;
const HOSTILE_MS = 120_000;
const COMMAND_EVERY_MS = 100;
const LOGIN_EVERY_MS = 5_000;
const MAIL_EVERY_MS = 10_000;
/** The deployment's clock: Cloudflare runs the scheduled tasks each minute. */
const TICK_MS = 60_000;
/** The runtime needs some thousands of commands to compile the hot code. */
const WARM_UP = 2_000;
const RATIO = 1.5;
/** A command without an acknowledgement by then counts as lost. */
const LOST_MS = 30_000;
/** Has room for a second attempt a minute after the first, and for the task that sends it. */
const MAIL_MS = 180_000;
/** Less than one a second of each kind means that the load was none. */
const LEAST_ANSWERS = 120;
const HONEST_ADDRESS = '203.0.113.7';

const smtpPort = await freePort();

interface Phase {
  waits: number[];
  logins: { status: number; ms: number }[];
  /** Addresses that a mail was asked for, with the status of the answer. */
  mails: { email: string; status: number; askedAtMs: number }[];
}

describe('a hostile account at full rate', () => {
  const received: { to: string; atMs: number }[] = [];
  const stack = suiteStack({
    bridgeProcess: true,
    bindings: {
      CLIENT_ADDRESS: 'platform',
      WEBHOOK_PRIVATE: 'allow',
      SMTP_URL: `smtp://mailer:password@localhost:${smtpPort}`,
      MAIL_FROM: 'sitewire@example.com',
    },
  });
  let smtp: SMTPServer;
  let plant: SeededPlant;
  let gateway: Gateway;
  let partner: CommandingPartner;
  let hostile: ChildProcess;
  let order: HostileOrder;
  let clock: NodeJS.Timeout;
  let quiet: Phase;
  let loaded: Phase;
  let word: HostileWord;
  /** One reset for each: an account gets one mail a minute. */
  const people: string[] = [];

  beforeAll(async () => {
    smtp = mailServer(stack.certificates, received);
    smtp.listen(smtpPort, '127.0.0.1');
    await once(smtp.server, 'listening');
    const tick = () =>
      stack.edge.tick().catch((error: unknown) => console.error('a scheduled task failed', error));
    clock = setInterval(() => void tick(), TICK_MS);

    plant = await stack.addPlant();
    gateway = await stack.gateway(plant.gateway);
    await eventually(() => gateway.connected || undefined);
    partner = await CommandingPartner.start(await stack.partner(), stack.credentials.organization.slug);
    for (let count = 0; count < HOSTILE_MS / MAIL_EVERY_MS / 2; count++)
      people.push((await newAdmin()).login.email);

    const { login, organization, admin } = await newAdmin();
    const { id: plantId } = await seedPlant(admin, { name: 'Own plant', ...newEans() });
    order = {
      kind: 'run',
      url: stack.edge.url,
      login,
      organization,
      key: await seedApiKey(admin),
      plantId,
      victim: stack.credentials.admin.email,
    };
    hostile = fork(join(import.meta.dirname, '..', 'support', 'hostile-account.ts'));
    for (let count = 0; count < WARM_UP; count++) await partner.acknowledged(plant);

    quiet = await measure(QUIET_MS, false);
    const stopped = once(hostile, 'message') as Promise<[HostileWord]>;
    hostile.send(order);
    loaded = await measure(HOSTILE_MS, true, () => hostile.send({ kind: 'stop' } satisfies HostileOrder));
    [word] = await stopped;
    show();
  }, 400_000);

  afterAll(async () => {
    clearInterval(clock);
    hostile?.disconnect();
    // Closed already if the platform has ended the connection, which the lost commands show.
    await partner?.partner.close().catch(() => {});
    await gateway?.stop();
    await new Promise<void>((resolve) => (smtp ? smtp.close(resolve) : resolve()));
  });

  /** An organization with the limits of any other, and its admin. */
  const newAdmin = async (): Promise<{
    login: Login;
    organization: { id: string; slug: string };
    admin: AdminClient;
  }> => {
    const slug = `org-${randomBytes(4).toString('hex')}`;
    const login = { email: `admin@${slug}.example`, password: randomBytes(12).toString('base64url') };
    const { operatorToken } = stack.credentials;
    const admin = await seedOrganization(stack.edge.url, {
      admin: login,
      operatorToken,
      organization: { slug },
    });
    return { login, organization: { id: admin.organizationId ?? '', slug }, admin };
  };

  const ask = async (path: string, body: unknown, more: Record<string, string> = {}): Promise<number> => {
    const answer = await fetch(`${stack.edge.url}/api/v1${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'cf-connecting-ip': HONEST_ADDRESS,
        ...more,
      },
      body: JSON.stringify(body),
    });
    await answer.arrayBuffer();
    return answer.status;
  };

  const logIn = async () => {
    const startedAt = performance.now();
    const status = await ask('/auth/login', stack.credentials.admin);
    return { status, ms: performance.now() - startedAt };
  };

  /** What was measured, whether the tests pass or not. */
  const show = () => {
    const figures = ({ waits }: Phase) =>
      [0.5, 0.9, 0.99].map((share) => percentile(waits, share).toFixed(1)).join(' / ');
    const slowest = Math.max(...loaded.logins.map(({ ms }) => ms)).toFixed(0);
    console.log(
      `acknowledgements, p50 / p90 / p99 in ms: quiet ${figures(quiet)}, hostile ${figures(loaded)}`,
    );
    console.log(`ratio of p50: ${(percentile(loaded.waits, 0.5) / percentile(quiet.waits, 0.5)).toFixed(2)}`);
    console.log(`logins: ${loaded.logins.map(({ status }) => status).join(' ')}, slowest ${slowest} ms`);
    const delays = loaded.mails.map((mail) => ((arrivalOf(mail) ?? Number.NaN) - mail.askedAtMs).toFixed(0));
    console.log(`mails, delay in ms: ${delays.join(' ')}, of ${received.length} in all`);
    console.log(JSON.stringify(word));
  };

  let mailsAsked = 0;
  /** In turns an invitation of a new address and a reset of the password of a person. */
  const askForMail = async () => {
    const count = mailsAsked++;
    const askedAtMs = performance.now();
    if (count % 2 === 0) {
      const email = `invited-${count}@mail.example`;
      const path = `/organizations/${stack.admin.organizationId}/invitations`;
      const headers = {
        authorization: `Bearer ${stack.admin.accessToken}`,
        'x-org-id': stack.admin.organizationId ?? '',
      };
      return { email, status: await ask(path, { email, role: 'VIEWER' }, headers), askedAtMs };
    }
    const email = people[Math.floor(count / 2) % people.length] ?? '';
    return { email, status: await ask('/auth/password-reset', { email }), askedAtMs };
  };

  /**
   * Publishes at fixed times even if earlier commands are unanswered, so that a standstill counts with its full length.
   * `people`: whether persons log in and ask for mails meanwhile. `sent`: called when nothing more is sent.
   */
  const measure = async (ms: number, arePeopleThere: boolean, sent = () => {}): Promise<Phase> => {
    const startedAt = performance.now();
    const waits: Promise<number>[] = [];
    const logins: ReturnType<typeof logIn>[] = [];
    const mails: ReturnType<typeof askForMail>[] = [];
    for (let moment = 0; moment < ms; moment += COMMAND_EVERY_MS) {
      await pause(Math.max(0, startedAt + moment - performance.now()));
      waits.push(acknowledged());
      if (arePeopleThere && moment % LOGIN_EVERY_MS === 0) logins.push(logIn());
      if (arePeopleThere && moment % MAIL_EVERY_MS === 0) mails.push(askForMail());
    }
    sent();
    return {
      waits: await Promise.all(waits),
      logins: await Promise.all(logins),
      mails: await Promise.all(mails),
    };
  };

  /** How long one command takes to its acknowledgement; `LOST_MS` if it has none by then. */
  const acknowledged = async (): Promise<number> => {
    const sentAt = performance.now();
    const lost = pause(LOST_MS, LOST_MS, { ref: false });
    const took = partner.acknowledged(plant).then(
      () => performance.now() - sentAt,
      () => LOST_MS,
    );
    return await Promise.race([took, lost]);
  };

  const arrivalOf = ({ email, askedAtMs }: Phase['mails'][number]) =>
    received.find(({ to, atMs }) => to === email && atMs >= askedAtMs)?.atMs;

  it(`leaves the acknowledgement p50 of others within ${RATIO} times that of a quiet stack, and loses none [C-14.2]`, () => {
    expect(loaded.waits.filter((ms) => ms >= LOST_MS)).toEqual([]);
    expect(percentile(loaded.waits, 0.5)).toBeLessThanOrEqual(RATIO * percentile(quiet.waits, 0.5));
  });

  it('has no login of others refused [C-15.6]', () => {
    expect(loaded.logins.length).toBe(HOSTILE_MS / LOGIN_EVERY_MS);
    expect(loaded.logins.filter(({ status }) => status !== 200)).toEqual([]);
  });

  it(
    'has no mail of others refused or dropped [C-15.5]',
    async () => {
      expect(loaded.mails.map(({ status }) => status)).toEqual(
        loaded.mails.map((_, index) => (index % 2 === 0 ? 201 : 202)),
      );
      await eventually(() => loaded.mails.every((mail) => arrivalOf(mail)) || undefined, MAIL_MS);
    },
    MAIL_MS + 10_000,
  );

  it('gets answers of every kind, and takes less than a quarter of one core itself', () => {
    for (const [kind, answers] of Object.entries(word.answers)) {
      const { 0: _, ...answered } = answers;
      const count = Object.values(answered).reduce((sum, one) => sum + one, 0);
      expect([kind, count]).toEqual([kind, expect.toSatisfy((all: number) => all >= LEAST_ANSWERS)]);
      expect([kind, Object.keys(answered)]).toEqual([kind, expect.not.arrayContaining(['500'])]);
    }
    expect(word.posts).toBeGreaterThan(LEAST_ANSWERS);
    expect(word.cpuMs / (1_000 * word.seconds)).toBeLessThan(0.25);
  });
});

function mailServer(
  { certificate, key }: { certificate: string; key: string },
  received: { to: string; atMs: number }[],
): SMTPServer {
  const server = new SMTPServer({
    key: readFileSync(key),
    cert: readFileSync(certificate),
    onAuth: ({ username }, _session, done) => done(null, { user: username ?? '' }),
    onData: (stream, session, done) => {
      stream.resume();
      stream.on('end', () => {
        for (const { address } of session.envelope.rcptTo)
          received.push({ to: address, atMs: performance.now() });
        done();
      });
    },
  });
  server.on('error', () => {});
  return server;
}

function newEans() {
  const ean = () => `8591824${String(Math.floor(Math.random() * 1e11)).padStart(11, '0')}`;
  return { eanCons: ean(), eanProd: ean(), externalPlantId: null };
}
