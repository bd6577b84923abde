/**
 * The rules on imports between folders (protocol ← durable-objects ← worker; protocol ← bridge), and other
 * rules on source files.
 */
import { describe, expect, it } from 'vitest';
import { COMPUTED, readSources, type Source } from '#support/import-graph.ts';
import * as rules from '#support/import-rules.ts';

const PRODUCT = 'protocol/ registry/ durable-objects/ worker/ bridge/ console/ tools/';
const CLASSES =
  'durable-objects/site.ts durable-objects/vhost.ts durable-objects/request-counter.ts durable-objects/watches.ts durable-objects/metrics.ts durable-objects/restorable.ts';
const SITE = 'durable-objects/site.ts durable-objects/site/';
const VHOST = 'durable-objects/vhost.ts durable-objects/vhost/';
const RPC = 'durable-objects/rpc.ts';
const ENV = 'durable-objects/env.ts';
const D1 = 'registry/schema.ts drizzle-orm';
const DIAL = 'durable-objects/dial.ts';
const OF_OBJECTS = `${RPC} ${DIAL} durable-objects/ask-rpc.ts durable-objects/journal-rpc.ts durable-objects/backup-rpc.ts durable-objects/request-counter-rpc.ts durable-objects/watches-rpc.ts durable-objects/standing-rpc.ts durable-objects/object-id.ts durable-objects/secrets/base64.ts durable-objects/secrets/hmac.ts durable-objects/secrets/device-tokens.ts durable-objects/secrets/secret-box.ts registry/ durable-objects/metrics/ durable-objects/object/reason.ts type:${ENV}`;
/** It reads and writes D1; a copy of it is in an object's storage. */
const REGISTRY = `registry/ protocol/ drizzle-orm durable-objects/object/reason.ts durable-objects/secrets/hmac.ts type:durable-objects/watches-rpc.ts durable-objects/object/registry-copy.ts`;
/** Only the probe may use amqplib; the rule on its mention enforces that. */
const WORKER = `worker/ protocol/ ${OF_OBJECTS} zod hono jose node:crypto node:events node:net node:tls cloudflare: amqplib nodemailer @peculiar/x509 reflect-metadata`;

