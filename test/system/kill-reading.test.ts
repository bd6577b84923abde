/**
 * kill -9 while three clients read the events of one key: over AMQP, by polling and as a stream. All three get the same
 * texts in the same order, each once.
 */
import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { AmqpReader, Poller, Streamer } from '#support/journal-readers.ts';
import { chargeOrder, ReturningPartner } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { envelopeSigningString } from '../../protocol/signing.ts';

const COMMANDS = 200;
const IN_FLIGHT = 10;
const CUTS = 10;
const KILLS_AFTER = [60, 130];

interface Event {
  version: string;
  messageId: string;
  correlationId?: string;
  timestamp: string;
  source: string;
  siteId: string;
  payload: { status?: string };
  signature: string;
}

function isTelemetry(text: string): boolean {
  return text.includes('"dataQuality"');
}

/** The events besides telemetry, which a crash may lose. */
function kept(texts: readonly string[]): string[] {
  return texts.filter((text) => !isTelemetry(text));
}

function routingKeyOf(slug: string, { payload }: Event): string {
  const word = payload.status?.match(/^(ACCEPTED|QUEUED|REJECTED|PARTIAL)$/) ? 'command.ack' : 'execution';
  return `${slug}.event.${word}`;
}

describe('the events of two hundred commands', () => {
  const stack = suiteStack({ bridgeProcess: true });

  it('are the same over AMQP, in pages and in a stream that is cut ten times, while the edge is killed twice [C-12.1]', async () => {
    const { id: siteId, gateway } = await stack.addPlant();
    const key = await stack.addKey();
    const device = await stack.gateway(gateway);
    const options = stack.partnerOptions(key);
    const amqp = new AmqpReader(options);
    const source = { url: stack.edge.url, key: key.key };
    const poller = new Poller(source);
    const streamer = new Streamer(source);
    const partner = new ReturningPartner(options);
    try {
      await amqp.isReady;
      await eventually(() => partner.connected || undefined);
      const orders = Array.from({ length: COMMANDS }, () => chargeOrder(siteId));
      const waiting = orders.values();
      let published = 0;
      const publishAll = async () => {
        for (const order of waiting) {
          // An unconfirmed command is sent again with the same messageId.
          await eventually(async () => (await partner.publish(order)) || undefined, 60_000);
          published += 1;
        }
      };
      const all = Promise.all(Array.from({ length: IN_FLIGHT }, publishAll));
      const cuts = (async () => {
        for (let cut = 1; cut <= CUTS; cut++) {
          const from = streamer.texts.length;
          await eventually(
            () => streamer.texts.length >= from + Math.ceil(20 * Math.random()) || undefined,
            60_000,
          );
          streamer.cut();
        }
      })();
      for (const count of KILLS_AFTER) {
        await eventually(() => published >= count || undefined, 60_000);
        await stack.killEdge();
      }
      await Promise.all([all, cuts]);

      const ends = (texts: readonly string[]) =>
        kept(texts).filter((text) => /"status":"(COMPLETED|FAILED|DEVIATED)"/.test(text)).length;
      for (const texts of [() => poller.texts, () => streamer.texts, () => amqp.once])
        await eventually(() => ends(texts()) >= COMMANDS || undefined, 90_000);

      const texts = kept(poller.texts);
      expect(kept(streamer.texts)).toEqual(texts);
      expect(kept(amqp.once)).toEqual(texts);
      expect(new Set(poller.texts).size).toBe(poller.texts.length);
      expect([poller.gaps, streamer.gaps]).toEqual([0, 0]);
      const [first = 0] = poller.sequences;
      expect(poller.sequences).toEqual(poller.sequences.map((_, index) => first + index));
      expect(streamer.opened).toBeGreaterThan(CUTS);

      const { slug } = options;
      for (const text of texts) {
        const event = JSON.parse(text) as Event;
        const payloadText = /"payload":(.*),"signature":"[0-9a-f]{64}"\}$/.exec(text)?.[1] ?? '';
        const signed = envelopeSigningString(event, routingKeyOf(slug, event), payloadText) ?? '';
        expect(event.signature).toBe(createHmac('sha256', key.signingKey).update(signed).digest('hex'));
      }
    } finally {
      await Promise.all([amqp.stop(), poller.stop(), streamer.stop(), partner.stop(), device.stop()]);
    }
  }, 240_000);
});
