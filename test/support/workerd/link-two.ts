/** What version 2 of the link adds, as tests of the vhost send and read it: opening, waiting, and the goodbye. */
import { expect } from 'vitest';
import type { VhostLinkUp } from '../../../protocol/link/vhost.ts';
import type { VhostTestLink } from './links.ts';
import type { Partner, PublishQuestion } from './partner.ts';

/** Publishes that are not taken: after `ms`, `count` of them may come again, oldest first. */
export interface Wait {
  kind: 'wait';
  seqs: number[];
  ms: number;
  count: number;
}

interface Known {
  kind: string;
  seqs?: number[];
}

/** What a client named in connection.open. */
export function sendOpen(partner: Partner, vhost: string = `partner-${partner.key.id}`): void {
  partner.link.send({ kind: 'open', vhost } as unknown as VhostLinkUp);
}

/** The waits so far, in order. */
export function waitsOf(partner: Partner): Wait[] {
  return (partner.link.received as unknown as Known[]).filter((frame) => frame.kind === 'wait') as Wait[];
}

/** Sequences that are confirmed so far, in order. */
export function storedSeqs(partner: Partner): number[] {
  return partner.link.received.flatMap((frame) => (frame.kind === 'stored' ? frame.seqs : []));
}

/** A message with publishes under sequences `from`, `from + 1`, … */
export function sendPublishes(partner: Partner, from: number, publishes: readonly PublishQuestion[]): void {
  partner.link.send(...publishes.map((publish, index) => ({ ...publish, seq: from + index })));
}

/** Returns once each of the sequences was told anything: stored, unstored, or to wait. */
export async function allTold(partner: Partner, seqs: readonly number[]): Promise<void> {
  const told = () =>
    new Set((partner.link.received as unknown as Known[]).flatMap((frame) => frame.seqs ?? []));
  await partner.link.next((frame) => {
    if (frame !== partner.link.received.at(-1)) return false;
    const all = told();
    return seqs.every((seq) => all.has(seq));
  });
}

/** The object closes the link with that code, and its last frame before has said so. */
export async function expectGoodbye(link: VhostTestLink, code: number): Promise<void> {
  expect(await link.untilClosed()).toMatchObject({ code });
  expect(link.received.at(-1)).toMatchObject({ kind: 'goodbye', code, reason: expect.stringMatching(/\S/) });
}
