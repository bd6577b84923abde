/**
 * Hints for device makers about readings that do not fit the device's template [C-11.6]. The platform stores such
 * readings all the same. Pure.
 */
import { cut } from '../../protocol/cut.ts';
import { type DeviceTemplateRecord, signalFault } from '../../protocol/device-template.ts';

const SHOWN = 5;
const NAME_CHARS = 80;

/**
 * `readings`: the last value of each signal, by the name that the device uses. `own`: the template for names without a
 * sub-device.
 */
export function templateHints(
  readings: Readonly<Record<string, number>>,
  own: DeviceTemplateRecord | undefined,
  bySubDevice: ReadonlyMap<string, DeviceTemplateRecord>,
): string[] {
  const unnamed: string[] = [];
  const unfit: string[] = [];
  for (const [name, value] of Object.entries(readings)) {
    const slash = name.indexOf('/');
    const template = slash < 0 ? own : bySubDevice.get(name.slice(0, slash));
    if (!template) continue;
    const signal = template.signals.find((one) => one.name === name.slice(slash + 1));
    const fault = signal && signalFault(signal, value);
    if (!signal) unnamed.push(cut(name, NAME_CHARS));
    else if (fault) unfit.push(`${cut(name, NAME_CHARS)} ${value} ${fault}`);
  }
  return [
    ...hint(unnamed, 'signal', 'not in the template', 'correct the name, or add it to the template'),
    ...hint(unfit, 'value', 'not as in the template', 'correct the value, or change the template'),
  ];
}

function hint(found: readonly string[], thing: string, what: string, remedy: string): string[] {
  if (found.length === 0) return [];
  const count = found.length === 1 ? `1 ${thing} is` : `${found.length} ${thing}s are`;
  const more = found.length > SHOWN ? `, and ${found.length - SHOWN} more` : '';
  return [`${count} ${what}: ${found.slice(0, SHOWN).join(', ')}${more}: ${remedy}`];
}
