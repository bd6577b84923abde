/** The key pair of RFC 8037, appendix A. It is public, so only tests use it. */
export const TOKEN_PRIVATE_KEY = {
  kty: 'OKP',
  crv: 'Ed25519',
  d: 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A',
  x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
};

const { d: _secret, ...publicPart } = TOKEN_PRIVATE_KEY;
export const TOKEN_PUBLIC_KEY = publicPart;
