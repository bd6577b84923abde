/**
 * A raw client gets the same answers as from RabbitMQ, frame by frame, except for one list of differences
 * [C-6.3].
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readAnswers } from './answers.ts';
import type { Broker } from './broker.ts';
import { DIFFERENCES } from './differences.ts';
import { GROUPS } from './groups.ts';
import { type Played, playAll } from './played.ts';
import { startSitewire } from './sitewire.ts';

const answers = readAnswers();
const titles = GROUPS.flatMap(({ transcripts }) => transcripts.map(({ title }) => title));

describe('a raw client gets the answer of RabbitMQ, or of DIFFERENCES, to', () => {
  let broker: Broker;
  let played: Played;

  beforeAll(async () => {
    broker = await startSitewire();
    played = playAll(broker, GROUPS);
  });
  afterAll(() => broker.stop());

  describe.each(GROUPS.map((group) => [group.name, group] as const))('%s:', (_name, { transcripts }) => {
    for (const { title } of transcripts) {
      it(title, async () => {
        expect(await played.get(title)).toEqual(DIFFERENCES[title]?.ours ?? answers.get(title));
      });
    }
  });
});

describe('the transcripts', () => {
  it('each have a unique title and an answer of RabbitMQ, and answers.txt has no other answers', () => {
    expect(new Set(titles).size).toBe(titles.length);
    expect([...answers.keys()].sort()).toEqual([...titles].sort());
  });

  it.each(Object.entries(DIFFERENCES))(
    'differ from RabbitMQ in each entry of DIFFERENCES, whose reason cites a clause: %s',
    (title, { ours, why }) => {
      expect(titles).toContain(title);
      expect(ours).not.toEqual(answers.get(title));
      expect(why).toMatch(/\[C-\d+\.\d+\]/);
    },
  );
});
