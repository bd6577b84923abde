/** What `promtool check metrics` asks of a page of metrics, asked of a running bridge; and that every series is there at once. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHOD } from '../../bridge/amqp/wire/codec.ts';
import { END_REASONS, REFUSAL_REASONS } from '../../bridge/reasons.ts';
import { publishFrames } from '../support/bridge-amqp-frames.ts';
import { TestEdge, VHOST } from '../support/bridge-edge.ts';
import { DEVICE_ID } from '../support/bridge-link.ts';
import { publishPacket } from '../support/bridge-mqtt-peer.ts';
import { ADDRESS, TestCertificates, WholeBridge } from '../support/bridge-whole.ts';
import { type Family, labelsOf, readExposition } from '../support/exposition.ts';

/** Those that prom-client brings and names. */
const FOREIGN = /^(process|nodejs)_/;
const UNITS = ['seconds', 'bytes', 'info', 'ratio'];

let certificates: TestCertificates;
let edge: TestEdge;
let bridge: WholeBridge;

beforeAll(async () => {
  certificates = await TestCertificates.create();
  edge = await TestEdge.start();
  bridge = await WholeBridge.start(edge, certificates);
});
afterAll(async () => {
  await bridge.stop();
  await edge.stop();
  certificates.remove();
});

async function allFamilies(): Promise<Family[]> {
  const response = await fetch(`http://${ADDRESS}:${bridge.ports.metrics}/metrics`);
  return readExposition(await response.text());
}

async function families(): Promise<Family[]> {
  return (await allFamilies()).filter(({ name }) => !FOREIGN.test(name));
}

/** A metric with these labels has that value in the end. */
function untilMetric(line: string, value: number): Promise<void> {
  return expect.poll(() => bridge.metric(line)).toBe(value);
}

describe('each metric of a bridge', () => {
  it('ends in _total if it is a counter, and only then, those of Node among them', async () => {
    for (const { name, type } of await allFamilies())
      expect([name, name.endsWith('_total')]).toEqual([name, type === 'counter']);
  });

  it('has a name of its own, a help and a type, and its name says its unit', async () => {
    const all = await families();
    expect(all.length).toBeGreaterThan(10);
    expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
    for (const { name, type, help, samples } of all) {
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

  it('that measures has buckets that rise to all there is', async () => {
    const measured = (await families()).filter(({ type }) => type === 'histogram');
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

  it('has every value of its labels from the start, at zero', async () => {
    const all = new Map(
      (await families()).map((family) => [family.name.slice('sitewire_bridge_'.length), family]),
    );
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
  it('of a partner is counted by what it came to, and measured', async () => {
    const [peer, link] = await Promise.all([bridge.partner(), edge.vhostLink()]);
    peer.send(METHOD.connectionTuneOk, await peer.takeMethod(METHOD.connectionTune));
    peer.send(METHOD.connectionOpen, { virtualHost: VHOST });
    await peer.takeMethod(METHOD.connectionOpenOk);
    await peer.openChannel(1);
    for (let count = 0; count < 3; count++) peer.write(publishFrames('x'));
    const seqs = [];
    for (let count = 0; count < 3; count++) seqs.push((await link.take('publish')).seq);
    const [one = 0, two = 0, three = 0] = seqs;
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
    await untilMetric('connections_ended_total{protocol="amqp",reason="client"}', 1);
  });

  it('of a device, too', async () => {
    const [peer, link] = await Promise.all([bridge.device(), edge.deviceLink()]);
    expect(await peer.takeConnack()).toBe(0);
    peer.write(publishPacket(`cpi/${DEVICE_ID}/telemetry`, '{}', { id: 1 }));
    link.send({ kind: 'stored', seqs: [(await link.take('publish')).seq] });
    await untilMetric('publish_results_total{protocol="mqtt",result="confirmed"}', 1);
    expect(await bridge.metric('publish_duration_seconds_count{protocol="mqtt"}')).toBe(1);
    expect(await bridge.metric('published_total{protocol="mqtt"}')).toBe(1);
  });
});
