/** The form of an alert rule. What a rule is about cannot be changed later. */
import { useSignal } from '@preact/signals';
import { api, read } from '../api/client.ts';
import type { AlertRule, Device, Member, Plant } from '../api/types.ts';
import { Dialog } from '../parts/dialog.tsx';
import { CallForm, Checks, Choices, Field, SelectField, TextField } from '../parts/form.tsx';
import { NumberField, numberIn } from '../parts/number-field.tsx';
import { T } from '../texts.ts';
import { SEVERITIES } from './trouble.ts';

/** What a rule may be about, and who may get its mails. */
export interface Around {
  plants: Plant[];
  devices: Device[];
  members: Member[];
}

/** Metrics that a site of every kind may have; others can be typed. */
const METRICS = [
  'gridPowerKw',
  'fvePowerKw',
  'batteryPowerKw',
  'consumptionPowerKw',
  'socPercent',
  'BESS-1/socPercent',
];

type Operator = AlertRule['operator'];
const OPERATORS = Object.keys(T.alertRules.operators) as Operator[];

/** What a new rule begins with. */
const FIRST = {
  ...{ name: '', severity: 'WARNING', metric: '', operator: 'GT', threshold: null },
  ...{ forSeconds: 60, cooldownSeconds: 300, mailTo: [] },
} satisfies Partial<AlertRule>;

export function RuleForm({
  edited,
  around,
  close,
  after,
}: {
  edited: AlertRule | 'new';
  around: Around;
  close: () => void;
  after: (call: Promise<unknown>) => Promise<void>;
}) {
  const first: Pick<AlertRule, keyof typeof FIRST> = edited === 'new' ? FIRST : edited;
  const operator = useSignal<Operator>(first.operator);
  const save = async (form: FormData) => {
    const text = (name: string) => String(form.get(name) ?? '').trim();
    const fields = {
      name: text('name'),
      severity: text('severity') as AlertRule['severity'],
      metric: text('metric'),
      operator: operator.value,
      ...(operator.value === 'ABSENT' ? {} : { threshold: numberIn(form, 'threshold') ?? 0 }),
      forSeconds: numberIn(form, 'forSeconds') ?? 0,
      cooldownSeconds: numberIn(form, 'cooldownSeconds') ?? 0,
      mailTo: form.getAll('mailTo').map(String),
    };
    if (edited === 'new') {
      const [kind, id] = text('about').split(' ');
      const about = id === undefined ? {} : kind === 'device' ? { deviceId: id } : { plantId: id };
      await after(read(api.POST('/api/v1/alerts', { body: { ...fields, ...about } })));
    } else {
      const path = { params: { path: { id: edited.id } } };
      await after(read(api.PATCH('/api/v1/alerts/{id}', { ...path, body: fields })));
    }
    close();
  };
  const label = edited === 'new' ? T.alertRules.create : T.organization.save;
  return (
    <Dialog title={edited === 'new' ? label : edited.name} close={close} keeps>
      <CallForm submit={save} label={label}>
        <TextField label={T.site.name} name="name" required maxLength={100} defaultValue={first.name} />
        <SelectField label={T.alerts.severity} name="severity">
          <Choices
            chosen={first.severity}
            of={SEVERITIES.map((one) => ({ id: one, name: T.states[one] ?? one }))}
          />
        </SelectField>
        {edited === 'new' && <AboutField around={around} />}
        <Field label={T.alertRules.metric} hint={T.alertRules.metricHint}>
          {(attributes) => (
            <>
              <input
                {...attributes}
                name="metric"
                list="rule-metrics"
                required
                maxLength={200}
                defaultValue={first.metric}
              />
              <datalist id="rule-metrics">
                {METRICS.map((one) => (
                  <option key={one} value={one} />
                ))}
              </datalist>
            </>
          )}
        </Field>
        <SelectField
          label={T.alertRules.condition}
          value={operator.value}
          onChange={(event) => {
            operator.value = event.currentTarget.value as Operator;
          }}
        >
          <Choices
            chosen={operator.value}
            of={OPERATORS.map((one) => ({ id: one, name: T.alertRules.operators[one] }))}
          />
        </SelectField>
        {operator.value !== 'ABSENT' && (
          <NumberField
            name="threshold"
            label={T.alertRules.threshold}
            first={first.threshold}
            sign
            required
          />
        )}
        <NumberField
          name="forSeconds"
          label={T.alertRules.forSeconds}
          first={first.forSeconds}
          integer
          required
          min={operator.value === 'ABSENT' ? 1 : 0}
        />
        <NumberField
          name="cooldownSeconds"
          label={T.alertRules.cooldown}
          first={first.cooldownSeconds}
          integer
          required
          min={60}
        />
        <Checks
          legend={T.alertRules.mailTo}
          name="mailTo"
          of={around.members.map(({ userId, name, email }) => ({
            value: userId,
            label: (
              <>
                {name} <span class="muted">{email}</span>
              </>
            ),
            isChecked: first.mailTo.includes(userId),
          }))}
        />
      </CallForm>
    </Dialog>
  );
}

/** All sites, one site, or one device. */
function AboutField({ around: { plants, devices } }: { around: Around }) {
  return (
    <SelectField label={T.alertRules.about} name="about">
      <option value="">{T.alertRules.allSites}</option>
      <optgroup label={T.nav.sites}>
        <Choices of={plants.map(({ id, name }) => ({ id: `plant ${id}`, name }))} />
      </optgroup>
      <optgroup label={T.nav.devices}>
        <Choices of={devices.map(({ id, name }) => ({ id: `device ${id}`, name }))} />
      </optgroup>
    </SelectField>
  );
}
