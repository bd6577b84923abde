/**
 * Starts a bridge with the configuration in its environment variables. SIGTERM, SIGINT and the exit of a
 * parent process that forked the bridge stop it gracefully; SIGHUP makes it read its TLS files again.
 */
import { pino } from 'pino';
import { Bridge } from './bridge.ts';
import { readConfig } from './config.ts';
import { BridgeLog } from './log.ts';

const STOP_TIMEOUT_MS = 10_000;

let log = new BridgeLog(pino());

try {
  const config = readConfig(process.env);
  const logger = pino({ level: config.logLevel });
  log = new BridgeLog(logger);
  const bridge = new Bridge(config, logger);
  let stopping = false;
  const stop = async (signal: string): Promise<void> => {
    if (stopping) return;
    stopping = true;
    log.write('bridge stopping', { signal });
    setTimeout(() => process.exit(1), STOP_TIMEOUT_MS).unref();
    await bridge.stop();
    process.exit(0);
  };
  for (const signal of ['SIGTERM', 'SIGINT', 'disconnect']) process.on(signal, () => void stop(signal));
  process.on('SIGHUP', () => void bridge.rereadTlsFiles());
  const ports = await bridge.start();
  process.send?.({ ready: true, ports });
} catch (error) {
  log.write('bridge did not start', { why: (error as Error).message });
  process.exit(1);
}
