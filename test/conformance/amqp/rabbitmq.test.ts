/**
 * Plays the same transcripts on a real RabbitMQ (`npm run sitewire -- conformance`) and compares its answers with
 * answers.txt.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startRabbit } from '#support/rabbitmq.ts';
import { isRabbitMqInstalled } from '../../../tools/rabbitmq.ts';
import { type Answers, readAnswers, writeAnswers } from './answers.ts';
import type { Broker } from './broker.ts';
import { GROUPS } from './groups.ts';
import { type Played, playAll } from './played.ts';

const wanted = process.env.SITEWIRE_CONFORMANCE;
const isPlayed = wanted !== undefined && isRabbitMqInstalled();
if (wanted !== undefined && !isPlayed)
  console.warn("RabbitMQ is not played: install Debian's rabbitmq-server for it.");

describe.skipIf(!isPlayed)('RabbitMQ still gives the recorded answers to', () => {
  const answers: Answers = wanted === 'record' ? new Map() : readAnswers();
  let broker: Broker;
  let played: Played;

  beforeAll(async () => {
    broker = await startRabbit(GROUPS);
    played = playAll(broker, GROUPS);
  }, 60_000);
  afterAll(async () => {
    if (wanted === 'record') writeAnswers(answers);
    await broker.stop();
  });

  describe.each(GROUPS.map((group) => [group.name, group] as const))('%s:', (_name, { transcripts }) => {
    for (const { title } of transcripts) {
      it(title, async () => {
        const outcome = (await played.get(title)) ?? [];
        if (wanted === 'record') answers.set(title, outcome);
        expect(outcome).toEqual(answers.get(title));
      });
    }
  });
});
