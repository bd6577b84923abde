/** The door (rule 1): only a bridge that proves itself sees that the link paths exist. */
import { verifyHmac } from '../../durable-objects/secrets/hmac.ts';
import {
  type BridgeProof,
  LINK_VERSION_HEADER,
  PROOF_HEADER,
  PROOF_TOLERANCE_MS,
  parseProof,
  proofSigningString,
} from '../../protocol/link/proof.ts';

/** What the bridge says of its client, or undefined without a valid proof. That it is used once, the object sees to. */
export function verifyBridge(request: Request, secret: string, now: number): BridgeProof | undefined {
  const header = request.headers.get(PROOF_HEADER);
  const parsed = header ? parseProof(header) : undefined;
  if (!parsed) return undefined;
  const path = new URL(request.url).pathname;
  const text = proofSigningString(parsed.proof, path, request.headers.get('authorization') ?? '');
  if (!verifyHmac(secret, text, parsed.mac)) return undefined;
  return Math.abs(now - parsed.proof.timeMs) <= PROOF_TOLERANCE_MS ? parsed.proof : undefined;
}

/** The version of the link's frames that the bridge speaks; a bridge that says nothing speaks the first. */
export function linkVersion(headers: Headers): number {
  const version = headers.get(LINK_VERSION_HEADER) ?? '';
  return /^\d{1,3}$/.test(version) ? Math.max(1, Number(version)) : 1;
}

/** User name and password of `Authorization: Basic`; undefined when there is none. */
export function basicCredentials(headers: Headers): { username: string; password: string } | undefined {
  const match = /^Basic ([A-Za-z0-9+/]+=*)$/.exec(headers.get('authorization') ?? '');
  if (!match?.[1]) return undefined;
  const text = decodeBase64(match[1]);
  if (text === undefined) return undefined;
  const colon = text.indexOf(':');
  if (colon < 0) return undefined;
  return { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

function decodeBase64(base64: string): string | undefined {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)));
  } catch {
    return undefined;
  }
}
