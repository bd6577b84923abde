/** The image's HEALTHCHECK: exits with 0 if the bridge is alive. Balancers check readiness with /readyz. */
import { env, exit } from 'node:process';

const { SITEWIRE_METRICS_HOST: host = '::', SITEWIRE_METRICS_PORT: port = '9464' } = env;
const isAny = host === '::' || host === '0.0.0.0';
const name = isAny ? 'localhost' : host.includes(':') ? `[${host}]` : host;

fetch(`http://${name}:${port}/healthz`).then(
  ({ ok }) => exit(ok ? 0 : 1),
  () => exit(1),
);
