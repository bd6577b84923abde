/**
 * `npm run token`: a token of the running stack, alone on standard output: a device's, to log in to MQTT with, or with `--admin`
 * a user's, to ask REST with.
 */
import { parseArgs } from 'node:util';
import { LIMIT } from '../protocol/limits.ts';
import { enterStack, findDevice, freshToken, identify } from './stack-device.ts';
import { readStack } from './stack-file.ts';

const USAGE = `npm run -s token -- [--device <id|name|serial>] [--expires-in <seconds>]   an MQTT token; without --device the seeded plant's gateway's
npm run -s token -- --admin                                                an access token: Authorization: Bearer …`;

const options = {
  device: { type: 'string' },
  'expires-in': { type: 'string' },
  admin: { type: 'boolean', default: false },
} as const;

try {
  const { device: word, 'expires-in': expiresIn, admin: isForAdmin } = parseArgs({ options }).values;
  if (isForAdmin && (word ?? expiresIn) !== undefined) throw new Error(`--admin goes alone\n\n${USAGE}`);
  const seconds = Number(expiresIn ?? LIMIT.mqttTokenSeconds);
  const { mqttTokenSecondsMin: least, mqttTokenSecondsMax: most } = LIMIT;
  if (!Number.isInteger(seconds) || seconds < least || seconds > most) {
    throw new Error(`--expires-in is ${least} to ${most} seconds, not "${expiresIn}"`);
  }
  const stack = readStack();
  const admin = await enterStack(stack);
  if (isForAdmin) {
    console.log(admin.accessToken);
    // Beside the token, so that $(…) takes the token alone.
    console.error(`of ${stack.admin.email}, good for 15 minutes`);
  } else {
    const device = await findDevice(admin, word ?? stack.plants[0]?.gatewayId ?? '');
    const { id, name, status } = device;
    if (status === 'PENDING') await identify(stack, device);
    const { token, expiresAt } = await freshToken(admin, id, seconds);
    console.log(token);
    console.error(`of ${name} ${id}, good until ${expiresAt}`);
  }
} catch (error) {
  const { message, code } = error as Error & { code?: string };
  console.error(code?.startsWith('ERR_PARSE_ARGS') ? `${message}\n\n${USAGE}` : message);
  process.exitCode = 1;
}
