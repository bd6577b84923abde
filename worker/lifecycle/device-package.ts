/** Builds the provisioning package of a device (spec: Provisioning package). */
import type { ProvisioningPackage } from '../../protocol/device-record.ts';
import type { AuthMethod } from '../../protocol/enums.ts';
import { formatInstant } from '../../protocol/ids.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import type { Env } from '../env.ts';
import type { IssuedCertificate } from './device-certificate.ts';

const DEFAULT_PORTS = { TOKEN: '8885', MTLS: '8883' } as const;

/** The device's login credential, in addition to its hmacSecret. */
export interface DeviceProof {
  token?: { token: string; expiresAtMs: number };
  certificate?: IssuedCertificate;
}

/** Whether this deployment accepts devices with this authentication method. */
export function hasListener(env: Env, authMethod: AuthMethod): boolean {
  if (!env.MQTT_HOST) return false;
  return authMethod === 'TOKEN' || Boolean(env.DEVICE_CA_CERTIFICATE && env.DEVICE_CA_KEY);
}

export function packageOf(
  env: Env,
  deviceId: string,
  authMethod: AuthMethod,
  hmacSecret: string,
  { token, certificate }: DeviceProof,
): ProvisioningPackage {
  const given = authMethod === 'TOKEN' ? env.MQTT_PORT : env.MQTT_MTLS_PORT;
  const port = Number(given ?? DEFAULT_PORTS[authMethod]);
  return {
    deviceId,
    authMethod,
    mqtt: {
      broker: `mqtts://${env.MQTT_HOST}:${port}`,
      port,
      topics: {
        telemetry: deviceTopic(deviceId, 'telemetry'),
        status: deviceTopic(deviceId, 'status'),
        commands: deviceTopic(deviceId, 'commands'),
        ack: deviceTopic(deviceId, 'ack'),
      },
    },
    security: {
      hmacSecret,
      ...(token ? { mqttToken: token.token, tokenExpiresAt: formatInstant(token.expiresAtMs) } : {}),
      ...(certificate ? certificateFields(certificate) : {}),
      ...trustedBy(env),
    },
    protocol: {
      version: '1.0',
      signatureAlgorithm: 'HMAC-SHA256',
      timestampToleranceMs: LIMIT.timestampToleranceMs as 300_000,
    },
  };
}

export function certificateFields({ certificate, privateKey, expiresAtMs }: IssuedCertificate) {
  return {
    certificate,
    ...(privateKey === undefined ? {} : { privateKey }),
    certificateExpiresAt: formatInstant(expiresAtMs),
  };
}

/** The CA that devices must trust; empty if operating systems trust the listener's certificate. */
export function trustedBy(env: Env): { caCertificate?: string } {
  return env.MQTT_CA ? { caCertificate: env.MQTT_CA } : {};
}
