/** What is counted and told of a client that never had a link, whatever it speaks. */
import type { BridgeLog } from './log.ts';
import type { Metrics, Protocol } from './metrics.ts';
import type { RefusalReason } from './reasons.ts';

interface RefusedClient {
  protocol: Protocol;
  connection: string;
  address: string;
  /** As it said them, so far as it came. */
  username?: string | undefined;
  vhost?: string | undefined;
  reason: RefusalReason;
  /** Of the edge's answer. */
  code?: string | undefined;
  why: string;
}

/** Who leaves without having said who it is, as balancers do all the time, is told to who asks for it alone. */
export function tellRefused(metrics: Metrics, log: BridgeLog, client: RefusedClient): void {
  const { protocol, connection, address, username, vhost, reason, code, why } = client;
  metrics.refused(protocol, reason);
  if (reason === 'client' && username === undefined)
    log.tell('client left before its login', { protocol, connection, address, why });
  else log.tell('client refused', { protocol, connection, address, username, vhost, reason, code, why });
}
