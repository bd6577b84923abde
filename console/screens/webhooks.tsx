/** Webhooks: where events are posted, with the last attempts; test, recover, enable. */
import { useSignal } from '@preact/signals';
import { EVENT_KINDS } from '../../protocol/routing-keys.ts';
import { api, read } from '../api/client.ts';
import { platformNow } from '../api/clock.ts';
import { readKeys } from '../api/lists.ts';
import { organizationId } from '../api/session.ts';
import type { ApiKey, Attempt, Webhook } from '../api/types.ts';
import { ConfirmButton, Dialog, useOpen } from '../parts/dialog.tsx';
import { About, CallButton, CallForm, Checks, Choices, SelectField, TextField } from '../parts/form.tsx';
import { Ago, FirstOf, ms, Time } from '../parts/format.tsx';
import { List, ListScreen, Shown, useLoad } from '../parts/load.tsx';
import { NumberField, numberIn } from '../parts/number-field.tsx';
import { Badge, Code, Pairs, Panel, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';

const HOUR = 3_600_000;
/** Attempts that are listed. */
const SHOWN = 50;

export function WebhooksScreen() {
  const loaded = useLoad(
    `webhooks ${organizationId.value}`,
    async () => {
      const [{ data: webhooks, meta }, keys] = await Promise.all([
        read(api.GET('/api/v1/partner/webhooks', { params: { query: { limit: 100 } } })),
        readKeys(),
      ]);
      return { webhooks, total: meta.total, keys };
    },
    15_000,
  );
  const creating = useOpen<true>();
  const secret = useOpen<string>();
  return (
    <ListScreen
      title={T.webhooks.title}
      create={{ role: 'ORG_ADMIN', label: T.webhooks.create, open: () => creating.open(true) }}
      above={
        secret.shown !== undefined && (
          <Dialog title={T.webhooks.secret} close={secret.close} keeps>
            <p class="notice">{T.keys.onceHint}</p>
            <Code label={T.webhooks.secret} text={secret.shown} />
          </Dialog>
        )
      }
      loaded={loaded}
    >
      {({ webhooks, total, keys }) => (
        <>
          {creating.shown && (
            <Create
              keys={keys}
              close={creating.close}
              done={(made) => {
                creating.close();
                secret.open(made);
                void loaded.reload();
              }}
            />
          )}
          <List of={webhooks} none={T.webhooks.none}>
            {webhooks.map((webhook) => (
              <Shows
                key={webhook.id}
                webhook={webhook}
                keyName={keys.find(({ id }) => id === webhook.keyId)?.name ?? webhook.keyId}
                after={loaded.after}
              />
            ))}
          </List>
          <FirstOf shown={webhooks.length} total={total} />
        </>
      )}
    </ListScreen>
  );
}

/** What is shown of a webhook below its head. */
type Listed = Omit<Webhook, 'delivery'>;

function Shows({
  webhook,
  keyName,
  after,
}: {
  webhook: Listed;
  keyName: string;
  after: (call: Promise<unknown>) => Promise<void>;
}) {
  const { id, url, types, status, statusReason, statusAt, description } = webhook;
  const path = { params: { path: { id } } };
  const isOpen = useSignal(false);
  const tested = useSignal<Attempt | undefined>(undefined);
  const test = async () => {
    tested.value = await read(api.POST('/api/v1/partner/webhooks/{id}/test', path));
  };
  return (
    <Panel title={url}>
      <p>
        <Badge state={status} /> {statusReason ?? ''} <Ago at={statusAt} /> · {T.webhooks.ofKey(keyName)} ·{' '}
        {types.join(', ')} {description}
      </p>
      <div class="actions">
        <CallButton call={test} about={url}>
          {T.webhooks.test}
        </CallButton>
        {status === 'DISABLED' && (
          <CallButton
            about={url}
            call={() => after(read(api.POST('/api/v1/partner/webhooks/{id}/enable', path)))}
          >
            {T.webhooks.enable}
          </CallButton>
        )}
        <ConfirmButton
          label={T.common.delete}
          about={url}
          asks={T.webhooks.deleteHint}
          call={() => after(read(api.DELETE('/api/v1/partner/webhooks/{id}', path)))}
        />
      </div>
      <p role="status">{tested.value && <Result attempt={tested.value} />}</p>
      <details
        onToggle={(event) => {
          isOpen.value = event.currentTarget.open;
        }}
      >
        <summary>
          {T.webhooks.attempts}
          <About what={url} />
        </summary>
        {isOpen.value && <Deliveries id={id} url={url} />}
      </details>
    </Panel>
  );
}

/** How an attempt ended. */
function Result({ attempt: { isDelivered, status, durationMs, error, answer } }: { attempt: Attempt }) {
  return (
    <>
      <Badge state={isDelivered ? 'SUCCESS' : 'FAILED'} /> {status ?? ''} {error ?? answer ?? ''} (
      {ms(durationMs)})
    </>
  );
}

/** How far the webhook has come, and its last attempts: read while they are shown. */
function Deliveries({ id, url }: { id: string; url: string }) {
  const path = { params: { path: { id } } };
  const loaded = useLoad(
    `webhook ${id}`,
    async () => await read(api.GET('/api/v1/partner/webhooks/{id}', path)),
    10_000,
  );
  const recovers = useSignal(false);
  const recover = async (form: FormData) => {
    const since = new Date(platformNow() - (numberIn(form, 'hours') ?? 0) * HOUR).toISOString();
    recovers.value = false;
    await loaded.after(read(api.POST('/api/v1/partner/webhooks/{id}/recover', { ...path, body: { since } })));
    recovers.value = true;
  };
  return (
    <>
      <Shown loaded={loaded}>{({ delivery }) => delivery && <Progress delivery={delivery} />}</Shown>
      <CallForm submit={recover} label={T.webhooks.recover}>
        <NumberField
          name="hours"
          label={T.webhooks.recoverHours}
          hint={T.webhooks.recoverHint}
          min={0.1}
          max={720}
          first={1}
          required
        />
      </CallForm>
      <p role="status">{recovers.value && T.webhooks.recovers}</p>
      <Attempts id={id} url={url} />
    </>
  );
}

function Progress({ delivery }: { delivery: NonNullable<Webhook['delivery']> }) {
  const { deliveredUpTo, lastSequence, failures, failingSince, nextAttemptAt, missedBefore, held } = delivery;
  const all = [
    [T.webhooks.backlog, Math.max(0, lastSequence - deliveredUpTo)],
    [T.webhooks.failures, failures === 0 ? undefined : failures],
    [T.webhooks.failingSince, failingSince && <Time at={failingSince} />],
    [T.webhooks.nextAttempt, nextAttemptAt && <Time at={nextAttemptAt} />],
    [T.webhooks.held, held && T.webhooks.heldBy(held.by, held.perMinute)],
    [T.webhooks.missed, missedBefore === null ? undefined : T.webhooks.missedBefore(missedBefore)],
  ] as const;
  return <Pairs of={all.filter(([, value]) => value !== undefined && value !== null)} />;
}

function Attempts({ id, url }: { id: string; url: string }) {
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
      {(all) => (
        <List of={all} none={T.webhooks.noAttempts}>
          <Table
            caption={`${T.webhooks.attempts} ${url}`}
            columns={[
              T.command.created,
              T.events.type,
              T.sites.status,
              T.webhooks.took,
              T.webhooks.answer,
              T.alerts.actions,
            ]}
          >
            {all.slice(0, SHOWN).map((one) => (
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
                    <CallButton call={resend(one.sequence)} about={`${one.type} ${one.sequence}`}>
                      {T.webhooks.resend}
                    </CallButton>
                  )}
                </td>
              </tr>
            ))}
          </Table>
        </List>
      )}
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
        <SelectField label={T.webhooks.key} name="keyId">
          <Choices of={keys.filter(({ isActive }) => isActive)} />
        </SelectField>
        <TextField label={T.webhooks.url} hint={T.webhooks.urlHint} name="url" type="url" required />
        <Checks
          legend={T.events.type}
          name="type"
          of={EVENT_KINDS.map((kind) => ({
            ...{ value: kind, label: T.events.kinds[kind], isChecked: kind !== 'telemetry' },
          }))}
        />
      </CallForm>
    </Dialog>
  );
}
