/**
 * The mails of the platform: subject and plain text of each. Names that people chose appear only in the text,
 * never in the subject.
 */

export interface Mail {
  kind: MailKind;
  to: string;
  subject: string;
  text: string;
}

export type MailKind =
  | 'invitation'
  | 'verify-email'
  | 'password-reset'
  | 'email-change'
  | 'email-change-notice'
  | 'alert'
  | 'webhook-disabled';

/** What the recipient does with a token: opens a page, if the deployment has a public URL, or calls the API. */
interface Use {
  token: string;
  /** Public origin, for example `https://api.example.com`. A request cannot choose it. */
  origin: string | undefined;
}

const IGNORE = 'If you did not ask for this, ignore this mail: nothing happens without the token.';

export function invitationMail(
  to: string,
  { organization, role, inviter }: { organization: string; role: string; inviter: string },
  use: Use,
): Mail {
  return {
    kind: 'invitation',
    to,
    subject: 'Invitation to an organization on Sitewire',
    text: textOf(
      `${inviter} invites you to the organization "${organization}" as ${role}.`,
      'You become a member only if you accept. The invitation is valid for seven days.',
      ...waysOf('accept-invitation', 'POST /api/v1/invitations/accept', use),
      'If you do not know the sender, ignore this mail.',
    ),
  };
}

export function verifyEmailMail(to: string, use: Use): Mail {
  return {
    kind: 'verify-email',
    to,
    subject: 'Confirm your e-mail address for Sitewire',
    text: textOf(
      'An account with this e-mail address was registered. Confirm that the address is yours to use the account.',
      'The token is valid for 24 hours.',
      ...waysOf('verify-email', 'POST /api/v1/auth/verify-email', use),
      IGNORE,
    ),
  };
}

export function passwordResetMail(to: string, use: Use): Mail {
  return {
    kind: 'password-reset',
    to,
    subject: 'Reset your Sitewire password',
    text: textOf(
      'A new password was requested for your account. The token is valid for 30 minutes.',
      ...waysOf('reset-password', 'POST /api/v1/auth/password-reset/confirm', use),
      IGNORE,
    ),
  };
}

export function emailChangeMail(to: string, use: Use): Mail {
  return {
    kind: 'email-change',
    to,
    subject: 'Confirm your new e-mail address for Sitewire',
    text: textOf(
      'An account is to use this e-mail address from now on. The token is valid for 24 hours.',
      ...waysOf('confirm-email', 'POST /api/v1/auth/email-change/confirm', use),
      IGNORE,
    ),
  };
}

export function emailChangeNotice(to: string): Mail {
  return {
    kind: 'email-change-notice',
    to,
    subject: 'Your Sitewire account is to get another e-mail address',
    text: textOf(
      'Another e-mail address was requested for your account. It applies when that address is confirmed.',
      'If you did not ask for this, change your password and cancel it with DELETE /api/v1/auth/email-change.',
    ),
  };
}

/** `lines`: one for each alert; `more`: how many others there are. */
export function alertMail(
  to: string,
  { organization, lines, more }: { organization: string; lines: readonly string[]; more: number },
): Mail {
  return {
    kind: 'alert',
    to,
    subject: 'Alerts on Sitewire',
    text: textOf(
      `Alerts of the organization "${organization}":`,
      ...lines,
      ...(more > 0 ? [`And ${more} more: GET /api/v1/alerts lists all.`] : []),
      'An alert rule names you as a recipient. An OPERATOR can change that: PATCH /api/v1/alerts/{id}, field mailTo.',
    ),
  };
}

/** `webhook`: how the mail names it; `why`: the cause as part of a sentence. */
export function webhookDisabledMail(
  to: string,
  { organization, webhook, why, id }: { organization: string; webhook: string; why: string; id: string },
): Mail {
  return {
    kind: 'webhook-disabled',
    to,
    subject: 'A webhook on Sitewire is disabled',
    text: textOf(
      `The webhook ${webhook} of the organization "${organization}" is disabled: ${why}.`,
      `Its last attempts: GET /api/v1/partner/webhooks/${id}/attempts`,
      `When the receiver works again, call POST /api/v1/partner/webhooks/${id}/enable. The events that are still kept follow in order.`,
    ),
  };
}

/** The token is behind the #, so that no server writes it into a log. */
function waysOf(page: string, call: string, { token, origin }: Use): string[] {
  const body = `${call}:\n${token}`;
  if (origin === undefined) return [`Send this token with ${body}`];
  return [`Open this page:\n${origin}/${page}#token=${token}`, `Or send its token with ${body}`];
}

function textOf(...paragraphs: string[]): string {
  return `${paragraphs.join('\n\n')}\n`;
}
