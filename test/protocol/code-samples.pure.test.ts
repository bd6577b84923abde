/**
 * The code samples of a bundle with hostile facts: the shell, Node and Python read every fact back unchanged, and run
 * nothing of it [C-15.2].
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { PYTHON } from '#support/programs.ts';
import { codeSamples, type SampleFacts } from '../../worker/lifecycle/code-samples.ts';

const HOSTILE = [
  "';touch canary;'",
  '$(touch canary)`touch canary`',
  "'+require('node:fs').writeFileSync('canary','')+'",
  "'+open('canary','w').name+'",
  '\\',
  'a\nb',
  '"\u2028\u202e',
];
const NAMES = ['URI', 'SLUG', 'SITE_ID', 'SIGNING_KEY', 'KEY', 'REST'] as const;

function factsWith(text: string): SampleFacts {
  return {
    ...{ uri: `amqps://acme:${text}@localhost`, slug: 'acme', key: `sw_${text}`, signingKey: `0f${text}` },
    ...{ siteId: `site ${text}`, restUrl: `https://localhost/${text}`, mayRead: true, maySend: true },
    assets: [{ externalId: `BESS ${text}`, assetType: 'BESS' }],
  };
}

/** An empty folder, and what is in it later. */
function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-quoted-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The sample up to its first function: imports and constants. `shown`: what prints the constants as JSON. */
function constants(sample: string, comment: string, shown: string): string {
  const [head = ''] = sample.split(`\n${comment} The signed text`);
  const kept = head.split('\n').filter((line) => !/amqplib|pika/.test(line));
  return `${kept.join('\n')}\n${shown}\n`;
}

function expected({ uri, slug, siteId, signingKey, key, restUrl }: SampleFacts) {
  return [uri, slug, siteId, signingKey, key, restUrl];
}

describe('a code sample', () => {
  it('has the facts unchanged in Node, whatever they are [C-15.2]', () => {
    for (const text of HOSTILE) {
      const facts = factsWith(text);
      const { node } = codeSamples(facts);
      const cwd = emptyFolder();
      writeFileSync(join(cwd, 'sample.cjs'), node);
      const checked = spawnSync(process.execPath, ['--check', 'sample.cjs'], { cwd, encoding: 'utf8' });
      expect([text, checked.status]).toEqual([text, 0]);
      const program = constants(node, '//', `console.log(JSON.stringify([${NAMES.join(', ')}]))`);
      const output = execFileSync(process.execPath, ['-'], { cwd, input: program, encoding: 'utf8' });
      expect(JSON.parse(output)).toEqual(expected(facts));
      expect(readdirSync(cwd)).toEqual(['sample.cjs']);
    }
  });

  it('has the facts unchanged in Python, whatever they are [C-15.2]', () => {
    for (const text of HOSTILE) {
      const facts = factsWith(text);
      const { python } = codeSamples(facts);
      const cwd = emptyFolder();
      const compiled = spawnSync(PYTHON, ['-c', 'import sys; compile(sys.stdin.read(), "sample", "exec")'], {
        cwd,
        input: python,
        encoding: 'utf8',
      });
      expect([text, compiled.stderr]).toEqual([text, '']);
      const program = constants(python, '#', `print(json.dumps([${NAMES.join(', ')}]))`);
      const output = execFileSync(PYTHON, ['-'], { cwd, input: program, encoding: 'utf8' });
      expect(JSON.parse(output)).toEqual(expected(facts));
      expect(readdirSync(cwd)).toEqual([]);
    }
  });

  it('passes key and address to curl unchanged, whatever they are [C-15.2]', () => {
    for (const text of HOSTILE) {
      const facts = factsWith(text);
      const cwd = emptyFolder();
      // The function has the name of the program, so the shell passes it what curl would get.
      const program = `curl() { printf '%s\\0' "$@"; }\n${codeSamples(facts).curl}`;
      const output = execFileSync('sh', [], { cwd, input: program, encoding: 'utf8' });
      expect(output.split('\0')).toEqual(['-sS', '-H', `X-API-Key: ${facts.key}`, facts.restUrl, '']);
      expect(readdirSync(cwd)).toEqual([]);
    }
  });
});
