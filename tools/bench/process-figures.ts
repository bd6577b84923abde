/**
 * Resources of a process, measured from outside: memory by kind, descriptors, files on disk, the JavaScript
 * heap.
 */
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Miniflare } from 'miniflare';
import type { Edge } from '../edge.ts';

const MIB = 1_024 * 1_024;

export interface ProcessMemory {
  /** Resident memory, MiB. */
  rss: number;
  /** The part that is not backed by a file: JavaScript and native heaps, and stacks. */
  anonymous: number;
}

export function memoryOf(pid: number): ProcessMemory {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const mib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1_024;
  return { rss: mib('VmRSS'), anonymous: mib('RssAnon') };
}

/** User and system time of the threads of a process so far, in ms; more exact than its own counter of 10 ms. */
export function threadsCpuMs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const ns = threads.map((id) =>
    Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]),
  );
  return ns.reduce((total, one) => total + one, 0) / 1_000_000;
}

/** How long ago the process started; in steps of 10 ms. */
export function ageMs(pid: number): number {
  const startTicks = Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[19]);
  const uptimeSeconds = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]);
  return uptimeSeconds * 1_000 - startTicks * 10;
}

/** A process and all its descendants that run now. */
export function treeOf(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const parent = Number(readFileSync(`/proc/${entry}/stat`, 'utf8').split(') ')[1]?.split(' ')[1]);
      children.set(parent, [...(children.get(parent) ?? []), Number(entry)]);
    } catch {
      // The process has ended in the meantime.
    }
  }
  const tree: number[] = [];
  for (let open = [root]; open.length > 0; open = open.flatMap((pid) => children.get(pid) ?? []))
    tree.push(...open);
  return tree;
}

export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Counts the objects that are in memory: each has its database file open. */
export function objectsInMemory(pid: number): { sites: number; vhosts: number } {
  const open = new Set<string>();
  for (const name of readdirSync(`/proc/${pid}/fd`)) {
    const file = linkOf(`/proc/${pid}/fd/${name}`);
    if (/-(Site|Vhost)\/[0-9a-f]{64}\.sqlite$/.test(file)) open.add(file);
  }
  const sites = [...open].filter((file) => file.includes('-Site/')).length;
  return { sites, vhosts: open.size - sites };
}

/** Size of the databases and of their write-ahead logs, MiB. */
export function diskOf(folder: string): { data: number; log: number } {
  const sizes = { data: 0, log: 0 };
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    try {
      const { size } = statSync(join(entry.parentPath, entry.name));
      if (entry.name.endsWith('-wal')) sizes.log += size / MIB;
      else if (entry.name.endsWith('.sqlite')) sizes.data += size / MIB;
    } catch {
      // The file was deleted after the folder was listed.
    }
  }
  return sizes;
}

/** Used JavaScript heap of the product in workerd, MiB, including garbage that is not collected yet. */
export async function edgeHeap({ miniflare }: Pick<Edge, 'miniflare'>): Promise<number> {
  const list = await targets(miniflare);
  const target = list.find(({ id }) => id.startsWith('core:user'));
  if (!target) throw new Error(`workerd has no user worker among ${list.map(({ id }) => id).join(', ')}`);
  const { usedSize } = await ask<{ usedSize: number }>(target, 'Runtime.getHeapUsage');
  return usedSize / MIB;
}

/** Makes each Worker of this workerd collect its garbage, by a heap snapshot: it answers no other request for that. */
export async function collectGarbage(miniflare: Miniflare): Promise<void> {
  for (const target of await targets(miniflare)) {
    await ask(target, 'HeapProfiler.takeHeapSnapshot', { reportProgress: false });
  }
}

async function targets(miniflare: Miniflare): Promise<InspectorTarget[]> {
  const { host } = await miniflare.getInspectorURL();
  return (await (await fetch(`http://${host}/json`)).json()) as InspectorTarget[];
}

/** Sends one request to a Worker's inspector. */
async function ask<Result>(target: InspectorTarget, method: string, params = {}): Promise<Result> {
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  try {
    return await new Promise((resolve, reject) => {
      socket.onopen = () => socket.send(JSON.stringify({ id: 1, method, params }));
      socket.onerror = () =>
        reject(new Error('the inspector of workerd closed the connection or refused it'));
      socket.onmessage = ({ data }) => {
        const { id, result } = JSON.parse(String(data));
        if (id === 1) resolve(result);
      };
    });
  } finally {
    socket.close();
  }
}

/** Used JavaScript heap of the bridge, MiB, from its metrics. */
export async function bridgeHeap(metricsPort: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  return Number(/^nodejs_heap_size_used_bytes (\S+)/m.exec(text)?.[1]) / MIB;
}

interface InspectorTarget {
  id: string;
  webSocketDebuggerUrl: string;
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
