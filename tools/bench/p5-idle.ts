/**
 * P5: what an idle device costs the bridge, TLS to it, and how many connect a second, authenticated, on what there is.
 * Of each plant's devices one is its gateway: nobody here answers a command, and each gateway is sent its configuration.
 */
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { connect, createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';
import { startBenchStack } from './bench-stack.ts';
import { type Figure, processCpuMs, report } from './figures.ts';
import { memoryOf } from './process-figures.ts';

const DEVICES_PER_PLANT = 100;
const COUNTS = [1_000, 5_000];
/** Connects under way at once, from so many addresses: the bridge dials eight at a time for one. */
const AT_ONCE = 64;
const ADDRESSES = 200;
/** Until what the connects left behind has been collected. */
const SETTLE_MS = 20_000;

/** The other leg as well: TLS between bridge and edge. */
export async function benchIdleTls(): Promise<void> {
  await benchIdle(undefined, true);
}

export async function benchIdle(_minutes?: number, edgeTls = false): Promise<void> {
  const most = Math.max(...COUNTS);
  const plants = most / DEVICES_PER_PLANT;
  const stack = await startBenchStack({
    organizations: [{ slug: 'acme', plants, moreDevices: DEVICES_PER_PLANT - 1, moreType: 'SENSOR' }],
    pinned: false,
    edgeTls,
  });
  const [organization] = stack.organizations;
  const devices = stack.plants.flatMap((plant) => [
    plant.gateway,
    ...(organization?.moreDevices.get(plant.id) ?? []),
  ]);
  const edgePid = stack.edge.pid() ?? 0;
  // Once: what each client would make of the authority's PEM again is no cost of ours.
  const secureContext = createSecureContext({ ca: stack.ca });
  const figures: Figure[] = [];
  const sockets: TLSSocket[] = [];
  const base = { bridge: memoryOf(stack.bridgePid).rss, edge: memoryOf(edgePid).rss };
  let last = { count: 0, ...base };
  for (const count of COUNTS) {
    const cpuBefore = processCpuMs(stack.bridgePid) + processCpuMs(edgePid);
    const started = performance.now();
    const wanted = devices.slice(sockets.length, count);
    const queue = wanted.entries();
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (const [index, { id, token }] of queue) {
          const localAddress = `127.0.0.${2 + (index % ADDRESSES)}`;
          sockets.push(await logIn(stack.ports.mqtts, secureContext, localAddress, id, token));
        }
      }),
    );
    const seconds = (performance.now() - started) / 1_000;
    const cpuMs = processCpuMs(stack.bridgePid) + processCpuMs(edgePid) - cpuBefore;
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    const now = { count, bridge: memoryOf(stack.bridgePid).rss, edge: memoryOf(edgePid).rss };
    const perDevice = (part: 'bridge' | 'edge') => ((now[part] - last[part]) * 1_024) / (count - last.count);
    figures.push(
      { name: `connects, up to ${count}`, value: wanted.length / seconds, unit: '/s', target: '≥ 200' },
      { name: 'CPU of edge and bridge a connect', value: cpuMs / wanted.length, unit: 'ms' },
      {
        name: `bridge, a device more up to ${count}`,
        value: perDevice('bridge'),
        unit: 'KB',
        target: '≤ 120',
      },
      { name: 'workerd, a device more', value: perDevice('edge'), unit: 'KB' },
    );
    last = now;
  }
  const gone = sockets.filter((socket) => socket.destroyed).length;
  figures.push({ name: 'sessions that ended meanwhile', value: gone, unit: '' });
  for (const socket of sockets) socket.destroy();
  await stack.stop();
  report(
    edgeTls ? 'p5-tls' : 'p5',
    `idle devices, ${DEVICES_PER_PLANT} a plant, TLS to the bridge, ${edgeTls ? 'and from there' : 'plain HTTP from there'} to the edge`,
    figures,
  );
}

/** A session as any client opens it, without the memory of a client. */
async function logIn(
  port: number,
  secureContext: SecureContext,
  localAddress: string,
  id: string,
  token: string,
): Promise<TLSSocket> {
  const plain = connectTcp({ host: '127.0.0.1', port, localAddress });
  const socket = connect({ socket: plain, secureContext, servername: 'localhost' });
  await once(socket, 'secureConnect');
  socket.write(connectPacket(id, token));
  let answer = Buffer.alloc(0);
  while (answer.length < 4) answer = Buffer.concat([answer, ...((await once(socket, 'data')) as [Buffer])]);
  if (answer[0] !== 0x20 || answer[3] !== 0) throw new Error(`CONNACK ${answer[3]}`);
  socket.on('error', () => {});
  return socket;
}

/** MQTT 3.1.1, clean session, keep-alive 300 s. */
function connectPacket(id: string, token: string): Buffer {
  const text = (value: string) => {
    const bytes = Buffer.from(value);
    return Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 0xff]), bytes]);
  };
  const flags = 0b1100_0010;
  const variable = Buffer.concat([text('MQTT'), Buffer.from([4, flags, 1, 44])]);
  const body = Buffer.concat([variable, text(id), text(id), text(token)]);
  const length: number[] = [];
  for (let rest = body.length; ; rest >>= 7) {
    length.push(rest > 127 ? (rest & 127) | 128 : rest);
    if (rest <= 127) break;
  }
  return Buffer.concat([Buffer.from([0x10, ...length]), body]);
}
