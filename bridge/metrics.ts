/**
 * What the bridge counts and measures, for Prometheus. Every label value is there from the start, at zero: a rate over
 * a first refusal is seen. docs/monitoring.md has the same as a table, and a test holds the two against each other.
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
export type DialOutcome = (typeof DIAL_OUTCOMES)[number];

/** From what the edge answers within its own machine to what a link or a dial is given up after. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Counted with each message: plain numbers, read when somebody asks. */
type Tally = { published: number; delivered: number } & Record<PublishResult, number>;

function tally(): Tally {
  return { published: 0, delivered: 0, confirmed: 0, nacked: 0, refused: 0 };
}

/** Every combination of these values. */
function combinations(values: Readonly<Record<string, readonly string[]>>): Record<string, string>[] {
  return Object.entries(values).reduce<Record<string, string>[]>(
    (labels, [name, all]) => labels.flatMap((label) => all.map((value) => ({ ...label, [name]: value }))),
    [{}],
  );
}

type Labels = Readonly<Record<string, readonly string[]>>;

export class Metrics {
  readonly registry = new Registry();
  readonly tallies: Readonly<Record<Protocol, Tally>> = { amqp: tally(), mqtt: tally() };
  readonly #connections = this.#gauge('connections', 'Client connections that hold a link', {
    protocol: PROTOCOLS,
  });
  readonly #ended = this.#counter(
    'connections_ended_total',
    'Client connections that held a link, by why they ended',
    {
      protocol: PROTOCOLS,
      reason: END_REASONS,
    },
  );
  readonly #refused = this.#counter(
    'refused_clients_total',
    'Clients that went or were closed before they had a link',
    {
      protocol: PROTOCOLS,
      reason: REFUSAL_REASONS,
    },
  );
  readonly #handshakes = this.#counter(
    'tls_handshake_failures_total',
    'TLS handshakes of clients that failed',
    {
      listener: LISTENERS,
      reason: HANDSHAKE_REASONS,
    },
  );
  readonly #proxies = this.#counter(
    'proxy_header_failures_total',
    'Connections of proxies without a good PROXY header',
    {},
  );
  readonly #dials = this.#counter('dials_total', 'Dials to the edge by outcome', {
    protocol: PROTOCOLS,
    outcome: DIAL_OUTCOMES,
  });
  readonly #dialSeconds = this.#histogram(
    'dial_duration_seconds',
    'From a dial to its outcome, without the time in line before it',
  );
  readonly #publishSeconds = this.#histogram(
    'publish_duration_seconds',
    'From a publish leaving for the edge to its outcome: of the first of each answer, and held ones from when they left last',
  );
  /** Tells how long publishes of a protocol took; the same for all its links. */
  readonly answered: Readonly<Record<Protocol, (seconds: number) => void>> = {
    amqp: (seconds) => this.#publishSeconds.observe({ protocol: 'amqp' }, seconds),
    mqtt: (seconds) => this.#publishSeconds.observe({ protocol: 'mqtt' }, seconds),
  };
  readonly #expiry = this.#unset(
    'certificate_expiry_timestamp_seconds',
    'When the first certificate of the file in force expires',
    ['certificate'],
  );
  readonly #reloads = this.#counter(
    'certificate_reloads_total',
    'TLS files read again, by whether they were taken',
    {
      outcome: ['taken', 'kept'],
    },
  );
  readonly #isStale = this.#gauge(
    'certificate_files_bad',
    '1 while the TLS files on disk are not good and older ones are in force',
    {},
  );

  constructor(version = '') {
    collectDefaultMetrics({ register: this.registry });
    // Gauges under names of counters.
    for (const what of ['handles', 'requests', 'resources'])
      this.registry.removeSingleMetric(`nodejs_active_${what}_total`);
    this.#tallied(
      'published_total',
      'Messages that clients published and that left for the edge',
      'published',
    );
    this.#tallied('delivered_total', 'Messages handed to clients', 'delivered');
    this.#publishResults();
    this.#gauge('build_info', 'Which bridge this is', { version: [version], node: [process.version] }).set(
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

  /** What has no value before it is known. */
  #unset(name: string, help: string, labelNames: string[]): Gauge {
    return new Gauge({ ...this.#described(name, help, {}), labelNames });
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

  #tallied(name: string, help: string, counted: 'published' | 'delivered'): void {
    const { tallies } = this;
    new Counter({
      ...this.#described(name, help, { protocol: PROTOCOLS }),
      collect() {
        this.reset();
        for (const protocol of PROTOCOLS) this.inc({ protocol }, tallies[protocol][counted]);
      },
    });
  }

  #publishResults(): void {
    const { tallies } = this;
    new Counter({
      ...this.#described('publish_results_total', 'Publishes by what they came to', {
        protocol: PROTOCOLS,
        result: PUBLISH_RESULTS,
      }),
      collect() {
        this.reset();
        for (const protocol of PROTOCOLS)
          for (const result of PUBLISH_RESULTS) this.inc({ protocol, result }, tallies[protocol][result]);
      },
    });
  }

  #described(name: string, help: string, values: Labels) {
    const registers = [this.registry];
    return { name: `sitewire_bridge_${name}`, help, labelNames: Object.keys(values), registers };
  }
}
