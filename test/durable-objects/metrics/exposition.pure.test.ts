/** Prometheus' text format, as the edge writes it. */
import { expect, it } from 'vitest';
import { parseExposition } from '#support/exposition.ts';
import { familyText } from '../../../durable-objects/metrics/expose.ts';
import { FAMILIES, type Family } from '../../../durable-objects/metrics/families.ts';

const FAMILY: Family = { name: 'sitewire_edge_x', type: 'gauge', help: 'What \\ it\nis', labels: ['a', 'b'] };

it('a metric family is written as its help, its type and one line for each sample', () => {
  const text = familyText({ ...FAMILY, help: 'What it is' }, [
    { values: ['1', '2'], value: 3 },
    { values: ['4', '5'], value: 0.25 },
  ]);
  expect(text).toBe(`# HELP sitewire_edge_x What it is
# TYPE sitewire_edge_x gauge
sitewire_edge_x{a="1",b="2"} 3
sitewire_edge_x{a="4",b="5"} 0.25
`);
});

it('a sample without labels has no braces', () => {
  expect(familyText({ ...FAMILY, labels: [] }, [{ values: [], value: 0 }])).toContain(
    '\nsitewire_edge_x 0\n',
  );
});

it('a scraper reads back any queue name: quotes, backslashes, line ends, braces', () => {
  for (const name of ['plain', 'a"b', 'a\\', '\\"', 'a\nb', 'a{b="c"} 7', '"', '\\n', 'žluť', ' ', '']) {
    const text = familyText(FAMILY, [{ values: [name, 'x'], value: 1 }]);
    expect(text.split('\n')).toHaveLength(4);
    const family = parseExposition(text).get('sitewire_edge_x');
    expect(family?.samples).toMatchObject([{ labels: { a: name, b: 'x' }, value: 1 }]);
  }
});

it.each(FAMILIES.map((family) => [family.name, family] as const))(
  "%s has a name, a help text and labels in Prometheus' style",
  (name, { type, help, labels }) => {
    expect(name).toMatch(/^sitewire_edge_[a-z]+(_[a-z]+)*$/);
    expect(name.endsWith('_total')).toBe(type === 'counter');
    expect(help).toMatch(/^[A-Z].*[^.]$/);
    for (const label of labels) expect(label).toMatch(/^[a-z]+$/);
  },
);
