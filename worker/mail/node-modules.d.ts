/** The parts of Node that sending mail uses; the runtime has them, the types of Workers do not. */
declare module 'node:events' {
  export class EventEmitter {
    once(event: string, listener: (...values: never[]) => void): this;
  }
}

declare module 'node:net' {
  import type { EventEmitter } from 'node:events';

  export interface Socket extends EventEmitter {
    destroy(): void;
  }
  export function connect(options: { host: string; port: number }): Socket;
  const net: { Socket: Socket };
  export default net;
}

declare module 'node:tls' {
  import type { Socket } from 'node:net';

  export interface ConnectionOptions {
    servername?: string;
  }
  export function connect(options: { host: string; port: number; servername?: string }): Socket;
}
