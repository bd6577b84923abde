/** The bridge of a development stack: a child process on fixed ports. */
import { join } from 'node:path';
import { Child } from './child.ts';
import { assertFree } from './ports.ts';

/** The ports of the bridge; 0 until it listens, where any free one was asked for. */
export interface BridgePorts {
  amqps: number;
  mqtts: number;
  mtls: number;
  metrics: number;
}

interface BridgeSettings {
  /** Further variables of its environment. */
  env: Record<string, string>;
  ports: BridgePorts;
  /** It has ended, and does not start again. */
  onLost(reason: string): void;
}

/** Starts the bridge. `listening`: resolved with its ports when it listens for the first time. */
export function startBridge({ env, ports, onLost }: BridgeSettings): {
  bridge: Child;
  listening: Promise<BridgePorts>;
} {
  const ready = Promise.withResolvers<BridgePorts>();
  const environment = { ...env, ...variablesOf(ports) };
  let known = ports;
  const bridge = new Child({
    name: 'bridge',
    script: join(import.meta.dirname, '..', 'bridge', 'index.ts'),
    env: environment,
    onStart: (child) => {
      child.on('message', (message: { ready?: true; ports: BridgePorts }) => {
        if (!message.ready) return;
        // Where a free port was requested, a restarted bridge must listen on the same port again.
        known = message.ports;
        Object.assign(environment, variablesOf(known));
        ready.resolve(known);
      });
    },
    onLost: (reason) => void faultOf(known, reason).then(onLost),
  });
  bridge.start();
  return { bridge, listening: ready.promise };
}

/** The usual cause is a port that another program has taken meanwhile. */
async function faultOf(ports: BridgePorts, reason: string): Promise<string> {
  const named = Object.entries(variablesOf(ports)).map(([name, port]) => [name, Number(port)]);
  return await assertFree(Object.fromEntries(named)).then(
    () => reason,
    (error: Error) => error.message,
  );
}

function variablesOf({ amqps, mqtts, mtls, metrics }: BridgePorts): Record<string, string> {
  return {
    SITEWIRE_AMQPS_PORT: String(amqps),
    SITEWIRE_MQTTS_PORT: String(mqtts),
    SITEWIRE_MTLS_PORT: String(mtls),
    SITEWIRE_METRICS_PORT: String(metrics),
  };
}
