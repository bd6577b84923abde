/**
 * The objects against the floor: what an operation of one Site and of one Vhost costs, divided by what it costs a Worker
 * of the same shape without logic, in the same run. CPU is that of workerd; files on disk and in memory.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Figure, report } from './figures.ts';
import { startFloor } from './object-floor.ts';
import { measurePaths, warmUp } from './object-paths.ts';
import { startProduct } from './object-product.ts';
import { alternate, compared, ROUNDS } from './sides.ts';

const PLACES: Readonly<Record<string, string>> = { disk: tmpdir(), memory: '/dev/shm' };
/** Where the files are in this run. */
const WANTED = (process.env.SITEWIRE_BENCH_FILES ?? 'disk,memory').split(',');

export async function benchObjects(): Promise<void> {
  const figures: Figure[] = [];
  for (const place of WANTED) {
    const parent = PLACES[place];
    if (!parent)
      throw new Error(`Unknown place of files "${place}": use ${Object.keys(PLACES).join(' or ')}`);
    for (const figure of await compareObjects(parent))
      figures.push({ ...figure, name: `${place}: ${figure.name}` });
  }
  report('objects', `one Site and one Vhost against the floor, ${ROUNDS} rounds in turn`, figures);
}

async function compareObjects(parent: string): Promise<Figure[]> {
  const folder = mkdtempSync(join(parent, 'sitewire-bench-floor-'));
  const product = await startProduct(parent);
  const floor = await startFloor(folder);
  try {
    const sides = [product, floor];
    for (const side of sides) await warmUp(side);
    const [ours = [], floors = []] = await alternate(sides, measurePaths);
    return compared(ours, floors, 'floor', {
      'CPU per command of a Vhost, each to its own Site, 100 per batch': '≤ 3',
    });
  } finally {
    await floor.stop();
    await product.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
