/**
 * The metrics of the bridge, for Prometheus. Every label value of a counter exists from the start, at zero, so
 * that a rate includes the first event. docs/monitoring.md repeats the metrics as a table, and a test compares
 * the two.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import {
  HANDSHAKE_REASONS,
  type HandshakeReason,
  LISTENERS,
  type ListenerName,
} from './handshake-reasons.ts';
import {
  END_REASONS,
  type EndReason,
  PUBLISH_RESULTS,
  type PublishResult,
  REFUSAL_REASONS,
  type RefusalReason,
} from './reasons.ts';
import type { TlsMaterial } from './tls-files.ts';

const PROTOCOLS = ['amqp', 'mqtt'] as const;
export type Protocol = (typeof PROTOCOLS)[number];
const DIAL_OUTCOMES = ['accepted', 'refused', 'unproven', 'trouble'] as const;
type DialOutcome = (typeof DIAL_OUTCOMES)[number];

/** Buckets from an answer on the same machine (1 ms) to the timeouts of dials and links (8 and 10 s). */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/**
 * Counts that change with each message. They are plain numbers, which are faster than counters, and are
 * copied to the counters at each scrape.
 */
type Tally = { published: number; delivered: number } & Record<PublishResult, number>;

function tally(): Tally {
  return { published: 0, delivered: 0, confirmed: 0, nacked: 0, refused: 0 };
}

type Labels = Readonly<Record<string, readonly string[]>>;

/** Returns every combination of these label values. */
function combinations(values: Labels): Record<string, string>[] {
  return Object.entries(values).reduce<Record<string, string>[]>(
    (labels, [name, all]) => labels.flatMap((label) => all.map((value) => ({ ...label, [name]: value }))),
    [{}],
  );
}

export class Metrics {
  readonly registry = new Registry();
  readonly tallies: Readonly<Record<Protocol, Tally>> = { amqp: tally(), mqtt: tally() };
  readonly #connections = this.#gauge('connections', 'Open client connections', {
    protocol: PROTOCOLS,
  });
  readonly #ended = this.#counter(
    'connections_ended_total',
    'Client connections that were open and ended, by reason',
    { protocol: PROTOCOLS, reason: END_REASONS },
  );
  readonly #refused = this.#counter(
    'refused_clients_total',
    'Clients that disconnected or were rejected before their connection was open, by reason',
    { protocol: PROTOCOLS, reason: REFUSAL_REASONS },
  );
  readonly #handshakes = this.#counter(
    'tls_handshake_failures_total',
    'Failed TLS handshakes of clients, by reason',
    { listener: LISTENERS, reason: HANDSHAKE_REASONS },
  );
  readonly #proxies = this.#counter(
    'proxy_header_failures_total',
    'Proxy connections without a valid PROXY header',
    {},
  );
  readonly #dials = this.#counter('dials_total', 'Dials to the edge, by outcome', {
    protocol: PROTOCOLS,
    outcome: DIAL_OUTCOMES,
  });
  readonly #dialSeconds = this.#histogram(
    'dial_duration_seconds',
    'Duration of dials to the edge, without the time in the queue',
  );
  readonly #publishSeconds = this.#histogram(
    'publish_duration_seconds',
    'Time from sending a publish to its confirm or nack: first publish of each answer, held ones from the last send',
  );
  /** Records how long publishes of a protocol took; all links of the protocol share the function. */
  readonly answered: Readonly<Record<Protocol, (seconds: number) => void>> = {
    amqp: (seconds) => this.#publishSeconds.observe({ protocol: 'amqp' }, seconds),
    mqtt: (seconds) => this.#publishSeconds.observe({ protocol: 'mqtt' }, seconds),
  };
  /** The gauge has no value until the certificates are loaded. */
  readonly #expiry = this.#gauge(
    'certificate_expiry_timestamp_seconds',
    'Earliest expiry of the certificates in the file in use',
    { certificate: [] },
  );
  readonly #reloads = this.#counter('certificate_reloads_total', 'Reloads of the TLS files, by outcome', {
    outcome: ['taken', 'kept'],
  });
  readonly #isStale = this.#gauge(
    'certificate_files_bad',
    '1 while the TLS files on disk are invalid and the previous ones are in use',
    {},
  );

  constructor(version = '') {
    collectDefaultMetrics({ register: this.registry });
    // The library exposes these gauges under names that end like those of counters, so they are removed.
    for (const what of ['handles', 'requests', 'resources'])
      this.registry.removeSingleMetric(`nodejs_active_${what}_total`);
    this.#tallied(
      'published_total',
      'Messages that clients published and the bridge sent to the edge',
      {},
      ({ published }) => published,
    );
    this.#tallied('delivered_total', 'Messages delivered to clients', {}, ({ delivered }) => delivered);
    this.#tallied(
      'publish_results_total',
      'Publishes, by result',
      { result: PUBLISH_RESULTS },
      (counts, result) => counts[result],
    );
    this.#gauge('build_info', 'Version of the bridge', { version: [version], node: [process.version] }).set(
      { version, node: process.version },
      1,
    );
  }

  opened(protocol: Protocol): void {
    this.#connections.inc({ protocol });
  }

  closed(protocol: Protocol, reason: EndReason): void {
    this.#connections.dec({ protocol });
    this.#ended.inc({ protocol, reason });
  }

  refused(protocol: Protocol, reason: RefusalReason): void {
    this.#refused.inc({ protocol, reason });
  }

  handshakeFailed(listener: ListenerName, reason: HandshakeReason): void {
    this.#handshakes.inc({ listener, reason });
  }

  proxyRefused(): void {
    this.#proxies.inc();
  }

  dialed(protocol: Protocol, outcome: DialOutcome, seconds: number): void {
    this.#dials.inc({ protocol, outcome });
    this.#dialSeconds.observe({ protocol }, seconds);
  }

  tlsInForce(expiresMs: TlsMaterial['expiresMs']): void {
    for (const [certificate, ms] of Object.entries(expiresMs))
      this.#expiry.set({ certificate }, Math.floor(ms / 1_000));
  }

  tlsReread(outcome: 'taken' | 'kept'): void {
    this.#reloads.inc({ outcome });
    this.#isStale.set(outcome === 'taken' ? 0 : 1);
  }

  #gauge(name: string, help: string, values: Labels): Gauge {
    const gauge = new Gauge(this.#described(name, help, values));
    for (const labels of combinations(values)) gauge.set(labels, 0);
    return gauge;
  }

  #counter(name: string, help: string, values: Labels): Counter {
    const counter = new Counter(this.#described(name, help, values));
    for (const labels of combinations(values)) counter.inc(labels, 0);
    return counter;
  }

  #histogram(name: string, help: string): Histogram {
    const histogram = new Histogram({
      ...this.#described(name, help, { protocol: PROTOCOLS }),
      buckets: SECONDS,
    });
    for (const protocol of PROTOCOLS) histogram.zero({ protocol });
    return histogram;
  }

  #tallied(name: string, help: string, more: Labels, count: (from: Tally, result: PublishResult) => number) {
    const { tallies } = this;
    const values = { protocol: PROTOCOLS, ...more };
    new Counter({
      ...this.#described(name, help, values),
      collect() {
        this.reset();
        for (const labels of combinations(values)) {
          const { protocol, result } = labels as { protocol: Protocol; result: PublishResult };
          this.inc(labels, count(tallies[protocol], result));
        }
      },
    });
  }

  #described(name: string, help: string, values: Labels) {
    const registers = [this.registry];
    return { name: `sitewire_bridge_${name}`, help, labelNames: Object.keys(values), registers };
  }
}