const RULES = [
  ...rules.onlyImports({
    'protocol/': 'protocol/ zod ipaddr.js',
    'registry/': REGISTRY,
    'durable-objects/': `durable-objects/ registry/ protocol/ zod jose node:crypto node:zlib cloudflare:workers`,
    'worker/': WORKER,
    'worker/index.ts': `${WORKER} export:durable-objects/site.ts export:durable-objects/vhost.ts export:durable-objects/request-counter.ts export:durable-objects/watches.ts export:durable-objects/metrics.ts`,
    'bridge/': 'bridge/ protocol/ node: *',
    'console/':
      'console/ protocol/ type:dist/console/api.d.ts preact @preact/signals openapi-fetch uplot uqr',
    'bridge/amqp/wire/': `bridge/ protocol/ node: * ${COMPUTED}`,
  }),
  rules.neverImport('durable-objects/object imports no Site, Vhost, registry, rpc, dial or env', {
    in: 'durable-objects/object/',
    names: `${SITE} ${VHOST} registry/ ${RPC} ${DIAL} ${ENV}`,
  }),
  rules.neverImport('only the classes of objects import cloudflare:workers', {
    in: 'durable-objects/',
    but: CLASSES,
    names: 'cloudflare:workers',
  }),
  rules.apart('site and vhost do not import each other, except in rpc.ts', {
    in: 'durable-objects/',
    but: RPC,
    sides: [SITE, VHOST],
  }),
  rules.neverImport('only the registry imports drizzle-orm and the schema of D1', {
    in: PRODUCT,
    but: 'registry/',
    names: D1,
  }),
  rules.noMember('only rows.ts and durable-objects/object use .sql.exec', {
    in: PRODUCT,
    but: '**/rows.ts durable-objects/object/',
    member: 'sql.exec',
  }),
  rules.noCode('only durable-objects/object-id.ts makes the ids of objects, so each is in the jurisdiction', {
    in: PRODUCT,
    but: 'durable-objects/object-id.ts tools/',
    pattern: /\.(idFromName|idFromString|newUniqueId|getByName|jurisdiction)\(/,
  }),
  rules.neverImport('bridge/amqp never imports bridge/mqtt', { in: 'bridge/amqp/', names: 'bridge/mqtt/' }),
  rules.neverImport('bridge/mqtt never imports bridge/amqp', { in: 'bridge/mqtt/', names: 'bridge/amqp/' }),
  rules.neverImport('bridge/amqp and bridge/mqtt take a duplex stream and open no sockets', {
    in: 'bridge/amqp/ bridge/mqtt/',
    names: 'net node:net tls node:tls',
  }),
  rules.noMention('only bridge/amqp/wire, the tools and the probe of a key mention amqplib', {
    in: PRODUCT,
    but: 'bridge/amqp/wire/ tools/ worker/lifecycle/',
    word: 'amqplib',
  }),
  rules.fullNames('a relative import includes the file extension', { in: PRODUCT }),
  rules.noCircles('files do not import each other in a cycle, types included', { in: PRODUCT }),
  rules.floors('a folder of durable-objects/site imports only from folders below it', {
    in: 'durable-objects/site/',
    floors:
      'assemble.ts migrations.ts view.ts explain link lifecycle config plan schedule rest-command command dispatch presence alert device telemetry retention.ts event identity.ts bounds.ts refusal.ts stored.ts site-view.ts sight.ts',
    up: ['plan -> config'],
  }),
  rules.neverImport('only durable-objects/site.ts imports the assembled site', {
    in: PRODUCT,
    but: 'durable-objects/site.ts',
    names: 'durable-objects/site/assemble.ts',
  }),
  rules.noCode('only owners and kinds of a site know command types and actions', {
    in: 'durable-objects/site/',
    but: 'durable-objects/site/command/kind/ **/owner.ts',
    pattern: /\b(commandType|command_type|owner|action) *[!=]==|\baction\.startsWith\(/,
  }),
  rules.atMostUnlessOneClass('a file has at most 300 lines, and 400 if it is one class', {
    in: PRODUCT,
    but: 'registry/schema.ts protocol/errors.ts durable-objects/rpc.ts console/texts.ts',
    lines: 300,
    oneClass: 400,
  }),
  rules.noCode('zod is imported as a namespace: the name `z` brings every language of its messages with it', {
    in: PRODUCT,
    pattern: /import (type )?\{[^}]*\} from 'zod'/,
  }),
  rules.atMost('the class of an object has at most 250 lines', { in: CLASSES, lines: 250 }),
];

function tree(files: Record<string, string>): Source[] {
  return Object.entries(files).map(([file, text]) => ({ file, text }));
}

function lines(count: number): string {
  return '\n'.repeat(count);
}

describe('the import rules', () => {
  const GOOD = tree({
    'protocol/ids.ts': `import 'zod'; import 'zod/v4'; import 'ipaddr.js'; export * from './errors.ts';`,
    'protocol/errors.ts': lines(300),
    'protocol/link/frames.ts': `import '../ids.ts';`,
    'registry/schema.ts': `import 'drizzle-orm/sqlite-core'; import '../protocol/ids.ts';`,
    'registry/writes.ts': `import './schema.ts'; import 'drizzle-orm/d1'; import '../durable-objects/secrets/hmac.ts';`,
    'durable-objects/site.ts': `import 'cloudflare:workers'; import './site/assemble.ts'; ${lines(250)}`,
    'durable-objects/vhost.ts': `import 'cloudflare:workers'; import './vhost/lane/rows.ts'; import './rpc.ts';`,
    'durable-objects/request-counter.ts': `import 'cloudflare:workers'; import './rpc.ts';`,
    'durable-objects/watches.ts': `import 'cloudflare:workers'; import './watches-rpc.ts';`,
    'durable-objects/metrics.ts': `import 'cloudflare:workers'; import './metrics/report.ts';`,
    'durable-objects/metrics/report.ts': `import '../../protocol/ids.ts';`,
    'durable-objects/rpc.ts': `import type { A } from './site/command/rows.ts'; import './vhost/lane/rows.ts';`,
    'durable-objects/dial.ts': `import './object/sql.ts';`,
    'durable-objects/env.ts': `import type { A } from './rpc.ts';`,
    'durable-objects/ask-rpc.ts': '',
    'durable-objects/standing-rpc.ts': '',
    'durable-objects/object-id.ts': `import type { A } from './env.ts'; space.jurisdiction('eu').idFromName(name);`,
    'durable-objects/backup-rpc.ts': '',
    'durable-objects/journal-rpc.ts': '',
    'durable-objects/request-counter-rpc.ts': '',
    'durable-objects/watches-rpc.ts': '',
    'durable-objects/restorable.ts': `import 'cloudflare:workers';`,
    'durable-objects/object/sql.ts': `import '../../protocol/ids.ts'; storage.sql.exec('SELECT 1');`,
    'durable-objects/object/reason.ts': '',
    'durable-objects/secrets/base64.ts': '',
    'durable-objects/secrets/hmac.ts': `import 'node:crypto'; const exec = /x/.exec('x'); sql(exec);`,
    'durable-objects/secrets/device-tokens.ts': `import 'jose';`,
    'durable-objects/secrets/secret-box.ts': '',
    'durable-objects/object/registry-copy.ts': `import './sql.ts';`,
    'durable-objects/site/assemble.ts': `import './plan/owner.ts';`,
    'durable-objects/site/plan/owner.ts': `import '../command/kind/batch.ts'; if (row.action === SET) go();`,
    'durable-objects/site/command/kind/batch.ts': `import '../rows.ts'; if (commandType === 'X') go();`,
    'durable-objects/site/command/rows.ts': `import '../../object/sql.ts'; storage.sql.exec('SELECT 1');`,
    'durable-objects/vhost/lane/rows.ts': `import '../../../registry/writes.ts'; sql.exec('SELECT 1'); import 'zod';`,
    'worker/index.ts': `import './app.ts'; export { Site } from '../durable-objects/site.ts';
      export * from '../durable-objects/vhost.ts';`,
    'worker/env.ts': `export type { Env } from '../durable-objects/env.ts'; import '../protocol/ids.ts';`,
    'worker/app.ts': `import '../durable-objects/rpc.ts'; import 'hono/cors'; import './env.ts';`,
    'worker/auth/proof.ts': `import '../../durable-objects/secrets/hmac.ts'; import 'jose'; import '../../registry/writes.ts';`,
    'worker/routes/sites.ts': `import type { A } from '../../durable-objects/rpc.ts'; import '../auth/proof.ts';`,
    'worker/lifecycle/probe.ts': `import 'amqplib';`,
    'worker/http/query.ts': `import 'zod'; import 'cloudflare:sockets';`,
    'bridge/index.ts': `import './amqp/channel.ts'; import './mqtt/broker.ts'; import 'node:net'; import 'ws';`,
    'bridge/amqp/channel.ts': `/* as 'amqplib' */ import 'node:stream'; import './wire/codec.ts'; ${lines(290)}`,
    'bridge/amqp/wire/codec.ts': `require.resolve('amqplib'); require(path); import 'node:module';`,
    'bridge/amqp/wire/output.ts': `import './codec.ts'; import '../../../protocol/ids.ts'; import 'long';`,
    'bridge/mqtt/broker.ts': `import 'aedes'; import '@scope/x/y'; import '../../protocol/ids.ts';`,
    'console/texts.ts': lines(400),
    'console/main.tsx': `import 'preact'; import '../protocol/ids.ts'; import type { A } from '../dist/console/api.d.ts';`,
    'tools/bench/workerd/loop.ts': `env.LOOP.idFromName('other');`,
    'tools/partner.ts': `import 'amqplib'; import '../bridge/index.ts'; import(name);`,
  });
  const BAD = tree({
    'protocol/ids.ts': `import 'zodiac'; import 'node:crypto'; import '../registry/schema.ts';`,
    'protocol/link/frames.ts': `import type { A } from 'drizzle-orm'; import 'protocol/ids.ts';`,
    'registry/schema.ts': `import '../durable-objects/site.ts'; import 'amqplib';`,
    'durable-objects/site.ts': `import './vhost.ts'; import './vhost/lane/rows.ts'; ${lines(251)}`,
    'durable-objects/vhost.ts': `import './site'; import type { A } from './site/command/constraints.ts'; ${lines(300)}`,
    'durable-objects/rpc.ts': `import '../worker/env.ts'; import '../bridge/other.ts'; import 'hono';`,
    'durable-objects/env.ts': `import type { Site } from './site.ts'; import type { Vhost } from './vhost.ts';`,
    'durable-objects/object/turn.ts': `import '../env.ts'; import type { A } from '../rpc.ts'; import '../site.ts';`,
    'durable-objects/object/sql.ts': `import '../../registry/schema.ts'; import '../vhost/lane/rows.ts';`,
    'durable-objects/secrets/hmac.ts': `import 'node:net'; import 'cloudflare:sockets'; import(name);`,
    'durable-objects/site/command/constraints.ts': `import type { A } from '../../vhost.ts'; a.storage\n.sql.exec('');`,
    'durable-objects/site/command/rows.ts': `import './kinds.ts';`,
    'durable-objects/site/dispatch/sender.ts': `import '../plan/stack.ts'; import '../assemble.ts';\n if (row.owner === 'PLAN') go();`,
    'durable-objects/site/extra/new.ts': '',
    'durable-objects/site/command/kinds.ts': `type A = import('./constraints.ts').A; import 'drizzle-orm/d1';`,
    'durable-objects/vhost/lane/rows.ts': `import '../../site/command/rows.ts'; import 'cloudflare:workers';`,
    'worker/index.ts': `import '../durable-objects/site.ts'; import 'node:fs';
      export * from '../durable-objects/env.ts';`,
    'worker/app.ts': `export { Site } from '../durable-objects/site.ts'; import 'amqplib'; import 'honoured';`,
    'worker/env.ts': `import { type Env } from '../durable-objects/env.ts'; import '../bridge/link.ts';`,
    'worker/routes/sites.ts': `import '../../durable-objects/object/turn.ts'; import '../../registry/schema.ts';`,
    'worker/link/dial.ts': `import type { A } from '../../durable-objects/vhost/lane/rows.ts'; c.sql.exec('');`,
    'worker/objects.ts': `space.get(space.idFromName(id));\n space\n  .newUniqueId();`,
    'tools/zod.ts': `import { z } from 'zod';`,
    'bridge/link.ts': `import type { Env } from '../durable-objects/env.ts'; import('../worker/env.ts');`,
    'bridge/tls.ts': `import '../registry/schema.ts'; import 'cloudflare:workers'; import '../test/x.ts';`,
    'bridge/amqp/uplink.ts': `import '../mqtt/broker.ts'; import 'net'; import 'tls'; \`\${x}/amqplib/lib/defs.js\`;`,
    'bridge/amqp/wire/codec.ts': `import '../../../tools/partner.ts';`,
    'bridge/mqtt/broker.ts': `import type { A } from '../amqp/uplink.ts'; import 'node:net'; import type {} from 'node:tls';`,
    'bridge/mqtt/wire/size.ts': `import 'amqplib/callback_api'; require(path);`,
    'console/main.tsx': `import 'react'; import '../worker/env.ts'; import '../dist/console/api.d.ts'; const x = <a href="b" />;`,
    'tools/seed.ts': `import 'drizzle-orm/d1'; ${lines(301)}`,
  });

  it.each(RULES.map((rule) => [rule.title, rule] as const))(
    'accept files that comply: %s',
    (_title, rule) => {
      expect(rule.offenders(GOOD)).toEqual([]);
    },
  );

  it('report every violation', () => {
    expect(Object.fromEntries(RULES.map((rule) => [rule.title, rule.offenders(BAD)]))).toEqual({
      'protocol/ imports only permitted paths': [
        'protocol/ids.ts -> zodiac',
        'protocol/ids.ts -> node:crypto',
        'protocol/ids.ts -> ../registry/schema.ts',
        'protocol/link/frames.ts -> drizzle-orm',
        'protocol/link/frames.ts -> protocol/ids.ts',
      ],
      'registry/ imports only permitted paths': [
        'registry/schema.ts -> ../durable-objects/site.ts',
        'registry/schema.ts -> amqplib',
      ],
      'durable-objects/ imports only permitted paths': [
        'durable-objects/rpc.ts -> ../worker/env.ts',
        'durable-objects/rpc.ts -> ../bridge/other.ts',
        'durable-objects/rpc.ts -> hono',
        'durable-objects/secrets/hmac.ts -> node:net',
        'durable-objects/secrets/hmac.ts -> cloudflare:sockets',
        'durable-objects/secrets/hmac.ts -> <computed>',
        'durable-objects/site/command/kinds.ts -> drizzle-orm/d1',
      ],
      'worker/ imports only permitted paths': [
        'worker/app.ts -> ../durable-objects/site.ts',
        'worker/app.ts -> honoured',
        'worker/env.ts -> ../durable-objects/env.ts',
        'worker/env.ts -> ../bridge/link.ts',
        'worker/routes/sites.ts -> ../../durable-objects/object/turn.ts',
        'worker/link/dial.ts -> ../../durable-objects/vhost/lane/rows.ts',
      ],
      'worker/index.ts imports only permitted paths': [
        'worker/index.ts -> ../durable-objects/site.ts',
        'worker/index.ts -> node:fs',
        'worker/index.ts -> ../durable-objects/env.ts',
      ],
      'bridge/ imports only permitted paths': [
        'bridge/link.ts -> ../durable-objects/env.ts',
        'bridge/link.ts -> ../worker/env.ts',
        'bridge/tls.ts -> ../registry/schema.ts',
        'bridge/tls.ts -> cloudflare:workers',
        'bridge/tls.ts -> ../test/x.ts',
        'bridge/mqtt/wire/size.ts -> <computed>',
      ],
      'console/ imports only permitted paths': [
        'console/main.tsx -> react',
        'console/main.tsx -> ../worker/env.ts',
        'console/main.tsx -> ../dist/console/api.d.ts',
      ],
      'bridge/amqp/wire/ imports only permitted paths': [
        'bridge/amqp/wire/codec.ts -> ../../../tools/partner.ts',
      ],
      'durable-objects/object imports no Site, Vhost, registry, rpc, dial or env': [
        'durable-objects/object/turn.ts -> ../env.ts',
        'durable-objects/object/turn.ts -> ../rpc.ts',
        'durable-objects/object/turn.ts -> ../site.ts',
        'durable-objects/object/sql.ts -> ../../registry/schema.ts',
        'durable-objects/object/sql.ts -> ../vhost/lane/rows.ts',
      ],
      'only the classes of objects import cloudflare:workers': [
        'durable-objects/vhost/lane/rows.ts -> cloudflare:workers',
      ],
      'site and vhost do not import each other, except in rpc.ts': [
        'durable-objects/site.ts -> ./vhost.ts',
        'durable-objects/site.ts -> ./vhost/lane/rows.ts',
        'durable-objects/vhost.ts -> ./site',
        'durable-objects/vhost.ts -> ./site/command/constraints.ts',
        'durable-objects/env.ts -> ./site.ts',
        'durable-objects/env.ts -> ./vhost.ts',
        'durable-objects/site/command/constraints.ts -> ../../vhost.ts',
        'durable-objects/vhost/lane/rows.ts -> ../../site/command/rows.ts',
      ],
      'only the registry imports drizzle-orm and the schema of D1': [
        'protocol/ids.ts -> ../registry/schema.ts',
        'protocol/link/frames.ts -> drizzle-orm',
        'durable-objects/object/sql.ts -> ../../registry/schema.ts',
        'durable-objects/site/command/kinds.ts -> drizzle-orm/d1',
        'worker/routes/sites.ts -> ../../registry/schema.ts',
        'bridge/tls.ts -> ../registry/schema.ts',
        'tools/seed.ts -> drizzle-orm/d1',
      ],
      'only rows.ts and durable-objects/object use .sql.exec': [
        'durable-objects/site/command/constraints.ts:1',
        'worker/link/dial.ts:1',
      ],
      'only durable-objects/object-id.ts makes the ids of objects, so each is in the jurisdiction': [
        'worker/objects.ts:1',
        'worker/objects.ts:3',
      ],
      'bridge/amqp never imports bridge/mqtt': ['bridge/amqp/uplink.ts -> ../mqtt/broker.ts'],
      'bridge/mqtt never imports bridge/amqp': ['bridge/mqtt/broker.ts -> ../amqp/uplink.ts'],
      'bridge/amqp and bridge/mqtt take a duplex stream and open no sockets': [
        'bridge/amqp/uplink.ts -> net',
        'bridge/amqp/uplink.ts -> tls',
        'bridge/mqtt/broker.ts -> node:net',
        'bridge/mqtt/broker.ts -> node:tls',
      ],
      'only bridge/amqp/wire, the tools and the probe of a key mention amqplib': [
        'registry/schema.ts -> amqplib',
        'worker/app.ts -> amqplib',
        'bridge/amqp/uplink.ts -> /amqplib/lib/defs.js',
        'bridge/mqtt/wire/size.ts -> amqplib/callback_api',
      ],
      'a relative import includes the file extension': ['durable-objects/vhost.ts -> ./site'],
      'files do not import each other in a cycle, types included': [
        'durable-objects/site/command/constraints.ts -> durable-objects/vhost.ts -> durable-objects/site/command/constraints.ts',
        'bridge/link.ts -> worker/env.ts -> bridge/link.ts',
        'bridge/amqp/uplink.ts -> bridge/mqtt/broker.ts -> bridge/amqp/uplink.ts',
      ],
      'a folder of durable-objects/site imports only from folders below it': [
        'durable-objects/site/dispatch/sender.ts -> ../plan/stack.ts',
        'durable-objects/site/dispatch/sender.ts -> ../assemble.ts',
        'durable-objects/site/extra/new.ts is on no floor',
      ],
      'only durable-objects/site.ts imports the assembled site': [
        'durable-objects/site/dispatch/sender.ts -> ../assemble.ts',
      ],
      'only owners and kinds of a site know command types and actions': [
        'durable-objects/site/dispatch/sender.ts:2',
      ],
      'a file has at most 300 lines, and 400 if it is one class': ['tools/seed.ts: 301 lines'],
      'zod is imported as a namespace: the name `z` brings every language of its messages with it': [
        'tools/zod.ts:1',
      ],
      'the class of an object has at most 250 lines': [
        'durable-objects/site.ts: 251 lines',
        'durable-objects/vhost.ts: 300 lines',
      ],
    });
  });

  it('name only paths that exist in the compliant sample tree', () => {
    expect(pathsMissingIn(GOOD)).toEqual([]);
  });

  it('accept a tree without files', () => {
    expect(RULES.flatMap((rule) => rule.offenders([]))).toEqual([]);
  });
});

describe('the product', () => {
  const sources = readSources(PRODUCT.split(' '));

  it.each(RULES.map((rule) => [rule.title, rule] as const))('%s', (_title, rule) => {
    expect(rule.offenders(sources)).toEqual([]);
  });

  it('has each path that a rule names', () => {
    expect(pathsMissingIn(sources)).toEqual([]);
  });
});

function pathsMissingIn(sources: Source[]): string[] {
  const missing = RULES.flatMap(({ paths }) => paths).filter(
    // What a build writes is no source.
    (path) => !path.startsWith('dist/') && !sources.some(({ file }) => rules.isAmong(file, path)),
  );
  return [...new Set(missing)];
}
