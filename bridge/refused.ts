/** Metrics and log line for clients rejected before a link opened (AMQP and MQTT). */
import type { BridgeLog } from './log.ts';
import type { Metrics, Protocol } from './metrics.ts';
import type { RefusalReason } from './reasons.ts';

interface RefusedClient {
  protocol: Protocol;
  connection: string;
  address: string;
  /** As the client sent them; undefined if it did not get that far. */
  username?: string | undefined;
  vhost?: string | undefined;
  reason: RefusalReason;
  /** Error code in the edge's answer. */
  code?: string | undefined;
  why: string;
}

/** A client that disconnects without a user name, as balancers do all the time, is logged at level debug. */
export function reportRejected(metrics: Metrics, log: BridgeLog, client: RefusedClient): void {
  const { protocol, connection, address, username, vhost, reason, code, why } = client;
  metrics.refused(protocol, reason);
  if (reason === 'client' && username === undefined)
    log.write('client disconnected before login', { protocol, connection, address, why });
  else log.write('client rejected', { protocol, connection, address, username, vhost, reason, code, why });
}
