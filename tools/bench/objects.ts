/**
 * The objects against the floor: what an operation of one Site and of one Vhost costs, divided by what it costs a Worker
 * of the same shape without logic, in the same run. CPU is that of workerd; files on disk and in memory.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startFloor } from './object-floor.ts';
import { measurePaths, type ObjectSide, warmUp } from './object-paths.ts';
import { startProduct } from './object-product.ts';
import { compared, ROUNDS, type Sides } from './runner.ts';

const PLACES: Readonly<Record<string, string>> = { disk: tmpdir(), memory: '/dev/shm' };
/** Where the files are in this run. */
const WANTED = (process.env.SITEWIRE_BENCH_FILES ?? 'disk,memory').split(',');

export const objects = WANTED.map((place) => {
  const parent = PLACES[place];
  if (!parent) throw new Error(`Unknown place of files "${place}": use ${Object.keys(PLACES).join(' or ')}`);
  return compared({
    title: `one Site and one Vhost against the floor, files: ${place}, ${ROUNDS} rounds in turn`,
    aims: { 'CPU per command of a Vhost, each to its own Site, 100 per batch': '≤ 3' },
    other: 'floor',
    start: () => againstFloor(parent),
    load: async (side) => side,
    warmUp,
    measure: measurePaths,
  });
});

async function againstFloor(parent: string): Promise<Sides<ObjectSide>> {
  const folder = mkdtempSync(join(parent, 'sitewire-bench-floor-'));
  const product = await startProduct(parent);
  const floor = await startFloor(folder);
  const stop = async () => {
    await floor.stop();
    await product.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { sides: [product, floor], stop };
}
