/**
 * Identity of a simulated device: provisioned once over REST, stored in a file, and kept valid with the
 * tokens that the platform sends. If the simulator was killed before it stored the device's package, the
 * device gets a new secret and a new token over REST, as an admin would request them.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import type { ProvisioningPackage, TokenAnswer } from '../../protocol/device-record.ts';
import { renewalSigningString } from '../../protocol/signing.ts';
import { AdminClient, type Login } from '../admin-client.ts';
import { writeSecretFile } from '../credentials.ts';

export interface IdentityOptions {
  edgeUrl: string;
  admin: Login;
  organizationId: string;
  deviceId: string;
  file: string;
}

/** What the device must store. */
interface StoredIdentity {
  deviceId: string;
  hmacSecret: string;
  token: string;
  tokenExpiresAt: string;
}

export class Identity {
  readonly #options: IdentityOptions;
  #stored: StoredIdentity;

  private constructor(options: IdentityOptions, stored: StoredIdentity) {
    this.#options = options;
    this.#stored = stored;
  }

  static async ensure(options: IdentityOptions): Promise<Identity> {
    const { file, deviceId } = options;
    const known = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as StoredIdentity) : undefined;
    if (known?.deviceId === deviceId) return new Identity(options, known);
    const identity = new Identity(options, await provision(options));
    identity.#keep();
    return identity;
  }

  get hmacSecret(): string {
    return this.#stored.hmacSecret;
  }

  get token(): string {
    return this.#stored.token;
  }

  takeToken(token: string, expiresAt: string): void {
    this.#stored = { ...this.#stored, token, tokenExpiresAt: expiresAt };
    this.#keep();
  }

  /** Gets a new token, authenticated by the device's secret, for when the current token is rejected. */
  async renew(): Promise<string> {
    const { deviceId, hmacSecret } = this.#stored;
    const ts = Date.now();
    const nonce = randomUUID();
    const sig = createHmac('sha256', hmacSecret)
      .update(renewalSigningString(deviceId, ts, nonce))
      .digest('hex');
    const url = `${this.#options.edgeUrl}/api/v1/devices/${deviceId}/mqtt-token/renew`;
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ts, nonce, sig }),
    });
    if (!response.ok) throw new Error(`cannot renew the token: ${response.status} ${await response.text()}`);
    const { token, expiresAt } = (await response.json()) as TokenAnswer;
    this.takeToken(token, expiresAt);
    return token;
  }

  #keep(): void {
    writeSecretFile(this.#options.file, this.#stored);
  }
}

async function provision({
  edgeUrl,
  admin: login,
  organizationId,
  deviceId,
}: IdentityOptions): Promise<StoredIdentity> {
  const admin = await AdminClient.enter(edgeUrl, login);
  admin.organizationId = organizationId;
  const { status, body } = await admin.ask<ProvisioningPackage>('POST', `/devices/${deviceId}/provision`);
  if (status === 200) {
    const { hmacSecret, mqttToken = '', tokenExpiresAt = '' } = body.security;
    return { deviceId, hmacSecret, token: mqttToken, tokenExpiresAt };
  }
  if (status !== 409) throw new Error(`cannot provision the device: ${JSON.stringify(body)}`);
  const { hmacSecret } = await admin.call<{ hmacSecret: string }>(
    'POST',
    `/devices/${deviceId}/rotate-secret`,
  );
  const { token, expiresAt } = await admin.call<TokenAnswer>('POST', `/devices/${deviceId}/mqtt-token`);
  return { deviceId, hmacSecret, token, tokenExpiresAt: expiresAt };
}
