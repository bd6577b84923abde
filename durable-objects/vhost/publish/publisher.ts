/**
 * Submits the publishes of a vhost to their Sites: finds the site of the envelope, checks the signature, and
 * passes the submission to the lane of the Site.
 */

import type { Envelope } from '../../../protocol/envelope.ts';
import type { PublishFrame } from '../../../protocol/link/vhost.ts';
import { type CommandFamily, FAMILY_RULES } from '../../../protocol/routing-keys.ts';
import type { Env, SiteStub } from '../../env.ts';
import type { OwnCounts } from '../../figures/counts.ts';
import type { Calls } from '../../object/calls.ts';
import type { Clock } from '../../object/clock.ts';
import { reasonOf } from '../../object/reason.ts';
import { FRESH_MS, findSite, type OrganizationCopy, RETRY_MS } from '../../registry/organization-copy.ts';
import type { SubmitAnswer } from '../../rpc.ts';
import type { Outflow } from '../delivery/outflow.ts';
import type { EventIntake } from '../event/intake.ts';
import type { EventStore } from '../event/store.ts';
import type { Key, KeyRecord } from '../key/key.ts';
import { type LaneBatch, type LaneHost, Lanes, type Pending } from './lanes.ts';
import { confirms, judgeSignature, signatureHint, toSubmission, unknownSiteEvent } from './publish.ts';

/** An authorized publish with a valid envelope. */
export interface Publish {
  frame: PublishFrame;
  family: CommandFamily;
  envelope: Envelope;
}

export interface PublisherParts {
  clock: Clock;
  calls: Calls;
  key: Key;
  counts: OwnCounts;
  organization: OrganizationCopy;
  intake: EventIntake;
  store: EventStore;
  outflow: Outflow;
  sites: Env['SITE'];
  keepAlive(work: Promise<void>): void;
}

export class Publisher implements LaneHost {
  readonly calls: Calls;
  readonly #parts: PublisherParts;
  readonly #lanes: Lanes;

  constructor(parts: PublisherParts) {
    this.calls = parts.calls;
    this.#parts = parts;
    this.#lanes = new Lanes(this);
  }

  publish(connectionId: string, key: KeyRecord, publish: Publish, now: number): void {
    const { organization, keepAlive } = this.#parts;
    const siteId = organization.isFresh()
      ? findSite(organization.record, key.allowedPlantIds, publish.envelope.siteId)
      : undefined;
    const work = siteId
      ? this.#lanes.submit(siteId, this.#pending(connectionId, publish, now))
      : this.#resolve(connectionId, key, publish, now);
    if (work) keepAlive(work);
  }

  /** Resolves when no call to a Site is open. */
  async idle(): Promise<void> {
    await this.#lanes.idle();
  }

  // LaneHost

  now(): number {
    return this.#parts.clock.now();
  }

  hasEnded(): boolean {
    return this.#parts.key.hasEnded(this.now());
  }

  site(siteId: string): SiteStub {
    const { sites } = this.#parts;
    return sites.get(sites.idFromName(siteId));
  }

  async submit(stub: SiteStub, batch: LaneBatch): Promise<SubmitAnswer> {
    const { keyId = '', keyPrefix = '' } = this.#parts.key.record ?? {};
    const { intake } = this.#parts;
    const [received, seen] = [intake.receivedFrom(batch.siteId), intake.seenFrom(batch.siteId)];
    return await stub.submit({ ...batch, keyId, keyPrefix, received, seen });
  }

  async finish(siteId: string, answer: SubmitAnswer, batch: readonly Pending[]): Promise<void> {
    const { store, intake } = this.#parts;
    const answers = confirms(batch, (index) => answer.outcomes[index] === 'recorded');
    await store.store((turn) => intake.store(turn, siteId, answer.events), answers);
  }

  giveUp(batch: readonly Pending[]): void {
    this.#parts.outflow.send(confirms(batch, () => false));
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
    const { organization, store, intake, counts } = this.#parts;
    const wanted = publish.envelope.siteId;
    try {
      await organization.refresh(key.organizationId, FRESH_MS);
      if (!findSite(organization.record, key.allowedPlantIds, wanted)) {
        await organization.refresh(key.organizationId, RETRY_MS);
      }
    } catch (error) {
      console.warn('failed to read registry', { reason: reasonOf(error) });
      const unstored = { kind: 'unstored' as const, seqs: [publish.frame.seq] };
      this.#parts.outflow.send(new Map([[connectionId, [unstored]]]));
      return;
    }
    if (this.hasEnded()) return;
    const pending = this.#pending(connectionId, publish, acceptedAtMs);
    const siteId = findSite(organization.record, key.allowedPlantIds, wanted);
    if (siteId) {
      await this.#lanes.submit(siteId, pending);
      return;
    }
    const event = unknownSiteEvent(key.keyId, pending.submission, this.now());
    const answers = confirms([pending], () => true);
    await store.store((turn) => {
      counts.add(turn, 'acknowledgements/REJECTED/DEVICE_OFFLINE');
      intake.tell(turn, wanted, event);
    }, answers);
  }

  /** Needs the copy of the registry, because the organization's settings decide whether a signature is required. */
  #pending(connectionId: string, { frame, family, envelope }: Publish, acceptedAtMs: number): Pending {
    const { organization, key } = this.#parts;
    const isRequired = FAMILY_RULES[family].signed || (organization.record?.requireSignedCommands ?? false);
    const verdict = judgeSignature(envelope, frame.routingKey, key.signingKey, isRequired);
    const publishId = `${connectionId}|${frame.seq}`;
    const isHinted = verdict === 'mismatch' && organization.record?.signatureHints === true;
    const submission = {
      ...toSubmission(envelope, frame.routingKey, family, verdict),
      publishId,
      ...(isHinted && { signatureHint: signatureHint(envelope, frame.routingKey) }),
    };
    return { submission, acceptedAtMs, connectionId, seq: frame.seq };
  }
}
