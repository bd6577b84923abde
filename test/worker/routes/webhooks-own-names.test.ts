/** A webhook cannot be sent to the deployment itself, or to a name that only a private network has [C-15.3]. */
import { env } from 'cloudflare:workers';
import { rowsFrom } from '#workerd/d1.ts';
import { webhookTest as it, WEBHOOKS, type WebhookAdmin } from '#workerd/webhooks.ts';
import { describe, expect, expectInvalid } from '#workerd/worker-test.ts';
import type { Env } from '../../../durable-objects/env.ts';

const HOSTS: Partial<Env> = {
  PUBLIC_URL: 'https://API.sitewire-prod.eu',
  AMQP_HOST: 'amqp.sitewire-prod.eu',
  MQTT_HOST: 'mqtt.sitewire-prod.eu.',
};
const REFUSED = [
  'https://api.sitewire-prod.eu/api/v1/csp-report',
  'https://api.sitewire-prod.eu.:8443/',
  'https://amqp.sitewire-prod.eu/',
  'https://MQTT.sitewire-prod.eu/',
  'https://sitewire.acme.workers.dev/',
  'https://metrics.monitoring.svc/',
  'https://router.home.arpa/',
  'https://wiki.corp/',
];

function rowsOf({ team }: WebhookAdmin): Promise<unknown[]> {
  return rowsFrom('SELECT * FROM webhooks WHERE organization_id = ? ORDER BY id', team.id);
}

describe('a POST and a PATCH of a webhook', () => {
  it('refuse the names of the deployment and private ones with 400, and store nothing [C-15.3]', async ({
    hooks,
    receiver,
  }) => {
    const { team, key } = hooks;
    const id = await hooks.makeEnabled();
    const before = await rowsOf(hooks);
    for (const url of REFUSED) {
      const body = { url, keyId: key.id, types: ['ack'] };
      const call = (path: string, options: object) =>
        team.orgAdmin.call(`${WEBHOOKS}${path}`, { org: team.id, ...options }, HOSTS);
      await expectInvalid(await call('', { method: 'POST', body }), 'url', url);
      await expectInvalid(await call(`/${id}`, { method: 'PATCH', body: { url } }), 'url', url);
    }
    expect(await rowsOf(hooks)).toEqual(before);
    expect(receiver.received).toHaveLength(1);
  });

  it('refuse the name of the listener that this deployment has [C-15.3]', async ({ hooks }) => {
    const url = `https://${env.MQTT_HOST}/hook`;
    await expectInvalid(await hooks.post({ url }), 'url', url);
  });

  it('accept another name of the same domain [C-15.3]', async ({ hooks, receiver }) => {
    const { team, key } = hooks;
    const own = { ...HOSTS, PUBLIC_URL: `https://api.${receiver.host}` };
    const body = { url: receiver.url, keyId: key.id, types: ['ack'] };
    const made = await team.orgAdmin.call(WEBHOOKS, { org: team.id, method: 'POST', body }, own);
    expect(made.status).toBe(201);
  });
});

describe('a webhook that was made before', () => {
  it('gets no post once its name is one of the deployment, and its attempt says why [C-15.3]', async ({
    hooks,
    receiver,
  }) => {
    const id = await hooks.makeEnabled();
    const { pathname } = new URL(receiver.url);
    const own = `https://${env.MQTT_HOST}${pathname}`;
    await env.DB.prepare('UPDATE webhooks SET url = ? WHERE id = ?').bind(own, id).run();
    await hooks.patch(id, { description: 'read again' });
    const attempt = (await (await hooks.act(id, 'test')).json()) as { error: string; status: null };
    expect(attempt).toMatchObject({ isDelivered: false, status: null });
    expect(attempt.error).toMatch(/^url: .*deployment/);
    expect(receiver.received).toHaveLength(1);
  });
});
