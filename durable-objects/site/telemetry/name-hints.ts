/**
 * Hints for device makers about signal names that the platform stores but does not use [C-3.8], [C-3.13]: most of them
 * are misspelt. Pure.
 */
import { SUB_DEVICE_SIGNALS } from '../../../protocol/asset.ts';
import { cut } from '../../../protocol/cut.ts';
import { recentSamples, type Sample, type SignalOrigin } from './snapshot.ts';

const SHOWN_NAMES = 5;
const NAME_CHARS = 80;

/** The hints for one device, from the latest samples of its site. */
export function nameHints(
  samples: Readonly<Record<string, Sample>>,
  origin: SignalOrigin,
  isSubDevice: (externalId: string) => boolean,
  now: number,
): string[] {
  const recent = recentSamples(samples, now).map(([metric]) => metric);
  const own = `@${origin.deviceId}/`;
  const foreign = recent
    .filter((metric) => metric.startsWith(own) && metric.indexOf('/', own.length) > 0)
    .map((metric) => metric.slice(own.length));
  const named = origin.servesSite ? recent.filter((metric) => /^[^@/][^/]*\//.test(metric)) : [];
  const strangers = named.filter((metric) => !isSubDevice(prefixOf(metric)));
  const misspelt = named.flatMap((metric) => {
    const signal = metric.slice(prefixOf(metric).length + 1);
    const meant = SUB_DEVICE_SIGNALS.find((known) => known.toLowerCase() === signal.toLowerCase());
    return meant && meant !== signal && isSubDevice(prefixOf(metric)) ? [`${metric} (${meant})`] : [];
  });
  return [
    ...hint(strangers, 'belong to no sub-device', 'register the sub-device, or correct the name'),
    ...hint(misspelt, 'are not in the standard spelling', 'use the spelling in brackets'),
    ...hint(foreign, 'are of other sub-devices', 'only a gateway or controller may report them'),
  ];
}

function prefixOf(metric: string): string {
  return metric.slice(0, metric.indexOf('/'));
}

function hint(names: readonly string[], what: string, remedy: string): string[] {
  if (names.length === 0) return [];
  const more = names.length > SHOWN_NAMES ? `, and ${names.length - SHOWN_NAMES} more` : '';
  const shown = names
    .slice(0, SHOWN_NAMES)
    .map((name) => cut(name, NAME_CHARS))
    .join(', ');
  const count = names.length === 1 ? `1 name ${singular(what)}` : `${names.length} names ${what}`;
  return [`${count}: ${shown}${more}: ${remedy}`];
}

function singular(what: string): string {
  return what.replace(/^belong/, 'belongs').replace(/^are/, 'is');
}
