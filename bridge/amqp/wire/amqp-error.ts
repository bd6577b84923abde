/** Errors that close a channel or a connection, with RabbitMQ's codes and texts. */
const NAMES: Record<number, string> = {
  311: 'CONTENT_TOO_LARGE',
  320: 'CONNECTION_FORCED',
  403: 'ACCESS_REFUSED',
  404: 'NOT_FOUND',
  406: 'PRECONDITION_FAILED',
  501: 'FRAME_ERROR',
  502: 'SYNTAX_ERROR',
  503: 'COMMAND_INVALID',
  504: 'CHANNEL_ERROR',
  505: 'UNEXPECTED_FRAME',
  530: 'NOT_ALLOWED',
  540: 'NOT_IMPLEMENTED',
  541: 'INTERNAL_ERROR',
};

/** A bug of the bridge: no client can cause it. */
export const INTERNAL_ERROR = 541;

const SHORT_STRING_BYTES = 255;

/** Cuts a text between characters to the 255 UTF-8 bytes of a short string, and appends `mark` if it cuts. */
export function cutShortString(text: string, mark = ''): string {
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= SHORT_STRING_BYTES) return text;
  let end = SHORT_STRING_BYTES - mark.length;
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return `${bytes.toString('utf8', 0, end)}${mark}`;
}

export class AmqpError extends Error {
  readonly severity: 'channel' | 'connection';
  readonly code: number;
  /** The reply text of the close method, `NAME - what`, cut to 255 bytes. */
  readonly text: string;
  readonly classId: number;
  readonly methodId: number;

  /** `method` is the id of the offending method, 0 for none. */
  constructor(severity: 'channel' | 'connection', code: number, text: string, method = 0) {
    super(text);
    this.severity = severity;
    this.code = code;
    this.text = cutShortString(text, '...');
    this.classId = method >>> 16;
    this.methodId = method & 0xffff;
  }

  /** The fields of the close method for this error. */
  get fields(): Record<string, unknown> {
    const { code, text, classId, methodId } = this;
    return { replyCode: code, replyText: text, classId, methodId };
  }
}

export function connectionError(code: number, what: string, method = 0): AmqpError {
  return new AmqpError('connection', code, `${NAMES[code]} - ${what}`, method);
}

export function channelError(code: number, what: string, method: number): AmqpError {
  return new AmqpError('channel', code, `${NAMES[code]} - ${what}`, method);
}

/**
 * Closes the socket after `delayMs` without sending a frame, as RabbitMQ does in a state in which the client
 * would not expect a close frame.
 */
export class SilentClose extends Error {
  readonly delayMs: number;

  constructor(why: string, delayMs = 0) {
    super(why);
    this.delayMs = delayMs;
  }
}

/**
 * Converts any error to an AmqpError. A RangeError means that arguments were truncated, which is the client's
 * fault; every other error is a bug of the bridge.
 */
export function toAmqpError(error: unknown): AmqpError {
  if (error instanceof AmqpError) return error;
  return error instanceof RangeError
    ? connectionError(501, 'cannot decode')
    : connectionError(INTERNAL_ERROR, 'internal error');
}
