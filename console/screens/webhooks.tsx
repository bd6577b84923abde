/** Webhooks: where events are posted, with the last attempts; test, recover, enable. */
import { useSignal } from '@preact/signals';
import { EVENT_KINDS } from '../../protocol/routing-keys.ts';
import { api, read } from '../api/client.ts';
import { may, organizationId } from '../api/session.ts';
import type { ApiKey, Webhook } from '../api/types.ts';
import { Ago, FirstOf, ms, Time } from '../parts/format.tsx';
import { Empty, Shown, useLoad } from '../parts/load.tsx';
import { Badge, CallButton, CallForm, Code, Dialog, Field, Heading, Panel, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';
import { readKeys } from './keys.tsx';

const HOUR = 3_600_000;

export function WebhooksScreen() {
  const loaded = useLoad(
    `webhooks ${organizationId.value}`,
    async () => {
      const [{ data: webhooks, meta }, keys] = await Promise.all([
        read(api.GET('/api/v1/partner/webhooks', { params: { query: { limit: 100 } } })),
        readKeys(),
      ]);
      return { webhooks, total: meta.total, keys: keys.data };
    },
    15_000,
  );
  const isCreating = useSignal(false);
  const secret = useSignal<string | undefined>(undefined);
  return (
    <>
      <Heading title={T.webhooks.title}>
        {may('ORG_ADMIN') && (
          <button
            type="button"
            class="primary"
            onClick={() => {
              isCreating.value = true;
            }}
          >
            {T.webhooks.create}
          </button>
        )}
      </Heading>
      {secret.value !== undefined && (
        <Dialog
          title={T.webhooks.secret}
          close={() => {
            secret.value = undefined;
          }}
        >
          <p class="notice">{T.keys.onceHint}</p>
          <Code label={T.webhooks.secret} text={secret.value} />
        </Dialog>
      )}
      <Shown loaded={loaded}>
        {({ webhooks, total, keys }) => (
          <>
            {isCreating.value && (
              <Create
                keys={keys}
                close={() => {
                  isCreating.value = false;
                }}
                done={(made) => {
                  isCreating.value = false;
                  secret.value = made;
                  void loaded.reload();
                }}
              />
            )}
            {webhooks.length === 0 ? (
              <Empty>{T.webhooks.none}</Empty>
            ) : (
              webhooks.map((webhook) => (
                <Shows
                  key={webhook.id}
                  webhook={{ ...webhook, delivery: null }}
                  keyName={keys.find(({ id }) => id === webhook.keyId)?.name ?? webhook.keyId}
                  reload={loaded.reload}
                />
              ))
            )}
            <FirstOf shown={webhooks.length} total={total} />
          </>
        )}
      </Shown>
    </>
  );
}

function Shows({
  webhook,
  keyName,
  reload,
}: {
  webhook: Webhook;
  keyName: string;
  reload: () => Promise<void>;
}) {
  const { id, url, types, status, statusReason, statusAt, description } = webhook;
  const path = { params: { path: { id } } };
  const isOpen = useSignal(false);
  const after = async (call: Promise<unknown>) => {
    await call;
    await reload();
  };
  return (
    <Panel title={url}>
      <p>
        <Badge state={status} /> {statusReason ?? ''} <Ago at={statusAt} /> · {T.webhooks.ofKey(keyName)} ·{' '}
        {types.join(', ')} {description}
      </p>
      <div class="actions">
        <CallButton call={() => after(read(api.POST('/api/v1/partner/webhooks/{id}/test', path)))}>
          {T.webhooks.test}
        </CallButton>
        <CallButton
          call={() =>
            after(
              read(
                api.POST('/api/v1/partner/webhooks/{id}/recover', {
                  ...path,
                  body: { since: new Date(Date.now() - HOUR).toISOString() },
                }),
              ),
            )
          }
        >
          {T.webhooks.recover}
        </CallButton>
        {status === 'DISABLED' && (
          <CallButton call={() => after(read(api.POST('/api/v1/partner/webhooks/{id}/enable', path)))}>
            {T.webhooks.enable}
          </CallButton>
        )}
        <CallButton call={() => after(read(api.DELETE('/api/v1/partner/webhooks/{id}', path)))} danger>
          {T.common.delete}
        </CallButton>
      </div>
      <details
        onToggle={(event) => {
          isOpen.value = event.currentTarget.open;
        }}
      >
        <summary>{T.webhooks.attempts}</summary>
        {isOpen.value && <Attempts id={id} />}
      </details>
    </Panel>
  );
}

/** The last attempts, read while they are shown. */
function Attempts({ id }: { id: string }) {
  const path = { params: { path: { id } } };
  const attempts = useLoad(
    `attempts ${id}`,
    async () => (await read(api.GET('/api/v1/partner/webhooks/{id}/attempts', path))).attempts,
    10_000,
  );
  const resend = (sequence: number) => async () => {
    await read(api.POST('/api/v1/partner/webhooks/{id}/resend', { ...path, body: { sequence } }));
    await attempts.reload();
  };
  return (
    <Shown loaded={attempts}>
      {(all) =>
        all.length === 0 ? (
          <Empty>{T.webhooks.noAttempts}</Empty>
        ) : (
          <Table
            caption={T.webhooks.attempts}
            columns={[
              T.command.created,
              T.events.type,
              T.sites.status,
              T.webhooks.took,
              T.webhooks.answer,
              T.alerts.actions,
            ]}
          >
            {all.slice(0, 50).map((one) => (
              <tr key={`${one.at} ${one.messageId}`}>
                <td>
                  <Time at={one.at} />
                </td>
                <td>{one.type}</td>
                <td>
                  <Badge state={one.isDelivered ? 'SUCCESS' : 'FAILED'} /> {one.status ?? ''}
                </td>
                <td>{ms(one.durationMs)}</td>
                <td class="wrap">{one.error ?? one.answer ?? ''}</td>
                <td>
                  {one.sequence !== null && (
                    <CallButton call={resend(one.sequence)}>{T.webhooks.resend}</CallButton>
                  )}
                </td>
              </tr>
            ))}
          </Table>
        )
      }
    </Shown>
  );
}

function Create({
  keys,
  close,
  done,
}: {
  keys: ApiKey[];
  close: () => void;
  done: (secret: string) => void;
}) {
  const create = async (form: FormData) => {
    const body = {
      keyId: String(form.get('keyId')),
      url: String(form.get('url')).trim(),
      types: form.getAll('type') as Webhook['types'],
    };
    done((await read(api.POST('/api/v1/partner/webhooks', { body }))).secret);
  };
  return (
    <Dialog title={T.webhooks.create} close={close}>
      <CallForm submit={create} label={T.webhooks.create}>
        <Field label={T.webhooks.key}>
          {(attributes) => (
            <select {...attributes} name="keyId">
              {keys
                .filter(({ isActive }) => isActive)
                .map(({ id, name }) => (
                  <option key={id} value={id}>
                    {name}
                  </option>
                ))}
            </select>
          )}
        </Field>
        <Field label={T.webhooks.url} hint={T.webhooks.urlHint}>
          {(attributes) => <input {...attributes} name="url" type="url" required />}
        </Field>
        <fieldset>
          <legend>{T.events.type}</legend>
          {EVENT_KINDS.map((kind) => (
            <label key={kind} class="check">
              <input type="checkbox" name="type" value={kind} defaultChecked={kind !== 'telemetry'} />
              <span>{T.events.kinds[kind]}</span>
            </label>
          ))}
        </fieldset>
      </CallForm>
    </Dialog>
  );
}
