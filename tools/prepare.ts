/**
 * Checks and prepares what a stack needs before any part of it starts. Throws a message for the user if
 * something is wrong.
 */
import { mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { type CertificateFiles, ensureCertificates } from './certificates.ts';
import { ensureSecrets, type StackSecrets } from './credentials.ts';
import { lockFolder } from './folder-lock.ts';
import { endLeftovers, markChildren } from './leftover.ts';
import { assertFree, freePort, portOf } from './ports.ts';
import { type SimulatorSetting, settingOf } from './simulator/behaviour.ts';
import { takeRequest } from './simulator/requested-behaviour.ts';
import { dataFolder, removeStack } from './stack-file.ts';

export interface Prepared {
  /** Real path of the data folder; locked while this process lives. */
  folder: string;
  behaviour: SimulatorSetting;
  ports: { http: number; amqps: number; mqtts: number; mtls: number; metrics: number };
  secrets: StackSecrets;
  certificates: CertificateFiles;
}

export async function prepare(): Promise<Prepared> {
  // 1. settings from the environment
  const behaviour = settingOf('SITEWIRE_SIMULATOR', process.env.SITEWIRE_SIMULATOR || 'on');
  const asked = {
    http: portOf('SITEWIRE_HTTP_PORT', 8787),
    amqps: portOf('SITEWIRE_AMQPS_PORT', 5671),
    mqtts: portOf('SITEWIRE_MQTTS_PORT', 8885),
    mtls: portOf('SITEWIRE_MTLS_PORT', 8883),
    metrics: portOf('SITEWIRE_METRICS_PORT', 9464),
  };
  // The edge must know these ports before the bridge listens on them.
  const free = () => freePort(Object.values(asked));
  const ports = {
    ...asked,
    amqps: asked.amqps || (await free()),
    mqtts: asked.mqtts || (await free()),
    mtls: asked.mtls || (await free()),
  };

  // 2. lock the folder, end what an earlier stack left running, check the ports
  mkdirSync(dataFolder(), { recursive: true });
  const folder = realpathSync(dataFolder());
  await lockFolder(folder);
  removeStack(folder);
  takeRequest(folder);
  markChildren(folder);
  await endLeftovers(folder);
  await assertFree({
    SITEWIRE_HTTP_PORT: ports.http,
    SITEWIRE_AMQPS_PORT: ports.amqps,
    SITEWIRE_MQTTS_PORT: ports.mqtts,
    SITEWIRE_MTLS_PORT: ports.mtls,
    SITEWIRE_METRICS_PORT: ports.metrics,
  });

  // 3. secrets and certificates
  const secrets = ensureSecrets(folder);
  const certificates = await ensureCertificates(join(folder, 'certificates'));
  return { folder, behaviour, ports, secrets, certificates };
}
