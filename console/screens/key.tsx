/** One API key: what it may do, whether it works now, and its end. */
import { useSignal } from '@preact/signals';
import { api, read } from '../api/client.ts';
import { may } from '../api/session.ts';
import type { ApiKey } from '../api/types.ts';
import { ConfirmField, Dialog, useOpen } from '../parts/dialog.tsx';
import { CallForm, TextField } from '../parts/form.tsx';
import { Ago, Time } from '../parts/format.tsx';
import { Shown, useLoad } from '../parts/load.tsx';
import { Badge, Heading, Pairs, Panel } from '../parts/ui.tsx';
import { T } from '../texts.ts';
import { DeadLetters } from './dead-letters.tsx';
import { NowPanel } from './key-now.tsx';
import { type Tested, TestResult, testKey } from './key-test.tsx';

export function KeyScreen({ params: { keyId = '' } }: { params: Record<string, string> }) {
  const path = { params: { path: { id: keyId } } };
  const loaded = useLoad(
    keyId,
    async () => await read(api.GET('/api/v1/partner/api-keys/{id}', path)),
    15_000,
  );
  return <Shown loaded={loaded}>{(key) => <Shows apiKey={key} reload={loaded.reload} />}</Shown>;
}

function Shows({ apiKey, reload }: { apiKey: ApiKey; reload: () => Promise<void> }) {
  const revoking = useOpen<true>();
  const { id, name, keyPrefix, partnerId, scopes, effectiveScopes, allowedPlantIds, allowedIps } = apiKey;
  const refused = scopes.filter((scope) => !effectiveScopes.includes(scope));
  return (
    <>
      <Heading title={name}>
        <Badge state={apiKey.isActive ? 'ACTIVE' : 'REVOKED'} />
        {apiKey.isActive && may('ORG_ADMIN') && (
          <button type="button" class="danger" onClick={() => revoking.open(true)}>
            {T.keys.revoke}
          </button>
        )}
      </Heading>
      <div class="columns">
        <Panel title={T.keys.may}>
          <ul class="plain-list">
            {effectiveScopes.map((scope) => (
              <li key={scope}>
                <code>{scope}</code> {T.scopes[scope] ?? ''}
              </li>
            ))}
          </ul>
          {refused.length > 0 && <p class="notice">{T.keys.withoutEffect(refused.join(', '))}</p>}
        </Panel>
        <Panel title={T.keys.details}>
          <Pairs
            of={[
              [T.keys.prefix, keyPrefix],
              [T.keys.partner, partnerId],
              [T.keys.vhost, apiKey.vhost ?? T.common.none],
              [
                T.keys.plants,
                allowedPlantIds === null ? T.keys.allPlants : <PlantLinks ids={allowedPlantIds} />,
              ],
              [T.keys.from, allowedIps.length === 0 ? T.keys.anyAddress : allowedIps.join(', ')],
              [T.keys.lastUsed, <Ago at={apiKey.lastUsedAt} />],
              [T.keys.expires, apiKey.expiresAt ? <Time at={apiKey.expiresAt} /> : T.common.never],
              [T.keys.createdBy, apiKey.creator.name],
              [T.keys.created, <Time at={apiKey.createdAt} />],
            ]}
          />
        </Panel>
      </div>
      {apiKey.isActive && apiKey.vhost !== null && <NowPanel id={id} />}
      {apiKey.isActive && apiKey.vhost !== null && may('ORG_ADMIN') && <Probe id={id} />}
      {apiKey.isActive && may('ADMIN') && <DeadLetters keyId={id} />}
      {revoking.shown && <Revoke apiKey={apiKey} close={revoking.close} done={reload} />}
    </>
  );
}

function PlantLinks({ ids }: { ids: string[] }) {
  return (
    <ul>
      {ids.map((id) => (
        <li key={id}>
          <a href={`/sites/${id}`}>{id.slice(0, 8)}…</a>
        </li>
      ))}
    </ul>
  );
}

function Probe({ id }: { id: string }) {
  const result = useSignal<Tested | undefined>(undefined);
  const test = async (form: FormData) => {
    result.value = await testKey(id, String(form.get('key')).trim());
  };
  return (
    <Panel title={T.keys.probe}>
      <p>{T.keys.probeHint}</p>
      <CallForm submit={test} label={T.keys.test}>
        <TextField
          label={T.keys.key}
          hint={T.keys.keyHint}
          name="key"
          type="password"
          autocomplete="off"
          required
        />
      </CallForm>
      <TestResult result={result.value} />
    </Panel>
  );
}

/** What ends with the key now. */
function Ends({ apiKey: { id, vhost } }: { apiKey: ApiKey }) {
  const loaded = useLoad(`ends ${id}`, async () => {
    const path = { params: { path: { id } } };
    const [status, webhooks] = await Promise.all([
      vhost === null ? undefined : read(api.GET('/api/v1/partner/api-keys/{id}/status', path)),
      read(api.GET('/api/v1/partner/webhooks', { params: { query: { keyId: id, limit: 1 } } })),
    ]);
    return { status, webhooks: webhooks.meta.total };
  });
  return (
    <Shown loaded={loaded}>
      {({ status, webhooks }) => {
        const { connections = [], queues = [] } = status ?? {};
        const messages = queues.reduce((sum, { ready, unacked }) => sum + ready + unacked, 0);
        return <p>{T.keys.endsNow(connections.length, messages, webhooks)}</p>;
      }}
    </Shown>
  );
}

function Revoke({ apiKey, close, done }: { apiKey: ApiKey; close: () => void; done: () => Promise<void> }) {
  const typed = useSignal('');
  const revoke = async () => {
    await read(api.DELETE('/api/v1/partner/api-keys/{id}', { params: { path: { id: apiKey.id } } }));
    await done();
    close();
  };
  return (
    <Dialog title={T.keys.revoke} close={close}>
      <p>{T.keys.revokeHint}</p>
      <Ends apiKey={apiKey} />
      <CallForm submit={revoke} label={T.keys.revoke} danger disabled={typed.value !== apiKey.name}>
        <ConfirmField word={apiKey.name} typed={typed} />
      </CallForm>
    </Dialog>
  );
}
