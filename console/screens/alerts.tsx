/** Alerts: acknowledge and resolve; and the rules that open them. */
import { api, read } from '../api/client.ts';
import { may, organizationId } from '../api/session.ts';
import type { Alert } from '../api/types.ts';
import { Dialog, useOpen } from '../parts/dialog.tsx';
import { About, CallForm, Choices, SelectField, TextField } from '../parts/form.tsx';
import { Ago, FirstOf } from '../parts/format.tsx';
import { List, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Heading, Table } from '../parts/ui.tsx';
import { setQuery, url } from '../router.tsx';
import { T } from '../texts.ts';
import { AlertRules } from './alert-rules.tsx';

const STATUSES = ['ACTIVE', 'ACKNOWLEDGED', 'RESOLVED'] as const;

export function AlertsScreen() {
  const status = STATUSES.find((one) => one === url.value.searchParams.get('status')) ?? 'ACTIVE';
  const loaded = useLoad(
    `alerts ${organizationId.value} ${status}`,
    async () => {
      const query = { status, limit: 100 };
      return (await read(api.GET('/api/v1/alerts', { params: { query } }))) as {
        data: Alert[];
        meta: { total: number };
      };
    },
    10_000,
  );
  const acting = useOpen<Acting>();
  return (
    <>
      <Heading title={T.nav.alerts}>
        <SelectField
          label={T.sites.status}
          value={status}
          onChange={(event) => setQuery({ status: event.currentTarget.value })}
        >
          <Choices chosen={status} of={STATUSES.map((one) => ({ id: one, name: T.states[one] ?? one }))} />
        </SelectField>
      </Heading>
      <Shown loaded={loaded}>
        {({ data: alerts, meta }) => (
          <List of={alerts} none={T.alerts.none}>
            <Table
              caption={T.nav.alerts}
              columns={[
                T.alerts.severity,
                T.alerts.message,
                T.alerts.site,
                T.alerts.since,
                T.alerts.last,
                T.alerts.count,
                T.alerts.note,
                ...(may('OPERATOR') ? [T.alerts.actions] : []),
              ]}
            >
              {alerts.map((alert) => (
                <AlertRow key={alert.id} alert={alert} act={acting.open} />
              ))}
            </Table>
            <FirstOf shown={alerts.length} total={meta.total} />
          </List>
        )}
      </Shown>
      {acting.shown && <ActDialog acting={acting.shown} close={acting.close} after={loaded.after} />}
      <AlertRules />
    </>
  );
}

/** What a member is about to do with an alert. */
interface Acting {
  alert: Alert;
  action: 'acknowledge' | 'resolve';
}

function AlertRow({ alert, act }: { alert: Alert; act: (acting: Acting) => void }) {
  const { severity, status, message, plantId, firstSeenAt, lastSeenAt, count, note } = alert;
  return (
    <tr>
      <td>
        <Badge state={severity} />
      </td>
      <th scope="row" class="wrap">
        {message}
      </th>
      <td>{plantId && <a href={`/sites/${plantId}`}>{plantId.slice(0, 8)}…</a>}</td>
      <td>
        <Ago at={firstSeenAt} />
      </td>
      <td>
        <Ago at={lastSeenAt} />
      </td>
      <td class="number">{count}</td>
      <td class="wrap">{note ?? ''}</td>
      {may('OPERATOR') && (
        <td>
          <div class="actions">
            {status === 'ACTIVE' && (
              <button type="button" onClick={() => act({ alert, action: 'acknowledge' })}>
                {T.alerts.acknowledge}
                <About what={message} />
              </button>
            )}
            {status !== 'RESOLVED' && (
              <button type="button" onClick={() => act({ alert, action: 'resolve' })}>
                {T.alerts.resolve}
                <About what={message} />
              </button>
            )}
          </div>
        </td>
      )}
    </tr>
  );
}

/** Outside of the list: an alert that ends by itself must not take the note away that is being written. */
function ActDialog({
  acting: {
    alert: { id, message, note },
    action,
  },
  close,
  after,
}: {
  acting: Acting;
  close: () => void;
  after: (call: Promise<unknown>) => Promise<void>;
}) {
  const submit = async (form: FormData) => {
    const given = String(form.get('note')).trim();
    const path = { params: { path: { id } }, body: given === '' ? {} : { note: given } };
    const call =
      action === 'resolve'
        ? api.POST('/api/v1/alerts/{id}/resolve', path)
        : api.POST('/api/v1/alerts/{id}/acknowledge', path);
    await after(read(call));
    close();
  };
  return (
    <Dialog title={`${T.alerts[action]}: ${message}`} close={close}>
      <CallForm submit={submit} label={T.alerts[action]}>
        <TextField label={T.alerts.noteOptional} name="note" maxLength={500} defaultValue={note ?? ''} />
      </CallForm>
    </Dialog>
  );
}
