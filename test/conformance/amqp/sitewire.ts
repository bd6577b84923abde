/** Our own stack as a broker: one key for each group, through the public TLS listener. */
import { once } from 'node:events';
import { connect } from 'node:tls';
import { TestStack } from '#support/stack.ts';
import type { Broker, Lane } from './broker.ts';

export async function startSitewire(): Promise<Broker> {
  const stack = await TestStack.start();
  const user = stack.credentials.organization.slug;
  const otherVhost = `partner-${stack.credentials.apiKey.id}`;
  const open = async () => {
    const socket = connect({ host: 'localhost', port: stack.bridge.ports.amqps, ca: stack.ca });
    socket.setNoDelay(true);
    await once(socket, 'secureConnect');
    return socket;
  };
  return {
    async lane(): Promise<Lane> {
      const { id, key } = await stack.addKey();
      return { user, password: key, vhost: `partner-${id}`, otherVhost, connect: open };
    },
    stop: () => stack.stop(),
  };
}
