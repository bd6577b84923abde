/** The image's HEALTHCHECK: ends with 0 if the bridge beside it is alive. Whether it is ready, /readyz says to a balancer. */
import { env, exit } from 'node:process';

const { SITEWIRE_METRICS_HOST: host = '::', SITEWIRE_METRICS_PORT: port = '9464' } = env;
const isAny = host === '::' || host === '0.0.0.0';
const name = isAny ? 'localhost' : host.includes(':') ? `[${host}]` : host;

fetch(`http://${name}:${port}/healthz`).then(
  ({ ok }) => exit(ok ? 0 : 1),
  () => exit(1),
);
