/**
 * Submits the publishes of a vhost to their Sites: finds the site of the envelope, checks the signature, and
 * passes the submission to the lane of the Site.
 */

import type { Envelope } from '../../../protocol/envelope.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { PublishFrame } from '../../../protocol/link/vhost.ts';
import { type CommandFamily, FAMILY_RULES } from '../../../protocol/routing-keys.ts';
import { findSite, findSiteAgain, type OrganizationCopy } from '../../../registry/organization-copy.ts';
import type { SiteStub } from '../../env.ts';
import type { OwnCounts } from '../../metrics/counts.ts';
import { type Calls, Stubs } from '../../object/calls.ts';
import type { Clock } from '../../object/clock.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Submission, SubmissionResult } from '../../rpc.ts';
import type { Outflow } from '../delivery/outflow.ts';
import type { EventIntake } from '../event/intake.ts';
import type { EventStore } from '../event/store.ts';
import type { Key, KeyRecord } from '../key/key.ts';
import { type Attempt, type LaneHost, Lanes, type Pending } from './lanes.ts';
import { confirms, judgeSignature, signatureHint, toSubmission, unknownSiteEvent } from './publish.ts';

/** A publish is confirmed or nacked in this time, unless the key ends. */
const ANSWER_MS = LIMIT.confirmMs + 1_000;

/** An authorized publish with a valid envelope. */
export interface Publish {
  frame: PublishFrame;
  family: CommandFamily;
  envelope: Envelope;
  /** Called with the Site's answer, before the publish is confirmed. */
  onResult?(result: SubmissionResult): void;
}

export interface PublisherHost {
  clock: Clock;
  calls: Calls;
  key: Key;
  counts: OwnCounts;
  organization: OrganizationCopy;
  intake: EventIntake;
  store: EventStore;
  outflow: Outflow;
  siteOf(siteId: string): SiteStub;
  keepAlive(work: Promise<void>): void;
}

export class Publisher implements LaneHost {
  readonly #host: PublisherHost;
  readonly #sites: Stubs<SiteStub>;
  readonly #lanes: Lanes;

  constructor(host: PublisherHost) {
    this.#host = host;
    this.#sites = new Stubs((siteId) => host.siteOf(siteId));
    this.#lanes = new Lanes(this);
  }

  publish(connectionId: string, key: KeyRecord, publish: Publish, now: number): void {
    const { organization, keepAlive } = this.#host;
    const siteId = organization.isFresh()
      ? findSite(organization.record, key.allowedPlantIds, publish.envelope.siteId)
      : undefined;
    const work = siteId
      ? this.#lanes.submit(siteId, this.#pending(connectionId, publish, now))
      : this.#resolve(connectionId, key, publish, now);
    if (work) keepAlive(work);
  }

  /** The same for a publish over HTTPS. False if it is not known to be recorded. */
  async publishAndWait(key: KeyRecord, publish: Publish, now: number): Promise<boolean> {
    const { outflow, calls } = this.#host;
    const id = crypto.randomUUID();
    const answered = outflow.answerTo(id, now + ANSWER_MS, calls);
    this.publish(id, key, publish, now);
    try {
      return (await answered).every(({ kind }) => kind === 'stored');
    } catch {
      return false;
    }
  }

  /** Asks a Site what the submissions would be answered. Throws if it does not answer in time. */
  async dryRun(
    siteId: string,
    { keyId, keyPrefix, partnerId, slug }: KeyRecord,
    submissions: Submission[],
    giveUpAtMs: number,
  ): Promise<string[]> {
    const { calls, organization } = this.#host;
    const batch = { siteId, keyId, keyPrefix, partnerId, submissions, notAfterMs: giveUpAtMs };
    const asked = { ...batch, received: 0, seen: 0, isRepeated: false };
    const asker = { partnerId, slug, sees: organization.record?.sees ?? 'PARTNER' };
    return await this.#sites.call(siteId, (site) => calls.until(giveUpAtMs, site.dryRun(asked, asker)));
  }

