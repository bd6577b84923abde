/** Formats the frames that a client received as lines to compare: the method's name, then its fields. */
import type { Fields } from '#support/bridge-amqp-frames.ts';
import type { PeerFrame } from '#support/bridge-amqp-peer.ts';
import { METHODS } from '#support/bridge-amqp-values.ts';
import { DEAD_LETTER_HEADERS } from './differences.ts';

/** Formats `QueueDeclareOk` as `queue.declare-ok`, the protocol's own name. */
function protocolName(name: string): string {
  const [classWord = '', ...words] = name.replace(/([a-z])([A-Z])/g, '$1 $2').split(' ');
  return `${classWord.toLowerCase()}.${words.join('-').toLowerCase()}`;
}

const NAME_OF = new Map(METHODS.map(({ id, name }) => [id, protocolName(name)]));
const ID_OF = new Map([...NAME_OF].map(([id, name]) => [name, id]));

export function methodId(name: string): number {
  const id = ID_OF.get(name);
  if (id === undefined) throw new Error(`there is no method ${name}`);
  return id;
}

export function frameName(frame: PeerFrame): string {
  return frame.type === 'method' ? (NAME_OF.get(frame.method) ?? '') : frame.type;
}

/** Formats the frames of one connection, channel by channel, because there is no order between channels. */
export function linesOf(frames: readonly PeerFrame[], isIntroduced = false): string[] {
  const channels = [...new Set(frames.map(({ channel }) => channel))].sort((left, right) => left - right);
  return channels.flatMap((channel) => {
    const lines = linesOfChannel(
      frames.filter((frame) => frame.channel === channel),
      isIntroduced,
    );
    return channel > 1 ? lines.map((line) => `#${channel} ${line}`) : lines;
  });
}

function linesOfChannel(frames: readonly PeerFrame[], isIntroduced: boolean): string[] {
  const confirmed = new Set<number>();
  return frames.flatMap((frame) => {
    if (frame.type === 'body') return [`body '${shorten(frame.content.toString('latin1'))}'`];
    if (frame.type === 'header') return [`header ${frame.size}${propertiesOf(frame.properties)}`];
    const name = frameName(frame);
    if (name === 'channel.open-ok') confirmed.clear();
    if (name === 'connection.start') return startLines(frame.fields, isIntroduced);
    if (name === 'basic.ack') return confirms(frame.fields, confirmed);
    return [`${name}${saysOf(name, frame.fields)}`];
  });
}

/** A broker may group confirms as it likes, so each tag gets its own line, in the order of confirmation. */
function confirms({ deliveryTag, multiple }: Fields, confirmed: Set<number>): string[] {
  const last = Number(deliveryTag);
  const first = multiple ? 1 : last;
  const lines: string[] = [];
  for (let tag = first; tag <= last; tag++) {
    if (multiple && confirmed.has(tag)) continue;
    confirmed.add(tag);
    lines.push(`basic.ack ${tag}`);
  }
  return lines;
}

function saysOf(name: string, fields: Fields): string {
  if (name.endsWith('.close')) {
    const { replyCode, replyText, classId, methodId: method } = fields;
    return ` ${replyCode} ${replyText} [${classId}/${method}]`;
  }
  const says = Object.entries(fields).flatMap(([key, value]) => {
    if (typeof value === 'boolean') return value ? [key] : [];
    const text = Buffer.isBuffer(value) ? value.toString('latin1') : String(value);
    return text === '' ? [] : [text];
  });
  return says.map((text) => ` ${text}`).join('');
}

function startLines(fields: Fields, isIntroduced: boolean): string[] {
  const { versionMajor, versionMinor, serverProperties, mechanisms, locales } = fields;
  const start = `connection.start ${versionMajor}-${versionMinor} ${mechanisms} ${locales}`;
  if (!isIntroduced) return [start];
  const { product, capabilities } = serverProperties as { product: string; capabilities: Fields };
  const able = Object.keys(capabilities).filter((name) => capabilities[name] === true);
  return [start, `product ${product}`, ...able.sort().map((name) => `able ${name}`)];
}

function propertiesOf(properties: Fields): string {
  const says = Object.entries(properties).flatMap(([key, value]) => {
    if (value === undefined) return [];
    if (key !== 'headers') return [`${key}=${value}`];
    const own = Object.entries(value as Fields).filter(([name]) => !DEAD_LETTER_HEADERS.includes(name));
    return own.length > 0 ? [`headers=${JSON.stringify(Object.fromEntries(own))}`] : [];
  });
  return says.map((text) => ` ${text}`).join('');
}

function shorten(text: string): string {
  return text.length <= 40 ? text : `${text.slice(0, 40)}… ${text.length}`;
}

/** Formats bytes that are not ASCII text as `\\xNN`. */
export function printable(line: string): string {
  return line.replace(/[^ -~]/g, (sign) => `\\x${sign.charCodeAt(0).toString(16).padStart(2, '0')}`);
}
