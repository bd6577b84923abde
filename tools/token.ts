/**
 * `npm run sitewire -- token`: prints a token of the running stack and nothing else on standard output: an MQTT token of
 * a device, or with `--admin` a user's access token for REST.
 */
import { parseArgs } from 'node:util';
import { LIMIT } from '../protocol/limits.ts';
import { showHelp } from './show-help.ts';
import { enterStack, findDevice, freshToken, identify } from './stack-device.ts';
import { readStack } from './stack-file.ts';

const USAGE = `npm run -s sitewire -- token [--device <id|name|serial>] [--expires-in <seconds>]   an MQTT token; default device: the gateway of the seeded plant
npm run -s sitewire -- token --admin                                                an access token: Authorization: Bearer …`;
showHelp(USAGE);

const options = {
  device: { type: 'string' },
  'expires-in': { type: 'string' },
  admin: { type: 'boolean', default: false },
} as const;

try {
  const { device: word, 'expires-in': expiresIn, admin: isForAdmin } = parseArgs({ options }).values;
  if (isForAdmin && (word ?? expiresIn) !== undefined)
    throw new Error(`--admin cannot be combined with other options\n\n${USAGE}`);
  const seconds = Number(expiresIn ?? LIMIT.mqttTokenSeconds);
  const { mqttTokenSecondsMin: least, mqttTokenSecondsMax: most } = LIMIT;
  if (!Number.isInteger(seconds) || seconds < least || seconds > most) {
    throw new Error(`--expires-in must be ${least} to ${most} seconds, not "${expiresIn}"`);
  }
  const stack = readStack();
  const admin = await enterStack(stack);
  if (isForAdmin) {
    console.log(admin.accessToken);
    // On standard error, so that $(…) captures only the token.
    console.error(`access token of ${stack.admin.email}, valid for 15 minutes`);
  } else {
    const device = await findDevice(admin, word ?? stack.plants[0]?.gatewayId ?? '');
    const { id, name, status } = device;
    if (status === 'PENDING') await identify(stack, device);
    const { token, expiresAt } = await freshToken(admin, id, seconds);
    console.log(token);
    console.error(`MQTT token of ${name} ${id}, valid until ${expiresAt}`);
  }
} catch (error) {
  const { message, code } = error as Error & { code?: string };
  console.error(code?.startsWith('ERR_PARSE_ARGS') ? `${message}\n\n${USAGE}` : message);
  process.exitCode = 1;
}
