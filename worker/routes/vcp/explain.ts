/** Why a site did what it did, and the life of a command [C-13.2], [C-13.3]. */

import * as z from 'zod';
import type { CommandLife } from '../../../durable-objects/ask-rpc.ts';
import type { FoundEvent } from '../../../durable-objects/journal-rpc.ts';
import { reasonOf } from '../../../durable-objects/object/reason.ts';
import { objectNamed } from '../../../durable-objects/object-id.ts';
import { explainAnswer } from '../../../protocol/explain.ts';
import { formatInstant, uuid } from '../../../protocol/ids.ts';
import { JsonText, jsonObject } from '../../../protocol/json-text.ts';
import { timedSteps, timeline, type UntimedStep } from '../../../protocol/timeline.ts';
import type { Env } from '../../env.ts';
import { ApiError } from '../../http/error-response.ts';
import { instantParameter, invalidParameter, requireRange } from '../../http/query.ts';
import { siteRead } from './site-read.ts';

const instants = z.object({
  at: instantParameter.optional(),
  from: instantParameter.optional(),
  to: instantParameter.optional(),
});

export const explainRoutes = [
  ...siteRead('explain', {
    summary: 'Explain what a site does, or did',
    query: instants,
    answer: {
      description:
        'With `at`, or without parameters: what the plant was to do at that moment, why, what waited, and whether it followed. With `from` and `to`: the changes of the plan in [from, to), oldest first, up to 50. A key sees the commands of its partner and of the people of the organization; of other partners only a place in the plan: the level and until when',
      body: explainAnswer,
    },
    check: ({ at, from, to }) => {
      if (at !== undefined && (from !== undefined || to !== undefined))
        throw invalidParameter('at: send either at, or from and to');
      if ((from === undefined) !== (to === undefined))
        throw invalidParameter(`${from === undefined ? 'from' : 'to'}: missing; send from and to together`);
      if (from !== undefined && to !== undefined) requireRange(from, to);
    },
    read: async (site, siteId, { at, from, to }, { asker }) => {
      const query =
        from !== undefined && to !== undefined ? { fromMs: from, toMs: to } : { atMs: at ?? null };
      return new JsonText((await site.ask({ kind: 'explain', siteId, asker, query })) ?? '{}');
    },
  }),
  ...siteRead('commands/{commandId}/timeline', {
    summary: 'Get the life of a command to a site',
    params: z.object({ commandId: uuid }),
    answer: {
      description:
        'The command with its steps: what happened when, and how long after the step before; the result of the check of its signature; and the messages to devices that it leads to. A key sees the commands of its partner and of the people of the organization',
      body: timeline,
    },
    errors: ['NOT_FOUND'],
    read: async (site, siteId, _query, { asker, env }, { commandId }) => {
      const text = await site.ask({ kind: 'timeline', siteId, asker, commandId });
      if (text === null)
        throw new ApiError(
          'NOT_FOUND',
          'No command with this id is visible to you: look it up in the command log',
        );
      const life = JSON.parse(text) as CommandLife;
      const steps = timedSteps([...life.steps, ...(await eventSteps(env, life))]);
      const { signed, messages = [] } = life;
      return jsonObject({
        command: new JsonText(life.command),
        steps,
        signature: signed?.verdict ?? null,
        timestamp: signed ? formatInstant(signed.timestampMs) : null,
        messages,
      });
    },
  }),
];

/** When the journal stored the events of the command, and when readers confirmed them. */
async function eventSteps(env: Env, { keyId, events }: CommandLife): Promise<UntimedStep[]> {
  // A command of a person has no key that gets its events.
  if (keyId === '') return [];
  const searches = events.map(({ messageId, madeAtMs }) => ({ messageId, madeAtMs }));
  let found: FoundEvent[];
  try {
    found = await objectNamed(env, 'VHOST', keyId).findEvents(searches);
  } catch (error) {
    console.warn('events of a command not found in the journal, its timeline has no steps of them', {
      keyId,
      reason: reasonOf(error),
    });
    return [];
  }
  return found.flatMap(({ messageId, storedAtMs, confirmed }) => {
    const event = events.find((one) => one.messageId === messageId);
    if (!event) return [];
    const { name: reason, madeAtMs } = event;
    const step = (name: UntimedStep['step'], atMs: number, more: Partial<UntimedStep> = {}) =>
      ({ step: name, atMs: Math.max(atMs, madeAtMs), reason, ...more }) as const;
    return [
      ...(storedAtMs === null ? [] : [step('EVENT_STORED', storedAtMs)]),
      ...confirmed.map(({ atMs, by }) => step('EVENT_DELIVERED', atMs, { by })),
    ];
  });
}
