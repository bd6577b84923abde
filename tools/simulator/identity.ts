/**
 * Who a simulated device is: provisioned over REST once, kept in a file, alive by the tokens that it is sent. One that was
 * cut off before it had written down its package gets a new secret and a new token, as an admin would give it them.
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

/** What it must not lose. */
interface Kept {
  deviceId: string;
  hmacSecret: string;
  token: string;
  tokenExpiresAt: string;
}

export class Identity {
  readonly #options: IdentityOptions;
  #kept: Kept;

  private constructor(options: IdentityOptions, kept: Kept) {
    this.#options = options;
    this.#kept = kept;
  }

  static async ensure(options: IdentityOptions): Promise<Identity> {
    const { file, deviceId } = options;
    const known = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Kept) : undefined;
    if (known?.deviceId === deviceId) return new Identity(options, known);
    const identity = new Identity(options, await provision(options));
    identity.#keep();
    return identity;
  }

  get hmacSecret(): string {
    return this.#kept.hmacSecret;
  }

  get token(): string {
    return this.#kept.token;
  }

  takeToken(token: string, expiresAt: string): void {
    this.#kept = { ...this.#kept, token, tokenExpiresAt: expiresAt };
    this.#keep();
  }

  /** A token by its secret alone, when the one it has is refused. */
  async renew(): Promise<string> {
    const { deviceId, hmacSecret } = this.#kept;
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
    if (!response.ok)
      throw new Error(`the token is not renewed: ${response.status} ${await response.text()}`);
    const { token, expiresAt } = (await response.json()) as TokenAnswer;
    this.takeToken(token, expiresAt);
    return token;
  }

  #keep(): void {
    writeSecretFile(this.#options.file, this.#kept);
  }
}

async function provision({
  edgeUrl,
  admin: login,
  organizationId,
  deviceId,
}: IdentityOptions): Promise<Kept> {
  const admin = await AdminClient.enter(edgeUrl, login, 'Acme Admin');
  admin.organizationId = organizationId;
  const { status, body } = await admin.ask<ProvisioningPackage>('POST', `/devices/${deviceId}/provision`);
  if (status === 200) {
    const { hmacSecret, mqttToken = '', tokenExpiresAt = '' } = body.security;
    return { deviceId, hmacSecret, token: mqttToken, tokenExpiresAt };
  }
  if (status !== 409) throw new Error(`the device is not provisioned: ${JSON.stringify(body)}`);
  const { hmacSecret } = await admin.call<{ hmacSecret: string }>(
    'POST',
    `/devices/${deviceId}/rotate-secret`,
  );
  const { token, expiresAt } = await admin.call<TokenAnswer>('POST', `/devices/${deviceId}/mqtt-token`);
  return { deviceId, hmacSecret, token, tokenExpiresAt: expiresAt };
}
