/** A key pair for device tokens: the public half, which the edge verifies with, to stdout; the private half to stderr. */
import { generateKeyPairSync } from 'node:crypto';

const { publicKey, privateKey } = generateKeyPairSync('ed25519');
console.log(JSON.stringify(publicKey.export({ format: 'jwk' })));
console.error(JSON.stringify(privateKey.export({ format: 'jwk' })));
