/**
 * The publishes of a vhost on their way to their Sites: the site that an envelope names is found, the signature is
 * judged, and a lane carries the submission there and its answer back.
 */
import type { Envelope } from '../../protocol/envelope.ts';
import type { PublishFrame, VhostLinkDown } from '../../protocol/link.ts';
import { type CommandFamily, FAMILY_RULES } from '../../protocol/routing-keys.ts';
import type { Env } from '../env.ts';
import type { OutboxEvent, PassingEvent, Submission } from '../exchange.ts';
import type { SubmitAnswer } from '../site.ts';
import { DIRECTORY_RETRY_MS, type DirectoryHolder, findSite } from './directory.ts';
import type { KeyHolder } from './key-holder.ts';
import { type LaneHost, Lanes, type Pending } from './lanes.ts';
import { confirms, judgeSignature, toSubmission, unknownSiteEvent } from './publish.ts';
import type { VhostKey } from './schema.ts';

/** A publish that may go to its Site. */
export interface Publish {
  frame: PublishFrame;
  family: CommandFamily;
  envelope: Envelope;
}

/** Frames for connections. */
type Answers = Map<string, VhostLinkDown[]>;

export interface PublisherHost {
  now(): number;
  hasEnded(): boolean;
  keepAlive(work: Promise<void> | undefined): void;
  /** How far a site's outbox has been stored here. */
  receivedFrom(siteId: string): number;
  /** Stores a site's events and then answers, in this order (rule 5). */
  store(siteId: string, events: readonly OutboxEvent[], answers: Answers): Promise<unknown>;
  /** Stores the acknowledgement of a publish for no site, and then answers. */
  reject(siteId: string, event: PassingEvent, answers: Answers): Promise<unknown>;
  answer(answers: Answers): void;
}

export class Publisher implements LaneHost {
  readonly #host: PublisherHost;
  readonly #keys: KeyHolder;
  readonly #directory: DirectoryHolder;
  readonly #sites: Env['SITE'];
  readonly #lanes: Lanes;

  constructor(host: PublisherHost, keys: KeyHolder, directory: DirectoryHolder, sites: Env['SITE']) {
    this.#host = host;
    this.#keys = keys;
    this.#directory = directory;
    this.#sites = sites;
    this.#lanes = new Lanes(this);
  }

  publish(connectionId: string, key: VhostKey, publish: Publish, now: number): void {
    const siteId = findSite(this.#directory.current, key.allowedPlantIds, publish.envelope.siteId);
    const work = siteId
      ? this.#lanes.submit(siteId, this.#pending(connectionId, publish, now))
      : this.#resolve(connectionId, key, publish, now);
    this.#host.keepAlive(work);
  }

  /** Resolves when no call to a Site is under way. */
  async idle(): Promise<void> {
    await this.#lanes.idle();
  }

  // what lanes ask for

  now(): number {
    return this.#host.now();
  }

  hasEnded(): boolean {
    return this.#host.hasEnded();
  }

  site(siteId: string): ReturnType<Env['SITE']['get']> {
    return this.#sites.get(this.#sites.idFromName(siteId));
  }

  async submit(
    stub: ReturnType<Env['SITE']['get']>,
    siteId: string,
    submissions: Submission[],
  ): Promise<SubmitAnswer> {
    const { keyId = '', keyPrefix = '' } = this.#keys.key ?? {};
    const received = this.#host.receivedFrom(siteId);
    return await stub.submit({ siteId, keyId, keyPrefix, received, submissions });
  }

  async finish(siteId: string, answer: SubmitAnswer, batch: readonly Pending[]): Promise<void> {
    const answers = confirms(batch, (index) => answer.outcomes[index] === 'recorded');
    await this.#host.store(siteId, answer.events, answers);
  }

  giveUp(batch: readonly Pending[]): void {
    this.#host.answer(confirms(batch, () => false));
  }

  // one publish

  /** A site that the directory does not know: asked for once more, then rejected without a site to log it. */
  async #resolve(connectionId: string, key: VhostKey, publish: Publish, acceptedAtMs: number): Promise<void> {
    const wanted = publish.envelope.siteId;
    try {
      await this.#directory.refresh(key.organizationId, DIRECTORY_RETRY_MS, () => this.now());
    } catch (error) {
      console.warn('directory not read', { error: String(error) });
      this.#host.answer(new Map([[connectionId, [{ kind: 'unstored', seqs: [publish.frame.seq] }]]]));
      return;
    }
    if (this.hasEnded()) return;
    const pending = this.#pending(connectionId, publish, acceptedAtMs);
    const siteId = findSite(this.#directory.current, key.allowedPlantIds, wanted);
    if (siteId) {
      await this.#lanes.submit(siteId, pending);
      return;
    }
    const event = unknownSiteEvent(key.keyId, pending.submission, this.now());
    await this.#host.reject(
      wanted,
      event,
      confirms([pending], () => true),
    );
  }

  /** The organization's settings decide whether a signature is needed: the directory must be there. */
  #pending(connectionId: string, { frame, family, envelope }: Publish, acceptedAtMs: number): Pending {
    const isRequired =
      FAMILY_RULES[family].signed || (this.#directory.current?.requireSignedCommands ?? false);
    const verdict = judgeSignature(envelope, frame.routingKey, this.#keys.signingKey(), isRequired);
    const submission = toSubmission(envelope, frame.routingKey, family, verdict);
    return { submission, acceptedAtMs, connectionId, seq: frame.seq };
  }
}
