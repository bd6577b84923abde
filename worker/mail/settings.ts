/** The settings of mail [C-15.5]. A setting that cannot work is said by `/readyz`, not by the first mail. Pure. */
import { plainText } from '../../protocol/text.ts';
import { email } from '../../protocol/user.ts';
import type { Env } from '../env.ts';

export interface Sender {
  name: string;
  address: string;
}

export interface MailServer {
  host: string;
  port: number;
  isTls: boolean;
  credentials: { user: string; pass: string } | undefined;
}

/** `address`, or `Name <address>`, whose name may be in quotes. */
const SENDER = /^\s*(?:"((?:[^"\\]|\\.)*)"|([^<>"]*?))\s*<([^<>]+)>\s*$/;
const DEFAULT_NAME = 'Sitewire';

/** Undefined if the text is no sender. */
export function senderOf(text: string): Sender | undefined {
  const [, quoted, plain, inner] = SENDER.exec(text) ?? [];
  const address = email.safeParse(inner?.trim() ?? text.trim());
  const name = plainText.safeParse(quoted?.replace(/\\(.)/g, '$1') || plain?.trim() || DEFAULT_NAME);
  return address.success && name.success ? { name: name.data, address: address.data } : undefined;
}

/** Of `smtps://user:password@host:465`, or `smtp://…:587`. Undefined if the text is neither. */
export function serverOf(text: string): MailServer | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || (url.protocol !== 'smtps:' && url.protocol !== 'smtp:') || url.hostname === '')
    return undefined;
  const isTls = url.protocol === 'smtps:';
  const [user, pass] = [decoded(url.username), decoded(url.password)];
  if (user === undefined || pass === undefined) return undefined;
  return {
    host: url.hostname,
    port: url.port === '' ? (isTls ? 465 : 587) : Number(url.port),
    isTls,
    credentials: user === '' ? undefined : { user, pass },
  };
}

/** What is wrong with the settings, without their values; undefined if they can work, or mail is off. */
export function mailFault({ SMTP_URL, MAIL_FROM, EMAIL, MAIL_FOLDER, PUBLIC_URL }: Env): string | undefined {
  if (SMTP_URL === undefined && EMAIL === undefined && MAIL_FOLDER === undefined) return undefined;
  const isNeeded = SMTP_URL !== undefined || EMAIL !== undefined;
  if ((isNeeded || MAIL_FROM) && !senderOf(MAIL_FROM ?? ''))
    return 'MAIL_FROM must be the e-mail address that mails are sent from, or Name <address>';
  if (SMTP_URL !== undefined && !serverOf(SMTP_URL))
    return 'SMTP_URL must be smtps://user:password@host:465 or smtp://user:password@host:587, with %XX for special characters';
  if (PUBLIC_URL !== undefined && !URL.canParse(PUBLIC_URL))
    return 'PUBLIC_URL must be the URL of the deployment, for example https://sitewire.example';
  return undefined;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
