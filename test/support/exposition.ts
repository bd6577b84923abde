/** Prometheus's text format, read as strictly as a scraper does. */
export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export interface Family {
  name: string;
  type: string;
  help: string;
  samples: Sample[];
}

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?/g;

export function readExposition(text: string): Family[] {
  const families: Family[] = [];
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const [, comment, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    const family = families.at(-1);
    if (comment === 'HELP') families.push({ name, type: '', help: rest, samples: [] });
    else if (comment === 'TYPE' && family?.name === name) family.type = rest;
    else if (comment === 'TYPE') throw new Error(`a type without its help: ${line}`);
    else if (family) family.samples.push(readSample(line, family));
    else throw new Error(`a sample of no family: ${line}`);
  }
  return families;
}

function readSample(line: string, family: Family): Sample {
  const [, name = '', labels = '', value] = SAMPLE.exec(line) ?? [];
  const isOfFamily =
    name === family.name ||
    (family.type === 'histogram' && /^_(bucket|sum|count)$/.test(name.slice(family.name.length)));
  if (!isOfFamily || !name.startsWith(family.name))
    throw new Error(`not a sample of ${family.name}: ${line}`);
  const pairs = [...labels.matchAll(LABEL)].map(([, label = '', text = '']) => [label, text]);
  const number = value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value);
  if (Number.isNaN(number) && value?.toLowerCase() !== 'nan') throw new Error(`not a number: ${line}`);
  return { name, labels: Object.fromEntries(pairs), value: number };
}

/** The labels of a family and the values that each has; what is a histogram's own is none. */
export function labelsOf({ samples }: Family): Record<string, string[]> {
  const found: Record<string, Set<string>> = {};
  for (const { labels } of samples) {
    for (const [name, value] of Object.entries(labels)) {
      if (name === 'le') continue;
      found[name] ??= new Set();
      found[name].add(value);
    }
  }
  return Object.fromEntries(Object.entries(found).map(([name, values]) => [name, [...values].sort()]));
}
