/**
 * The calls that the console offers to copy, run as pasted by real shells, Node and Python: whatever text a command has,
 * they send it unchanged, and run nothing of it [C-15.2].
 */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasPrograms, PYTHON, skippedWithout } from '#support/programs.ts';
import type { Command } from '../../console/api/types.ts';
import { snippets } from '../../console/screens/snippets.ts';

const SITE_ID = '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10';
const KEY = 'sw_test';

/** Each leaves a file named `canary`, fails or changes if a language reads it as code. */
const HOSTILE = [
  "'",
  '"',
  "';touch canary;'",
  '";touch canary;"',
  '$(touch canary)',
  '`touch canary`',
  '\\',
  "\\'",
  '\\";touch canary #',
  '$KEY !! ~ * ?',
  '\ntouch canary\n',
  '\r\n\ttouch canary',
  '"}) | input_filename, ("',
  "'+require('node:fs').writeFileSync('canary','')+'",
  "'+(await import('node:fs')).writeFileSync('canary','')+'",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it must stay a plain text.
  '${(await import("node:fs")).writeFileSync("canary","")}',
  '"+open("canary","w").name+"',
  "'+open('canary','w').name+'",
  '""" \'\'\' # // /* {0} %s \\N{BULLET} \\x41 \\u0041 \\101',
  '\u0000\u0007\u001b[31m\u007f\u0085\u2028\u2029\u202e\u2066\ufeff',
  'č€😀',
  '@/etc/hostname',
  '</script><!--',
] as const;

/** Payloads whose names mean something to a language. */
const PAYLOADS = [
  '{"__proto__":{"type":"POWER"},"type":"STOP"}',
  '{"constructor":{"prototype":1},"toString":"x"}',
  '{"a":true,"b":null,"c":[1,2.5,-3e-7],"d":{}}',
];

interface Runner {
  label: string;
  file: string;
  command: string;
}

const RUNNERS: Record<string, Runner> = {
  bash: { label: 'curl', file: 'call.sh', command: 'bash' },
  'the POSIX shell': { label: 'curl', file: 'call.sh', command: 'sh' },
  Node: { label: 'Node', file: 'call.mjs', command: process.execPath },
  Python: { label: 'Python', file: 'call.py', command: PYTHON },
};

const MISSING = ['bash', 'jq', 'curl'].filter((name) => !hasPrograms(name));

let server: Server;
let folder: string;
let origin: string;
let received: { path: string; key: unknown; body: string }[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sitewire-snippets-'));
  mkdirSync(join(folder, 'bin'));
  // Debian has uuidgen in a package of its own.
  if (!hasPrograms('uuidgen')) {
    const script = `#!/bin/sh\nexec '${process.execPath}' -p 'crypto.randomUUID()'\n`;
    writeFileSync(join(folder, 'bin', 'uuidgen'), script, { mode: 0o755 });
  }
  server = createServer((request, response) => {
    request.setEncoding('utf8');
    let body = '';
    request.on('data', (part: string) => {
      body += part;
    });
    request.on('end', () => {
      received.push({ path: request.url ?? '', key: request.headers['x-api-key'], body });
      response.setHeader('content-type', 'application/json');
      response.end('{"ok":true}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

function commandOf(routingKey: string, payload: unknown): Command {
  return { siteId: SITE_ID, routingKey, payload } as Command;
}

interface Outcome {
  code: number;
  errors: string;
  requests: typeof received;
  files: string[];
}

/** Runs the call of a command in an empty folder. */
async function run({ label, file, command }: Runner, given: Command): Promise<Outcome> {
  const text = snippets(given, origin).find((one) => one.label === label)?.text ?? '';
  const place = mkdtempSync(join(folder, 'run-'));
  writeFileSync(join(place, file), text);
  received = [];
  const env = { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, KEY, PYTHONDONTWRITEBYTECODE: '1' };
  return await new Promise((resolve) => {
    execFile(command, [file], { cwd: place, env, timeout: 10_000 }, (error, _output, errors) => {
      const code = error ? Number(error.code ?? -1) : 0;
      resolve({ code, errors, requests: received, files: readdirSync(place).filter((one) => one !== file) });
    });
  });
}

/** What the receiver read: one request with the command's own texts. */
function readBy({ code, errors, requests, files }: Outcome) {
  const [{ path, key, body } = { path: '', key: '', body: '{}' }] = requests;
  const { routingKey, message = '{}' } = JSON.parse(body) as { routingKey?: string; message?: string };
  const { siteId, payload } = JSON.parse(message) as { siteId?: string; payload?: unknown };
  return { code, errors, files, count: requests.length, path, key, routingKey, siteId, payload };
}

describe.skipIf(MISSING.length > 0)(`a call to copy${skippedWithout(MISSING)}`, () => {
  for (const [name, runner] of Object.entries(RUNNERS)) {
    it(`sends hostile texts unchanged in ${name}, and runs nothing of them [C-15.2]`, async () => {
      for (const text of HOSTILE) {
        const given = commandOf(`acme.command.device.${text}`, {
          [text]: text,
          list: [text, { deep: text }],
        });
        expect({ text, ...readBy(await run(runner, given)) }).toEqual({
          ...{ text, code: 0, errors: '', files: [], count: 1, key: KEY },
          ...{ path: `/api/v1/vcp/sites/${SITE_ID}/commands`, siteId: SITE_ID },
          ...{ routingKey: given.routingKey, payload: given.payload },
        });
      }
    });

    it(`sends every member of a payload in ${name}, also \`__proto__\` [C-15.2]`, async () => {
      for (const payload of PAYLOADS) {
        const given = commandOf('acme.command.device', JSON.parse(payload));
        const { code, errors, payload: sent } = readBy(await run(runner, given));
        expect([code, errors, JSON.stringify(sent)]).toEqual([0, '', JSON.stringify(JSON.parse(payload))]);
      }
    });
  }
});
