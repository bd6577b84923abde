/** What the benchmark gives its application in the environment, and the names in RabbitMQ. */
import type { PartnerKey } from './checks.ts';
import type { Login } from './mosquitto.ts';

export interface Settings {
  database: { host: string; user: string; database: string };
  rabbitMq: {
    protocol: string;
    hostname: string;
    port: number;
    username: string;
    password: string;
    vhost: string;
  };
  mqttPort: number;
  mqttLogin: Login;
  key: PartnerKey;
  /** The port of REST; 0: any. */
  restPort: number;
}

/** Of the organization; also the name of its user in RabbitMQ. */
export const SLUG = 'acme';
export const VHOST = 'vcp';
/** All commands of partners. */
export const COMMAND_QUEUE = 'commands';
