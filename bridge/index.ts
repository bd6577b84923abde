/** Starts a bridge from its environment; SIGTERM and SIGINT stop it gracefully, and so does the end of a parent that forked it. */
import { pino } from 'pino';
import { Bridge } from './bridge.ts';
import { readConfig } from './config.ts';

const STOP_TIMEOUT_MS = 10_000;

const config = readConfig(process.env);
const log = pino({ level: config.logLevel });
const bridge = new Bridge(config, log);
let stopping = false;

async function stop(signal: string): Promise<void> {
  if (stopping) return;
  stopping = true;
  log.info({ signal }, 'bridge stops');
  setTimeout(() => process.exit(1), STOP_TIMEOUT_MS).unref();
  await bridge.stop();
  process.exit(0);
}

process.on('SIGTERM', () => void stop('SIGTERM'));
process.on('SIGINT', () => void stop('SIGINT'));
process.on('disconnect', () => void stop('disconnect'));

try {
  const ports = await bridge.start();
  process.send?.({ ready: true, ports });
} catch (error) {
  log.fatal({ error }, 'bridge did not start');
  process.exit(1);
}
