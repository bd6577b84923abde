/** Alert rules: what opens an alert, and who gets a mail. */
import { useSignal } from '@preact/signals';
import { api, read } from '../api/client.ts';
import { readAlertRules, readPlants } from '../api/lists.ts';
import { may, organizationId } from '../api/session.ts';
import type { AlertRule, Member, Plant } from '../api/types.ts';
import { Empty, Shown, useLoad } from '../parts/load.tsx';
import { Badge, CallButton, CallForm, Dialog, Field, Panel, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';
import { SEVERITIES } from './trouble.ts';

/** Metrics that a site of every kind may have; others can be typed. */
const METRICS = [
  'gridPowerKw',
  'fvePowerKw',
  'batteryPowerKw',
  'consumptionPowerKw',
  'socPercent',
  'BESS-1/socPercent',
];

const OPERATORS = Object.keys(T.alertRules.operators) as AlertRule['operator'][];

export function AlertRules() {
  const id = organizationId.value ?? '';
  const loaded = useLoad(`alert rules ${id}`, async () => {
    const [rules, plants] = await Promise.all([readAlertRules(), readPlants()]);
    return { rules, plants };
  });
  const isCreating = useSignal(false);
  const open = () => {
    isCreating.value = true;
  };
  const close = () => {
    isCreating.value = false;
  };
  return (
    <Panel
      title={T.alertRules.title}
      actions={
        may('OPERATOR') && (
          <button type="button" onClick={open}>
            {T.alertRules.create}
          </button>
        )
      }
    >
      <Shown loaded={loaded}>
        {({ rules, plants }) => (
          <>
            {isCreating.value && <Create plants={plants} close={close} reload={loaded.reload} />}
            {rules.length === 0 ? (
              <Empty>{T.alertRules.none}</Empty>
            ) : (
              <Table
                caption={T.alertRules.title}
                columns={[
                  T.site.name,
                  T.alerts.severity,
                  T.alertRules.condition,
                  T.alerts.site,
                  T.alertRules.state,
                  ...(may('OPERATOR') ? [T.alerts.actions] : []),
                ]}
              >
                {rules.map((rule) => (
                  <Rule key={rule.id} rule={rule} plants={plants} reload={loaded.reload} />
                ))}
              </Table>
            )}
          </>
        )}
      </Shown>
    </Panel>
  );
}

function Rule({
  rule: { id, name, severity, metric, operator, threshold, forSeconds, plantId, deviceId, enabled },
  plants,
  reload,
}: {
  rule: AlertRule;
  plants: Plant[];
  reload: () => Promise<void>;
}) {
  const turn = async () => {
    await read(api.PATCH('/api/v1/alerts/{id}', { params: { path: { id } }, body: { enabled: !enabled } }));
    await reload();
  };
  return (
    <tr>
      <th scope="row" class="wrap">
        {name}
      </th>
      <td>
        <Badge state={severity} />
      </td>
      <td class="wrap">
        {T.alertRules.says(metric, T.alertRules.operators[operator], threshold, forSeconds)}
      </td>
      <td>
        {deviceId !== null ? (
          <a href={`/devices/${deviceId}`}>{T.alertRules.oneDevice}</a>
        ) : plantId === null ? (
          T.alertRules.allSites
        ) : (
          <a href={`/sites/${plantId}`}>{plants.find((plant) => plant.id === plantId)?.name ?? plantId}</a>
        )}
      </td>
      <td>
        <Badge state={enabled ? 'ENABLED' : 'DISABLED'} tone={enabled ? 'good' : 'quiet'} />
      </td>
      {may('OPERATOR') && (
        <td>
          <CallButton call={turn}>{enabled ? T.alertRules.disable : T.alertRules.enable}</CallButton>
        </td>
      )}
    </tr>
  );
}

function Create({
  plants,
  close,
  reload,
}: {
  plants: Plant[];
  close: () => void;
  reload: () => Promise<void>;
}) {
  const operator = useSignal<AlertRule['operator']>('GT');
  const members = useLoad('recipients', async () => {
    const params = { path: { id: organizationId.value ?? '' }, query: { limit: 100 } };
    return (await read(api.GET('/api/v1/organizations/{id}/members', { params }))).data;
  });
  const create = async (form: FormData) => {
    const text = (name: string) => String(form.get(name) ?? '').trim();
    const plantId = text('plantId');
    const body = {
      name: text('name'),
      severity: text('severity') as AlertRule['severity'],
      metric: text('metric'),
      operator: operator.value,
      ...(operator.value === 'ABSENT' ? {} : { threshold: Number(text('threshold')) }),
      forSeconds: Number(text('forSeconds')),
      ...(plantId === '' ? {} : { plantId }),
      mailTo: form.getAll('mailTo').map(String),
    };
    await read(api.POST('/api/v1/alerts', { body }));
    close();
    await reload();
  };
  return (
    <Dialog title={T.alertRules.create} close={close}>
      <CallForm submit={create} label={T.alertRules.create}>
        <Field label={T.site.name}>
          {(attributes) => <input {...attributes} name="name" required maxLength={100} />}
        </Field>
        <Field label={T.alerts.severity}>
          {(attributes) => (
            <select {...attributes} name="severity">
              {SEVERITIES.map((one) => (
                <option key={one} value={one} selected={one === 'WARNING'}>
                  {T.states[one]}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={T.alerts.site}>
          {(attributes) => (
            <select {...attributes} name="plantId">
              <option value="">{T.alertRules.allSites}</option>
              {plants.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={T.alertRules.metric} hint={T.alertRules.metricHint}>
          {(attributes) => (
            <>
              <input {...attributes} name="metric" list="rule-metrics" required maxLength={200} />
              <datalist id="rule-metrics">
                {METRICS.map((one) => (
                  <option key={one} value={one} />
                ))}
              </datalist>
            </>
          )}
        </Field>
        <Field label={T.alertRules.condition}>
          {(attributes) => (
            <select
              {...attributes}
              value={operator.value}
              onChange={(event) => {
                operator.value = event.currentTarget.value as AlertRule['operator'];
              }}
            >
              {OPERATORS.map((one) => (
                <option key={one} value={one}>
                  {T.alertRules.operators[one]}
                </option>
              ))}
            </select>
          )}
        </Field>
        {operator.value !== 'ABSENT' && (
          <Field label={T.alertRules.threshold}>
            {(attributes) => <input {...attributes} name="threshold" type="number" step="any" required />}
          </Field>
        )}
        <Field label={T.alertRules.forSeconds}>
          {(attributes) => (
            <input
              {...attributes}
              name="forSeconds"
              type="number"
              min={operator.value === 'ABSENT' ? 1 : 0}
              step="1"
              defaultValue="60"
              required
            />
          )}
        </Field>
        <Shown loaded={members}>{(all) => <Recipients members={all} />}</Shown>
      </CallForm>
    </Dialog>
  );
}

function Recipients({ members }: { members: Member[] }) {
  return (
    <fieldset>
      <legend>{T.alertRules.mailTo}</legend>
      {members.map(({ userId, name, email }) => (
        <label key={userId} class="check">
          <input type="checkbox" name="mailTo" value={userId} />
          <span>
            {name} <span class="muted">{email}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
