/** RPC access to the Durable Objects of a running edge, for tools and tests. */
import type { Miniflare } from 'miniflare';
import type { SiteRpc, VhostRpc } from '../durable-objects/rpc.ts';

/** An object as its RPC callers see it: each method returns a promise. */
export type Called<Object> = {
  [Method in keyof Object]: Object[Method] extends (...given: infer Given) => infer Answer
    ? (...given: Given) => Promise<Awaited<Answer>>
    : never;
};

export async function siteOf(miniflare: Miniflare, siteId: string): Promise<Called<SiteRpc>> {
  const namespace = await miniflare.getDurableObjectNamespace('SITE');
  return namespace.get(namespace.idFromName(siteId)) as unknown as Called<SiteRpc>;
}

export async function vhostOf(miniflare: Miniflare, keyId: string): Promise<Called<VhostRpc>> {
  const namespace = await miniflare.getDurableObjectNamespace('VHOST');
  return namespace.get(namespace.idFromName(keyId)) as unknown as Called<VhostRpc>;
}
