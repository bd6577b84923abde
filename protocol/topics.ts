/** MQTT topics of a device (spec: Device MQTT messages). */
export const DEVICE_PUBLISH_TOPICS = ['telemetry', 'status', 'ack'] as const;
export type DevicePublishTopic = (typeof DEVICE_PUBLISH_TOPICS)[number];

export function deviceTopic(deviceId: string, name: DevicePublishTopic | 'commands'): string {
  return `cpi/${deviceId}/${name}`;
}

/** Which of its own topics a device publishes to; undefined for every other topic, those of others included. */
export function devicePublishTopic(deviceId: string, topic: string): DevicePublishTopic | undefined {
  return DEVICE_PUBLISH_TOPICS.find((name) => deviceTopic(deviceId, name) === topic);
}

/** The claims of an MQTT token that say which topics it opens (spec: Device MQTT). */
export function topicPermissions(deviceId: string): { publish: string[]; subscribe: string[] } {
  return {
    publish: DEVICE_PUBLISH_TOPICS.map((name) => deviceTopic(deviceId, name)),
    subscribe: [deviceTopic(deviceId, 'commands')],
  };
}
