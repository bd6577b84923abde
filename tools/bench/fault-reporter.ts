/**
 * A gateway that reports a fault of each of its sub-devices, and the ends of the faults, in turn: each report causes an
 * alarm for each of them.
 */
import { connectAsync, type MqttClient } from 'mqtt';
import { deviceTopic } from '../../protocol/topics.ts';
import { type SeededPlant, SUB_DEVICES } from '../seed.ts';
import type { DeviceSide } from './instant-device.ts';
import { signedReading } from './plant-load.ts';

export const ALARMS_OF_REPORT = SUB_DEVICES.length;

export class FaultReporter {
  readonly siteId: string;
  /** When each report left. */
  readonly sentAt: number[] = [];
  readonly #client: MqttClient;
  readonly #gateway: SeededPlant['gateway'];

  private constructor(client: MqttClient, { id, gateway }: SeededPlant) {
    this.siteId = id;
    this.#client = client;
    this.#gateway = gateway;
  }

  static async connect(side: DeviceSide, plant: SeededPlant): Promise<FaultReporter> {
    const { id, token } = plant.gateway;
    const client = await connectAsync({
      ...{ protocol: 'mqtts', host: 'localhost', port: side.ports.mqtts, ca: side.ca, clean: true },
      ...{ clientId: id, username: id, password: token },
    });
    return new FaultReporter(client, plant);
  }

  /** Number of alarms that its reports caused. */
  get alarms(): number {
    return this.sentAt.length * ALARMS_OF_REPORT;
  }

  report(): void {
    this.sentAt.push(performance.now());
    this.repeat();
  }

  /** Reports the same again, as a gateway does every few seconds: no new alarm, but the plant is judged again. */
  repeat(): void {
    const fault = this.sentAt.length % 2;
    const signals = SUB_DEVICES.map(({ deviceId }) => [`${deviceId}/fault`, fault]);
    const text = signedReading(this.#gateway, JSON.stringify(Object.fromEntries(signals)));
    this.#client.publish(deviceTopic(this.#gateway.id, 'telemetry'), text, { qos: 1 });
  }

  end(): void {
    this.#client.end(true);
  }
}
