/** An event stream and a webhook of a key that wait for alarms. */
import { createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { AdminClient } from '../admin-client.ts';
import type { BenchStack } from './bench-stack.ts';

/** Opens both; returns how to close them. */
export async function openReaders(stack: BenchStack): Promise<() => Promise<void>> {
  const [organization] = stack.organizations;
  if (!organization) throw new Error('the stack has no organization');
  const receiver = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(204).end());
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  const admin = await AdminClient.enter(stack.edge.url, stack.login);
  admin.organizationId = organization.id;
  const { webhook } = await admin.call<{ webhook: { id: string } }>('POST', '/partner/webhooks', {
    url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`,
    keyId: organization.apiKey.id,
    types: ['alarm'],
  });
  const path = `/partner/webhooks/${webhook.id}`;
  while ((await admin.call<{ status: string }>('GET', path)).status !== 'ENABLED') await sleep(100);
  let isOpen = true;
  // The platform ends a stream after 15 minutes; its client opens the next one.
  const open = () => {
    const headers = { 'x-api-key': stack.key };
    const request = get(`${stack.edge.url}/api/v1/vcp/events/stream?type=alarm`, { headers, agent: false });
    request.on('error', () => {});
    request.on('response', (answer) => answer.resume().on('close', () => isOpen && open()));
    stream = request;
  };
  let stream: ReturnType<typeof get> | undefined;
  open();
  return async () => {
    isOpen = false;
    stream?.destroy();
    receiver.closeAllConnections();
    await new Promise((resolve) => receiver.close(resolve));
  };
}
