/** Alert rules: what opens an alert, and who gets a mail. */
import { api, read } from '../api/client.ts';
import { readAlertRules, readDevices, readMembers, readPlants } from '../api/lists.ts';
import { may, organizationId } from '../api/session.ts';
import type { AlertRule } from '../api/types.ts';
import { useOpen } from '../parts/dialog.tsx';
import { About, CallButton } from '../parts/form.tsx';
import { List, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Panel, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';
import { type Around, RuleForm } from './alert-rule-form.tsx';

export function AlertRules() {
  const id = organizationId.value ?? '';
  const loaded = useLoad(`alert rules ${id}`, async () => {
    const [rules, plants, devices, members] = await Promise.all([
      readAlertRules(),
      readPlants(),
      readDevices(),
      readMembers(id),
    ]);
    return { rules, around: { plants, devices, members } };
  });
  const edited = useOpen<AlertRule | 'new'>();
  return (
    <Panel
      title={T.alertRules.title}
      actions={
        may('OPERATOR') && (
          <button type="button" onClick={() => edited.open('new')}>
            {T.alertRules.create}
          </button>
        )
      }
    >
      <Shown loaded={loaded}>
        {({ rules, around }) => (
          <>
            {edited.shown && (
              <RuleForm edited={edited.shown} around={around} close={edited.close} after={loaded.after} />
            )}
            <List of={rules} none={T.alertRules.none}>
              <Table
                caption={T.alertRules.title}
                columns={[
                  T.site.name,
                  T.alerts.severity,
                  T.alertRules.condition,
                  T.alertRules.about,
                  T.alertRules.mails,
                  T.alertRules.state,
                  ...(may('OPERATOR') ? [T.alerts.actions] : []),
                ]}
              >
                {rules.map((rule) => (
                  <Rule
                    key={rule.id}
                    rule={rule}
                    around={around}
                    change={() => edited.open(rule)}
                    after={loaded.after}
                  />
                ))}
              </Table>
            </List>
          </>
        )}
      </Shown>
    </Panel>
  );
}

function Rule({
  rule,
  around: { plants, devices, members },
  change,
  after,
}: {
  rule: AlertRule;
  around: Around;
  change: () => void;
  after: (call: Promise<unknown>) => Promise<void>;
}) {
  const { id, name, severity, metric, operator, threshold, forSeconds, plantId, deviceId, enabled } = rule;
  const turn = () =>
    after(read(api.PATCH('/api/v1/alerts/{id}', { params: { path: { id } }, body: { enabled: !enabled } })));
  const recipients = rule.mailTo.map((one) => members.find(({ userId }) => userId === one)?.name ?? one);
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
          <a href={`/devices/${deviceId}`}>
            {devices.find((device) => device.id === deviceId)?.name ?? T.alertRules.oneDevice}
          </a>
        ) : plantId === null ? (
          T.alertRules.allSites
        ) : (
          <a href={`/sites/${plantId}`}>{plants.find((plant) => plant.id === plantId)?.name ?? plantId}</a>
        )}
      </td>
      <td class="wrap">{recipients.join(', ')}</td>
      <td>
        <Badge state={enabled ? 'ENABLED' : 'DISABLED'} tone={enabled ? 'good' : 'quiet'} />
      </td>
      {may('OPERATOR') && (
        <td>
          <div class="actions">
            <button type="button" onClick={change}>
              {T.alertRules.change}
              <About what={name} />
            </button>
            <CallButton call={turn} about={name}>
              {enabled ? T.alertRules.disable : T.alertRules.enable}
            </CallButton>
          </div>
        </td>
      )}
    </tr>
  );
}
