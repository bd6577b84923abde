/**
 * Parses Prometheus' text format as strictly as a scraper: each metric once, its help and type before its
 * samples.
 */
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

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/y;

export function readExposition(text: string): Family[] {
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  const families: Family[] = [];
  const known = new Set<string>();
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const [, comment, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    const family = families.at(-1);
    if (comment === 'HELP') {
      if (known.has(name)) throw new Error(`${name} comes twice`);
      known.add(name);
      families.push({ name, type: '', help: rest, samples: [] });
    } else if (comment === 'TYPE') {
      if (family?.name !== name || family.type !== '') throw new Error(`out of place: ${line}`);
      family.type = rest;
    } else addSample(family, line);
  }
  return families;
}

/** Keyed by name. */
export function parseExposition(text: string): Map<string, Family> {
  return new Map(readExposition(text).map((family) => [family.name, family]));
}

function addSample(family: Family | undefined, line: string): void {
  const [, name = '', text = '', number = ''] = SAMPLE.exec(line) ?? [];
  if (!family?.type || !isOf(family, name)) throw new Error(`a sample of no family: ${line}`);
  const labels = readLabels(text);
  const key = JSON.stringify([name, labels]);
  if (family.samples.some((one) => JSON.stringify([one.name, one.labels]) === key))
    throw new Error(`twice: ${line}`);
  const value = number === '+Inf' ? Number.POSITIVE_INFINITY : Number(number);
  if (Number.isNaN(value) && number.toLowerCase() !== 'nan') throw new Error(`not a number: ${line}`);
  family.samples.push({ name, labels, value });
}

/** The samples of a histogram or summary have names with suffixes. */
function isOf({ name, type }: Family, sample: string): boolean {
  if (sample === name) return type !== 'histogram';
  const ends =
    type === 'histogram' ? /^_(bucket|sum|count)$/ : type === 'summary' ? /^_(sum|count)$/ : undefined;
  return sample.startsWith(name) && ends?.test(sample.slice(name.length)) === true;
}

function readLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  LABEL.lastIndex = 0;
  let end = 0;
  for (let match = LABEL.exec(text); match; match = LABEL.exec(text)) {
    const [, name = '', value = ''] = match;
    labels[name] = value.replace(/\\(.)/g, (_all, one: string) => (one === 'n' ? '\n' : one));
    end = LABEL.lastIndex;
  }
  if (end !== text.length) throw new Error(`labels that cannot be read: ${text}`);
  return labels;
}

/** The labels of a metric and the values of each, except the labels that only histograms have. */
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
