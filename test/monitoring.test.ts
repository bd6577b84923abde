/**
 * docs/monitoring.md agrees with the running system: metrics with labels and values, log lines with levels
 * and fields.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestEdge } from '#support/bridge-edge.ts';
import { ADDRESS, TestCertificates, WholeBridge } from '#support/bridge-whole.ts';
import { codeOf, readTable } from '#support/doc-table.ts';
import { type Family, labelsOf, readExposition } from '#support/exposition.ts';
import { importsOf, loggedBy, readSources, stringsOf } from '#support/import-graph.ts';
import { HANDSHAKE_REASONS } from '../bridge/handshake-reasons.ts';
import { LINES as BRIDGE_LINES } from '../bridge/log.ts';
import { END_REASONS, REFUSAL_REASONS } from '../bridge/reasons.ts';

const DOCUMENT = 'monitoring.md';

/** Each table of metrics, and a page of them. The runtime provides the ones that `isForeign` names. */
const METRICS = [
  { heading: 'Metrics of the bridge', page: () => bridgePage(), isForeign: /^(process|nodejs)_/ },
];

/** Each table of log lines, and the closed list of log lines. */
const LINES: { heading: string; lines: Record<string, { level: string; fields: readonly string[] }> }[] = [
  { heading: 'Log lines of the bridge', lines: BRIDGE_LINES },
];

/** Each table of reasons, and the closed list of reasons. */
const REASONS: { heading: string; reasons: readonly string[] }[] = [
  { heading: 'Why clients are refused', reasons: REFUSAL_REASONS },
  { heading: 'Why connections end', reasons: END_REASONS },
  { heading: 'Why TLS handshakes fail', reasons: HANDSHAKE_REASONS },
];

let certificates: TestCertificates;
let edge: TestEdge;
let bridge: WholeBridge;

beforeAll(async () => {
  certificates = await TestCertificates.create();
  edge = await TestEdge.start();
  bridge = await WholeBridge.start(edge, certificates);
});
afterAll(async () => {
  await bridge.stop();
  await edge.stop();
  certificates.remove();
});

async function bridgePage(): Promise<string> {
  return await (await fetch(`http://${ADDRESS}:${bridge.ports.metrics}/metrics`)).text();
}

/**
 * The labels in a cell: `name`: value, value; … Values that are listed elsewhere, or are free, do not appear.
 */
function readLabels(cell: string): Record<string, string[] | undefined> {
  return Object.fromEntries(
    cell
      .split(';')
      .filter((one) => one.trim() !== '')
      .map((one) => {
        const [label = '', values = ''] = one.split(/: (.*)/);
        const isNamed = values !== '' && !values.startsWith('[');
        return [codeOf(label)[0] ?? '', isNamed ? values.trim().split(', ').sort() : undefined];
      }),
  );
}

describe.each(METRICS)('$heading', ({ heading, page, isForeign }) => {
  async function families(): Promise<Family[]> {
    return readExposition(await page()).filter(({ name }) => !isForeign.test(name));
  }

  it('are those of the document, with its types and labels', async () => {
    const documented = readTable(DOCUMENT, heading).map(([name = '', type, labels = '']) => [
      codeOf(name)[0],
      type,
      Object.keys(readLabels(labels)).sort(),
    ]);
    const exposed = (await families()).map((family) => [
      family.name,
      family.type,
      Object.keys(labelsOf(family)).sort(),
    ]);
    expect(documented.sort()).toEqual(exposed.sort());
  });

  it('have the label values of the document', async () => {
    const all = new Map((await families()).map((family) => [family.name, family]));
    for (const [name = '', , cell = ''] of readTable(DOCUMENT, heading)) {
      const labels = labelsOf(all.get(codeOf(name)[0] ?? '') as Family);
      for (const [label, values] of Object.entries(readLabels(cell)))
        if (values) expect([name, label, labels[label]]).toEqual([name, label, values]);
    }
  });
});

describe.each(LINES)('$heading', ({ heading, lines }) => {
  it('are those of the document, with its levels and fields', () => {
    const documented = readTable(DOCUMENT, heading).map(([line = '', level, fields = '', when]) => {
      expect(when).not.toBe('');
      return [codeOf(line)[0], { level, fields: codeOf(fields) }];
    });
    const written = Object.entries(lines).map(([line, { level, fields }]) => [
      line,
      { level, fields: [...fields] },
    ]);
    expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(written));
    expect(documented).toHaveLength(written.length);
  });
});

it.each(REASONS)('$heading: the document has each reason, and no other', ({ heading, reasons }) => {
  const documented = readTable(DOCUMENT, heading).map(([reason = '', meaning]) => {
    expect(meaning).not.toBe('');
    return codeOf(reason)[0];
  });
  expect(documented.sort()).toEqual([...reasons].sort());
});

describe('the list of the bridge’s log lines', () => {
  const sources = readSources(['bridge']);

  it('contains only lines that the bridge writes', () => {
    // Once in the list, and once where it is written.
    const said = sources.flatMap(stringsOf);
    const times = (line: string) => said.filter((one) => one === line).length;
    expect(Object.keys(BRIDGE_LINES).filter((line) => times(line) < 2)).toEqual([]);
  });

  it('is the only source of log lines', () => {
    const users = sources
      .flatMap(importsOf)
      .filter(({ specifier, typeOnly }) => specifier === 'pino' && !typeOnly);
    expect(users.map(({ file }) => file)).toEqual(['bridge/index.ts']);
    expect(sources.filter(({ text }) => /\bconsole\./.test(text)).map(({ file }) => file)).toEqual([]);
  });
});

describe('Log lines of the edge', () => {
  // Code that partners paste writes to their own logs.
  const sources = readSources(['worker', 'durable-objects']).filter(
    ({ file }) => file !== 'worker/lifecycle/code-samples.ts',
  );
  const written = sources.flatMap(loggedBy);

  it('are those of the document, with their levels and fields', () => {
    const documented = readTable(DOCUMENT, 'Log lines of the edge').map(
      ([line = '', level, fields = '', when]) => {
        expect(when).not.toBe('');
        return [codeOf(line)[0], level, codeOf(fields).join()];
      },
    );
    const lines = written.map(({ message, level, fields }) => [message, level, fields?.join()]);
    expect(lines.filter((line) => line.includes(undefined))).toEqual([]);
    expect([...new Set(lines.map((line) => line.join(' | ')))].sort()).toEqual(
      documented.map((line) => line.join(' | ')).sort(),
    );
  });
});
