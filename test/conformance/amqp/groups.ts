/** All transcripts. */
import type { Group } from './transcript.ts';
import { basic } from './transcripts/basic.ts';
import { channels } from './transcripts/channels.ts';
import { content } from './transcripts/content.ts';
import { deliveries } from './transcripts/deliveries.ts';
import { frames } from './transcripts/frames.ts';
import { handshake, limit } from './transcripts/handshake.ts';
import { partnerBindings } from './transcripts/partner-bindings.ts';
import { partnerQueues } from './transcripts/partner-queues.ts';
import { publishing } from './transcripts/publish.ts';
import { equivalence, queues } from './transcripts/queues.ts';

export const GROUPS: readonly Group[] = [
  handshake,
  limit,
  channels,
  frames,
  content,
  publishing,
  queues,
  equivalence,
  basic,
  deliveries,
  partnerQueues,
  partnerBindings,
];
