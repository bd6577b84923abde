/** Context for applying a client's frame. */
import type { VhostNames } from '../../../protocol/publish-right.ts';
import type { Broker, Connections } from '../delivery/broker.ts';

/** The connection that sent the frame, and the broker that it changes. */
export interface Client {
  connectionId: string;
  names: VhostNames;
  broker: Broker;
  connections: Connections;
}
