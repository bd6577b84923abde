/** What a frame of a client is applied with. */
import type { VhostNames } from '../../../protocol/publish-right.ts';
import type { Broker, Connections } from '../delivery/broker.ts';

/** Whose frame it is, and what it works on. */
export interface Client {
  connectionId: string;
  names: VhostNames;
  broker: Broker;
  connections: Connections;
}
