/** User name and password out of a SASL response: PLAIN, and AMQPLAIN for clients that send nothing else [C-6.3]. */
import { decodeMethod, type Fields, METHOD } from './wire/codec.ts';

export interface SaslCredential {
  username: string;
  password: string;
}

export const MECHANISMS = 'PLAIN AMQPLAIN';

/** Undefined for a mechanism that is not offered, or a response that is malformed. */
export function readSasl(mechanism: string, response: Buffer): SaslCredential | undefined {
  if (mechanism === 'PLAIN') return readPlain(response);
  return mechanism === 'AMQPLAIN' ? readAmqplain(response) : undefined;
}

/** authzid NUL user NUL password; an authzid is refused, as RabbitMQ does. */
function readPlain(response: Buffer): SaslCredential | undefined {
  const [authzid, username, password, ...rest] = response.toString('utf8').split('\0');
  if (authzid !== '' || !username || password === undefined || rest.length > 0) return undefined;
  return { username, password };
}

/** A field table without its length: LOGIN and PASSWORD. Read as the client-properties of a start-ok. */
function readAmqplain(response: Buffer): SaslCredential | undefined {
  const table = Buffer.alloc(4 + response.length + 6);
  table.writeUInt32BE(response.length, 0);
  response.copy(table, 4);
  // An empty mechanism, response and locale follow the table.
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
