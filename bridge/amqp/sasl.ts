/** Reads user name and password from SASL: PLAIN, or AMQPLAIN for clients that send only that [C-6.3]. */
import { decodeMethod, type Fields, METHOD } from './wire/codec.ts';

export interface SaslCredential {
  username: string;
  password: string;
}

export const MECHANISMS = 'PLAIN AMQPLAIN';

/** Returns undefined for a mechanism that is not offered or a malformed response. */
export function readSasl(mechanism: string, response: Buffer): SaslCredential | undefined {
  if (mechanism === 'PLAIN') return readPlain(response);
  return mechanism === 'AMQPLAIN' ? readAmqplain(response) : undefined;
}

/** authzid NUL user NUL password; a non-empty authzid is rejected, as in RabbitMQ. */
function readPlain(response: Buffer): SaslCredential | undefined {
  const [authzid, username, password, ...rest] = response.toString('utf8').split('\0');
  if (authzid !== '' || !username || password === undefined || rest.length > 0) return undefined;
  return { username, password };
}

/**
 * Reads a field table with LOGIN and PASSWORD that has no length before it. To decode it, puts it as
 * client-properties into the arguments of a start-ok.
 */
function readAmqplain(response: Buffer): SaslCredential | undefined {
  const table = Buffer.alloc(4 + response.length + 6);
  table.writeUInt32BE(response.length, 0);
  response.copy(table, 4);
  // In a start-ok, mechanism, response and locale follow the table; here they are empty.
  try {
    const fields = decodeMethod(METHOD.connectionStartOk, table).clientProperties as Fields;
    const username = Object.hasOwn(fields, 'LOGIN') ? fields.LOGIN : undefined;
    const password = Object.hasOwn(fields, 'PASSWORD') ? fields.PASSWORD : undefined;
    if (typeof username !== 'string' || typeof password !== 'string' || username === '') return undefined;
    return { username, password };
  } catch {
    return undefined;
  }
}
