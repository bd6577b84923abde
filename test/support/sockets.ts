/** The TCP connections of a port on this machine, as the kernel lists them. */
import { readFileSync } from 'node:fs';

const LISTEN = '0A';
const TIME_WAIT = '06';

/** The connections to that port with an end held by some process: neither listening nor in TIME_WAIT. */
export function heldConnections(port: number): number {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  const lines = ['tcp', 'tcp6'].flatMap((table) => {
    try {
      return readFileSync(`/proc/net/${table}`, 'utf8').split('\n').slice(1);
    } catch {
      return [];
    }
  });
  return lines.filter((line) => {
    const [, local = '', , state] = line.trim().split(/\s+/);
    return local.endsWith(`:${hex}`) && state !== LISTEN && state !== TIME_WAIT;
  }).length;
}
