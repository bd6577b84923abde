/**
 * `npm run sitewire -- admin check --url URL`: says what a deployment's configuration would make fail, before anybody uses it: the
 * settings that the edge reads, and whether each name resolves, each listener answers, and its certificate is trusted.
 */
import { lookup } from 'node:dns/promises';
import { connect } from 'node:tls';
import type { ConfigurationCheck, Listener } from '../protocol/configuration.ts';
import type { Operator } from './admin-client.ts';

const ANSWER_MS = 5_000;
const DAY_MS = 86_400_000;
/** A certificate that ends sooner was not renewed when it should have been. */
const SOON_MS = 14 * DAY_MS;

type Say = (outcome: 'ok' | 'warning' | 'failed', text: string) => void;

/** Prints a line for each finding. Throws if something would fail. */
export async function checkConfiguration(operator: Operator): Promise<void> {
  let failures = 0;
  const say: Say = (outcome, text) => {
    if (outcome === 'failed') failures += 1;
    console.log(`${outcome.padEnd(8)}${text}`);
  };
  const { findings, publicUrl, listeners } = await operator.call<ConfigurationCheck>('GET', '/check');
  for (const { setting, outcome, text } of findings)
    say(outcome === 'FAILURE' ? 'failed' : 'warning', `${setting} ${text}`);
  if (findings.every(({ outcome }) => outcome === 'WARNING')) say('ok', 'the settings of the edge can work');
  if (publicUrl !== null) await checkPublicUrl(publicUrl, say);
  await checkListener('AMQP_HOST', listeners.amqp, say);
  await checkListener('MQTT_HOST', listeners.mqtt, say);
  await checkListener('MQTT_HOST, with certificates,', listeners.mqttMtls, say);
  if (failures > 0) throw new Error(`${failures} would fail`);
}

async function checkPublicUrl(url: string, say: Say): Promise<void> {
  try {
    const { status } = await fetch(new URL('/healthz', url), { signal: AbortSignal.timeout(ANSWER_MS) });
    if (status === 200) say('ok', `PUBLIC_URL ${url} answers`);
    else say('failed', `PUBLIC_URL ${url} answers /healthz with ${status}: it is not this deployment`);
  } catch (error) {
    say('failed', `PUBLIC_URL ${url} does not answer: ${reasonOf(error)}`);
  }
}

async function checkListener(name: string, listener: Listener | null, say: Say): Promise<void> {
  if (!listener) return;
  const { host, port } = listener;
  const where = `${name} ${host}:${port}`;
  try {
    await lookup(host);
  } catch (error) {
    say('failed', `${where}: the name ${host} does not resolve (${reasonOf(error)})`);
    return;
  }
  try {
    const endMs = await endOfCertificate(listener);
    const day = new Date(endMs).toISOString().slice(0, 10);
    const isSoon = endMs < Date.now() + SOON_MS;
    say(isSoon ? 'warning' : 'ok', `${where} answers, with a certificate that is valid until ${day}`);
  } catch (error) {
    say('failed', `${where}: ${reasonOf(error)}`);
  }
}

/** Connects as a client does that trusts the listener's authority. Returns when its certificate ends. */
async function endOfCertificate({ host, port, ca }: Listener): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const socket = connect({ host, port, servername: host, ...(ca ? { ca } : {}), rejectUnauthorized: false });
  socket.setTimeout(ANSWER_MS, () => reject(new Error(`no TLS answer within ${ANSWER_MS / 1_000} s`)));
  socket.on('error', reject);
  socket.on('secureConnect', () => {
    const fault = socket.authorizationError;
    if (fault) reject(new Error(`clients do not trust its certificate: ${reasonOf(fault)}`));
    else resolve(Date.parse(socket.getPeerCertificate().valid_to));
  });
  try {
    return await promise;
  } finally {
    socket.destroy();
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  return cause instanceof Error ? `${error.message} (${cause.message || String(cause)})` : error.message;
}