  /** Resolves when no call to a Site is open. */
  async idle(): Promise<void> {
    await this.#lanes.idle();
  }

  // LaneHost

  now(): number {
    return this.#host.clock.now();
  }

  hasEnded(): boolean {
    return this.#host.key.hasEnded(this.now());
  }

  async submit({ siteId, batch, notAfterMs, giveUpAtMs, isRepeated }: Attempt): Promise<void> {
    const { calls, key, store, intake } = this.#host;
    // Without it the command would count as one of the organization's people.
    if (!key.record) throw new Error('the record of the key is missing, so its commands are not submitted');
    const { keyId, keyPrefix, partnerId } = key.record;
    const submissions = batch.map(({ submission }) => submission);
    const [received, seen] = [intake.receivedFrom(siteId), intake.seenFrom(siteId)];
    const sender = { keyId, keyPrefix, partnerId };
    const call = { siteId, submissions, notAfterMs, isRepeated, ...sender, received, seen };
    const answer = await this.#sites.call(siteId, (site) => calls.until(giveUpAtMs, site.submit(call)));
    const answers = confirms(batch, (index) => answer.outcomes[index] === 'recorded');
    batch.forEach(({ onResult }, index) => {
      const result = answer.results?.[index];
      if (result) onResult?.(result);
    });
    await store.store((turn) => intake.store(turn, siteId, answer.events), answers);
  }

  giveUp(batch: readonly Pending[]): void {
    this.#host.outflow.send(confirms(batch, () => false));
  }

  // one publish

  /**
   * Reads the copy of the registry again if it is too old or does not contain the site. If the site is still
   * unknown, the publish is rejected here; no command log records it.
   */
  async #resolve(
    connectionId: string,
    key: KeyRecord,
    publish: Publish,
    acceptedAtMs: number,
  ): Promise<void> {
    const { organization, store, intake, counts } = this.#host;
    const wanted = publish.envelope.siteId;
    let siteId: string | undefined;
    try {
      siteId = await findSiteAgain(organization, key.allowedPlantIds, wanted);
    } catch (error) {
      console.warn('publish nacked because the registry was not read: its client has to send it again', {
        reason: reasonOf(error),
      });
      const unstored = { kind: 'unstored' as const, seqs: [publish.frame.seq] };
      this.#host.outflow.send(new Map([[connectionId, [unstored]]]));
      return;
    }
    if (this.hasEnded()) return;
    const pending = this.#pending(connectionId, publish, acceptedAtMs);
    if (siteId) {
      await this.#lanes.submit(siteId, pending);
      return;
    }
    const event = unknownSiteEvent(key.keyId, pending.submission, this.now());
    const answers = confirms([pending], () => true);
    await store.store((turn) => {
      counts.add(turn, 'acknowledgements/REJECTED/DEVICE_OFFLINE');
      intake.report(turn, wanted, event);
    }, answers);
  }

  #pending(connectionId: string, publish: Publish, acceptedAtMs: number): Pending {
    const { frame, onResult } = publish;
    const submission = {
      ...this.submissionOf(publish),
      publishId: `${connectionId}|${frame.seq}`,
      publishedAtMs: acceptedAtMs,
      ...(onResult && { wantsResult: true }),
    };
    return { submission, acceptedAtMs, connectionId, seq: frame.seq, ...(onResult && { onResult }) };
  }

  /** Needs the copy of the registry, because the organization's settings decide whether a signature is required. */
  submissionOf({ frame, family, envelope }: Publish): Submission {
    const { organization, key } = this.#host;
    const isRequired = FAMILY_RULES[family].signed || (organization.record?.requireSignedCommands ?? false);
    const verdict = judgeSignature(envelope, frame.routingKey, key.signingKey, isRequired);
    const isHinted = verdict === 'mismatch' && organization.record?.signatureHints === true;
    return {
      ...toSubmission(envelope, frame.routingKey, family, verdict),
      ...(isHinted && { signatureHint: signatureHint(envelope, frame.routingKey) }),
    };
  }
}
