/** Builds a partner's connection data, ready to paste (spec: Connection bundle; [C-5.2]). */
import type { Env } from '../../durable-objects/env.ts';
import type { ConnectionBundle } from '../../protocol/api-key-record.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { EXCHANGE, fullQueueName } from '../../protocol/routing-keys.ts';
import { type ApiKeyScope, effectiveScopes } from '../../protocol/scopes.ts';
import { codeSamples, type SampleFacts } from './code-samples.ts';

export interface BundleFacts {
  host: string;
  port: number;
  slug: string;
  vhost: string;
  key: string;
  signingKey: string;
  scopes: readonly ApiKeyScope[];
  /** The plants that the key may see. */
  sites: readonly { id: string; name: string }[];
  /** The sub-devices of the first of them. */
  assets: SampleFacts['assets'];
  caCertificate: string | undefined;
  /** Origin of the REST API, without a path. */
  origin: string;
}

/**
 * The origin at which partners reach REST: the configured public URL, or the origin of the request if none is
 * configured.
 */
export function restOrigin({ PUBLIC_URL }: Pick<Env, 'PUBLIC_URL'>, request: Request): string {
  return new URL(PUBLIC_URL ?? request.url).origin;
}

export function connectionBundle(facts: BundleFacts): ConnectionBundle {
  const { host, port, slug, vhost, key, signingKey, sites, caCertificate, origin } = facts;
  const scopes = effectiveScopes(facts.scopes);
  const uri = `amqps://${slug}:${encodeURIComponent(key)}@${host}:${port}/${vhost}`;
  const restUrl = `${origin}/api/v1/vcp/sites`;
  return {
    amqps: {
      ...{ uri, host, port, username: slug, vhost, exchange: EXCHANGE },
      ...(caCertificate === undefined ? {} : { caCertificate }),
    },
    slug,
    queues: {
      telemetry: fullQueueName(slug, 'event.telemetry'),
      alarms: fullQueueName(slug, 'event.alarm'),
      ack: fullQueueName(slug, 'event.status'),
      execution: fullQueueName(slug, 'event.execution'),
      deadLetter: fullQueueName(slug, 'dead-letter'),
      // The specification names these three. The platform itself reads them: a partner publishes to the exchange.
      command: `vcp.${slug}.command`,
      schedule: `vcp.${slug}.schedule`,
      config: `vcp.${slug}.config`,
    },
    rest: { baseUrl: restUrl },
    sites: sites.slice(0, LIMIT.bundleSites).map(({ id, name }) => ({ siteId: id, name })),
    codeSamples: codeSamples({
      uri,
      slug,
      key,
      signingKey,
      siteId: sites[0]?.id,
      assets: facts.assets,
      restUrl,
      mayRead: scopes.has('vcp:read'),
      maySend: scopes.has('vcp:write:device-command'),
    }),
  };
}
