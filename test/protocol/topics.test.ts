/** Topics: a device reaches its own topics, and no spelling reaches another device's. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import {
  DEVICE_PUBLISH_TOPICS,
  devicePublishTopic,
  deviceTopic,
  topicPermissions,
} from '../../protocol/topics.ts';

const DEVICE = '3f2b8c1e-7a44-4d0e-9b61-5c1f0e2d3a4b';

it.each(DEVICE_PUBLISH_TOPICS)(
  'a device publishes to its own %s topic [spec: Device MQTT messages]',
  (name) => {
    expect(deviceTopic(DEVICE, name)).toBe(`cpi/${DEVICE}/${name}`);
    expect(devicePublishTopic(DEVICE, `cpi/${DEVICE}/${name}`)).toBe(name);
  },
);

it.each([
  `cpi/${DEVICE}/commands`,
  `cpi/${DEVICE.replace('3', '4')}/telemetry`,
  `cpi/${DEVICE.toUpperCase()}/telemetry`,
  `cpi/${DEVICE}x/telemetry`,
  `cpi/${DEVICE}/telemetry/`,
  `cpi/${DEVICE}/telemetry/x`,
  `/cpi/${DEVICE}/telemetry`,
  `cpi//${DEVICE}/telemetry`,
  `CPI/${DEVICE}/telemetry`,
  `cpi/${DEVICE}/Telemetry`,
  `cpi/${DEVICE}/telemetry\0`,
  `cpi/${DEVICE}/+`,
  `cpi/${DEVICE}/#`,
  'cpi/+/telemetry',
  '#',
  '$SYS/broker',
  '',
])('a device may not publish to the topic %j [spec: Device MQTT]', (topic) => {
  expect(devicePublishTopic(DEVICE, topic)).toBeUndefined();
});

it('no topic of one device is a topic of another [spec: Device MQTT]', () => {
  forAll(fc.uuid(), fc.uuid(), fc.constantFrom(...DEVICE_PUBLISH_TOPICS), (one, other, name) => {
    fc.pre(one !== other);
    expect(devicePublishTopic(one, deviceTopic(other, name))).toBeUndefined();
  });
});

it('a token allows three topics to publish and one to subscribe [spec: Device MQTT]', () => {
  expect(topicPermissions(DEVICE)).toEqual({
    publish: [`cpi/${DEVICE}/telemetry`, `cpi/${DEVICE}/status`, `cpi/${DEVICE}/ack`],
    subscribe: [`cpi/${DEVICE}/commands`],
  });
});
