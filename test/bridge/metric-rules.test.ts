/** The rules of `promtool check metrics` on a running bridge; each counter has its series from the start. */
import { describe, expect } from 'vitest';
import { takeSeqs } from '#support/bridge-amqp.ts';
import { publishFrames } from '#support/bridge-amqp-frames.ts';
import { DEVICE_ID } from '#support/bridge-link.ts';
import { publishPacket } from '#support/bridge-mqtt-peer.ts';
import { bridgeTest } from '#support/bridge-whole.ts';
import { type Family, labelsOf, readExposition } from '#support/exposition.ts';
import { END_REASONS, REFUSAL_REASONS } from '../../bridge/reasons.ts';

/** The metrics of prom-client itself. */
const FOREIGN = /^(process|nodejs)_/;
const UNITS = ['seconds', 'bytes', 'info', 'ratio'];

const it = bridgeTest
  .extend('allFamilies', async ({ bridge }) => readExposition(await (await bridge.fetch('/metrics')).text()))
  .extend('families', ({ allFamilies }) => allFamilies.filter(({ name }) => !FOREIGN.test(name)));

describe('each metric of a bridge', () => {
  it('ends in _total if and only if it is a counter, also those of Node', ({ allFamilies }) => {
    for (const { name, type } of allFamilies)
      expect([name, name.endsWith('_total')]).toEqual([name, type === 'counter']);
  });

  it('has a name of its own, a help and a type, and a histogram has its unit in its name', ({ families }) => {
    expect(families.length).toBeGreaterThan(10);
    expect(new Set(families.map(({ name }) => name)).size).toBe(families.length);
    for (const { name, type, help, samples } of families) {
      expect(name).toMatch(/^sitewire_bridge_[a-z]+(_[a-z]+)*$/);
      expect(name).not.toMatch(
        /_(milliseconds|ms|minutes|kilobytes|gauge|counter|histogram|count|sum|bucket)(_|$)/,
      );
      expect(help).toMatch(/^[A-Z0-9].{10,}[^.]$/);
      expect(['counter', 'gauge', 'histogram']).toContain(type);
      expect(name.endsWith('_total')).toBe(type === 'counter');
      if (type === 'histogram') expect(UNITS).toContain(name.split('_').at(-1));
      expect(samples.length).toBeGreaterThan(0);
    }
  });

  it('has buckets that rise to infinity if it is a histogram', ({ families }) => {
    const measured = families.filter(({ type }) => type === 'histogram');
    expect(measured).toHaveLength(2);
    for (const { name, samples } of measured) {
      for (const protocol of ['amqp', 'mqtt']) {
        const own = samples.filter(({ labels }) => labels.protocol === protocol);
        const bounds = own.flatMap(({ labels }) =>
          labels.le ? [Number(labels.le.replace('+Inf', 'Infinity'))] : [],
        );
        expect(bounds).toEqual([...bounds].sort((left, right) => left - right));
        expect(bounds.at(-1)).toBe(Number.POSITIVE_INFINITY);
        expect(own.map((sample) => sample.name)).toContain(`${name}_sum`);
        expect(own.find((sample) => sample.name === `${name}_count`)?.value).toBe(0);
      }
    }
  });

  it('has each label value from the start, at zero, if it is a counter', ({ families }) => {
    const all = new Map(families.map((family) => [family.name.replace('sitewire_bridge_', ''), family]));
    const protocol = ['amqp', 'mqtt'];
    for (const [name, reason] of [
      ['refused_clients_total', REFUSAL_REASONS],
      ['connections_ended_total', END_REASONS],
    ] as const) {
      const family = all.get(name) as Family;
      expect(labelsOf(family)).toEqual({ protocol, reason: [...reason].sort() });
      expect(family.samples).toHaveLength(2 * reason.length);
      expect(new Set(family.samples.map(({ value }) => value))).toEqual(new Set([0]));
    }
    for (const name of ['published_total', 'delivered_total', 'publish_results_total', 'dials_total'])
      expect(new Set(all.get(name)?.samples.map(({ value }) => value))).toEqual(new Set([0]));
    const [info] = all.get('build_info')?.samples ?? [];
    expect(info).toMatchObject({ value: 1, labels: { node: process.version } });
    expect(info?.labels.version).toMatch(/^\d+\.\d+\.\d+$/);
  });
});

describe('a publish', () => {
  it('is counted by its result if a partner sends it, and timed unless it was refused', async ({
    bridge,
  }) => {
    const { peer, link } = await bridge.openPartner();
    await peer.openChannel(1);
    for (let count = 0; count < 3; count++) peer.write(publishFrames('x'));
    const [one = 0, two = 0, three = 0] = await takeSeqs(link, 3);
    link.send(
      { kind: 'stored', seqs: [one] },
      { kind: 'unstored', seqs: [two] },
      { kind: 'refused', seq: three, severity: 'channel', code: 403, text: 'ACCESS_REFUSED - no' },
    );
    await peer.takeChannelClose();
    for (const result of ['confirmed', 'nacked', 'refused'])
      expect(await bridge.metric(`publish_results_total{protocol="amqp",result="${result}"}`)).toBe(1);
    expect(await bridge.metric('publish_duration_seconds_count{protocol="amqp"}')).toBe(2);
    expect(await bridge.metric('dial_duration_seconds_count{protocol="amqp"}')).toBe(1);
    peer.stream.destroy();
    await expect
      .poll(() => bridge.metric('connections_ended_total{protocol="amqp",reason="client"}'))
      .toBe(1);
  });

  it('is counted by its result and timed if a device sends it', async ({ bridge }) => {
    const { peer, link } = await bridge.openDevice();
    peer.write(publishPacket(`cpi/${DEVICE_ID}/telemetry`, '{}', { id: 1 }));
    await link.store();
    await expect
      .poll(() => bridge.metric('publish_results_total{protocol="mqtt",result="confirmed"}'))
      .toBe(1);
    expect(await bridge.metric('publish_duration_seconds_count{protocol="mqtt"}')).toBe(1);
    expect(await bridge.metric('published_total{protocol="mqtt"}')).toBe(1);
  });
});
