/** Requests to a Worker that sends its mails into memory, and the mails that they cause. */
import type { Env } from '../../../durable-objects/env.ts';
import { anonymous, bodyOf, type Call } from './client.ts';

export interface ReceivedMail {
  to: string;
  subject: string;
  text: string;
  /** The token in the text. */
  token: string;
  /** The whole message, as it goes to the mail server. */
  raw: string;
}

export class Mailbox {
  readonly mails: ReceivedMail[] = [];
  /** While this is set, no mail can be sent. */
  failure: string | undefined;
  readonly bindings: Partial<Env>;

  constructor(bindings: Partial<Env> = {}) {
    const fetch = async (_url: unknown, init: { body: Uint8Array }) => {
      if (this.failure) throw new Error(this.failure);
      this.mails.push(received(new TextDecoder().decode(init.body)));
      return new Response(null, { status: 204 });
    };
    this.bindings = { MAIL_FOLDER: { fetch } as unknown as Fetcher, ...bindings };
  }

  /** A request with a JSON body, with an access token or without one. */
  async call(
    method: NonNullable<Call['method']>,
    path: string,
    body?: unknown,
    accessToken?: string,
  ): Promise<Response> {
    const headers: Record<string, string> = accessToken ? { authorization: `Bearer ${accessToken}` } : {};
    return await anonymous.call(path, { method, headers, body }, this.bindings);
  }

  async read<Body>(
    method: NonNullable<Call['method']>,
    path: string,
    body: unknown,
    status: number,
    accessToken?: string,
  ): Promise<Body> {
    return await bodyOf<Body>(await this.call(method, path, body, accessToken), status);
  }

  /** The last mail to an address. */
  last(to: string): ReceivedMail {
    const found = this.mails.findLast((mail) => mail.to === to);
    if (!found) throw new Error(`no mail to ${to}`);
    return found;
  }
}

function received(raw: string): ReceivedMail {
  const [head = '', ...rest] = raw.split('\r\n\r\n');
  const header = (name: string) => new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]?.trim() ?? '';
  // Quoted-printable: soft line breaks are joined.
  const text = rest.join('\r\n\r\n').replaceAll('=\r\n', '').replaceAll('=3D', '=');
  const token = /^([A-Za-z0-9_-]{43})\r?$/m.exec(text)?.[1] ?? '';
  return { to: header('To'), subject: header('Subject'), text, token, raw };
}
