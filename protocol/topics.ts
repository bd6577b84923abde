/** MQTT topics of a device (spec: Device MQTT messages). */
export const DEVICE_PUBLISH_TOPICS = ['telemetry', 'status', 'ack'] as const;
export type DevicePublishTopic = (typeof DEVICE_PUBLISH_TOPICS)[number];

export function deviceTopic(deviceId: string, name: DevicePublishTopic | 'commands'): string {
  return `cpi/${deviceId}/${name}`;
}

/** Which of the device's own publish topics this is; undefined for any other topic, also those of other devices. */
export function devicePublishTopic(deviceId: string, topic: string): DevicePublishTopic | undefined {
  return DEVICE_PUBLISH_TOPICS.find((name) => deviceTopic(deviceId, name) === topic);
}

/** The topic permissions in the claims of a device's MQTT token (spec: Device MQTT). */
export function topicPermissions(deviceId: string): { publish: string[]; subscribe: string[] } {
  return {
    publish: DEVICE_PUBLISH_TOPICS.map((name) => deviceTopic(deviceId, name)),
    subscribe: [deviceTopic(deviceId, 'commands')],
  };
}
