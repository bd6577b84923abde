/**
 * P5: memory of the bridge per idle device with TLS to the client, and how many devices can connect per
 * second, authenticated. One device of each plant is its gateway and is sent its configuration; no device
 * answers commands.
 */
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { connect, createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';
import type { BenchStack } from './bench-stack.ts';
import { processCpuMs } from './figures.ts';
import { memoryOf } from './process-figures.ts';
import { alone, type Measured } from './runner.ts';

const DEVICES_PER_PLANT = 100;
const COUNTS = [1_000, 5_000];
/** Concurrent connects, from many addresses: the bridge opens at most eight links at once for one address. */
const AT_ONCE = 64;
const ADDRESSES = 200;
/** Wait until the garbage of the connects has been collected. */
const SETTLE_MS = 20_000;

export const idle = alone({
  title: `idle devices, ${DEVICES_PER_PLANT} per plant, TLS to the bridge, plain HTTP from there to the edge`,
  aims: { 'connects, up to': '≥ 200', 'bridge per added device': '≤ 120' },
  stack: {
    organizations: [
      {
        slug: 'acme',
        plants: Math.max(...COUNTS) / DEVICES_PER_PLANT,
        moreDevices: DEVICES_PER_PLANT - 1,
        moreType: 'SENSOR',
      },
    ],
    pinned: false,
  },
  measure,
});

async function measure(stack: BenchStack): Promise<Measured> {
  const [organization] = stack.organizations;
  const devices = stack.plants.flatMap((plant) => [
    plant.gateway,
    ...(organization?.moreDevices.get(plant.id) ?? []),
  ]);
  const edgePid = stack.edge.pid() ?? 0;
  // All clients share one TLS context, because parsing the authority's PEM for each client would slow down
  // the load generator.
  const secureContext = createSecureContext({ ca: stack.ca });
  const measured: Record<string, { value: number; unit: string }> = {};
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
    Object.assign(measured, {
      [`connects, up to ${count}`]: { value: wanted.length / seconds, unit: '/s' },
      [`CPU of edge and bridge per connect, up to ${count}`]: { value: cpuMs / wanted.length, unit: 'ms' },
      [`bridge per added device up to ${count}`]: { value: perDevice('bridge'), unit: 'KB' },
      [`workerd per added device up to ${count}`]: { value: perDevice('edge'), unit: 'KB' },
    });
    last = now;
  }
  const gone = sockets.filter((socket) => socket.destroyed).length;
  for (const socket of sockets) socket.destroy();
  return { ...measured, 'sessions lost during the run': { value: gone, unit: '' } };
}

/** Opens a session like any client, but without the memory that a client library needs. */
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
