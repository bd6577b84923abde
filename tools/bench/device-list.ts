/** Device lists: whether reading a page takes longer when there are more devices. */
import { AdminClient } from '../admin-client.ts';
import { startBenchStack } from './bench-stack.ts';
import { percentile, report } from './figures.ts';

const COUNTS = [100, 10_000];
const READS = 300;
const AT_ONCE = 16;

export async function benchDeviceList(): Promise<void> {
  const stack = await startBenchStack({ plants: 1 });
  const admin = await AdminClient.enter(stack.edge.url, stack.login);
  let there = 1;
  const figures = [];
  const p50 = new Map<number, number>();
  for (const count of COUNTS) {
    const missing = Array.from({ length: count - there }, (_, index) => there + index).values();
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (const number of missing) {
          const serialNumber = `SN-${number}`;
          await admin.call('POST', '/devices', { name: serialNumber, serialNumber, type: 'SENSOR' });
        }
      }),
    );
    there = count;
    const read = async (page: number) => {
      const started = performance.now();
      await admin.call('GET', `/devices?limit=20&page=${page}`);
      return performance.now() - started;
    };
    const last = count / 20;
    const times: Record<'first' | 'last', number[]> = { first: [], last: [] };
    for (let index = 0; index < READS; index++) {
      times.first.push(await read(1));
      times.last.push(await read(last));
    }
    p50.set(count, percentile(times.first, 0.5));
    figures.push(
      { name: `first page of ${count}, p50`, value: percentile(times.first, 0.5), unit: 'ms' },
      { name: `last page of ${count}, p50`, value: percentile(times.last, 0.5), unit: 'ms' },
    );
  }
  await stack.stop();
  const [few = 0, many = 0] = COUNTS.map((count) => p50.get(count));
  const ratio = { name: 'first page, many / few', value: many / few, unit: '×', target: 'constant' };
  report('devices', 'GET /devices, 20 a page, one request at a time', [...figures, ratio]);
}
