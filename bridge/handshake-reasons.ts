/** Why TLS handshakes fail: a closed list of short reasons, such as `expired-certificate`. */
export const LISTENERS = ['amqps', 'mqtts', 'mtls'] as const;
export type ListenerName = (typeof LISTENERS)[number];

export const HANDSHAKE_REASONS = [
  'version',
  'cipher',
  'not-tls',
  'no-certificate',
  'expired-certificate',
  'untrusted-certificate',
  'nameless-certificate',
  'alert',
  'timeout',
  'client',
  'other',
] as const;
export type HandshakeReason = (typeof HANDSHAKE_REASONS)[number];

const BY_CODE: Readonly<Record<string, HandshakeReason>> = {
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'version',
  ERR_SSL_VERSION_TOO_LOW: 'version',
  ERR_SSL_NO_SHARED_CIPHER: 'cipher',
  ERR_SSL_NO_SUITABLE_KEY_SHARE: 'cipher',
  ERR_SSL_NO_SUITABLE_SIGNATURE_ALGORITHM: 'cipher',
  ERR_SSL_NO_SHARED_SIGNATURE_ALGORITHMS: 'cipher',
  ERR_SSL_WRONG_VERSION_NUMBER: 'not-tls',
  ERR_SSL_HTTP_REQUEST: 'not-tls',
  ERR_SSL_HTTPS_PROXY_REQUEST: 'not-tls',
  ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE: 'no-certificate',
  ERR_TLS_HANDSHAKE_TIMEOUT: 'timeout',
  CERT_HAS_EXPIRED: 'expired-certificate',
};

/** `code` is from OpenSSL, the verification of a client certificate (`isVerification`) or the socket. */
export function handshakeReason(code: string, isVerification: boolean): HandshakeReason {
  const known = BY_CODE[code];
  if (known) return known;
  if (isVerification) return 'untrusted-certificate';
  if (!code.startsWith('ERR_')) return 'client';
  return code.includes('_ALERT_') ? 'alert' : 'other';
}
