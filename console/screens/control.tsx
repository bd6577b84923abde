/** Sends a setpoint, a mode or an emergency: always through a dry run that shows what would change. */
import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { OPERATING_MODES } from '../../protocol/enums.ts';
import { api, read } from '../api/client.ts';
import { platformNow } from '../api/clock.ts';
import type { DryRun } from '../api/types.ts';
import { ConfirmField, Dialog } from '../parts/dialog.tsx';
import { CallForm, SelectField, TextField } from '../parts/form.tsx';
import { kw, localTime } from '../parts/format.tsx';
import { NumberField, numberIn } from '../parts/number-field.tsx';
import { Badge, Panel } from '../parts/ui.tsx';
import { T } from '../texts.ts';

type Family = 'site-setpoint' | 'mode' | 'emergency';

interface CommandBody {
  family: Family;
  payload: Record<string, unknown>;
  idempotencyKey: string;
}

interface Asked {
  family: Family;
  /** Of a setpoint: its window begins at this time. */
  payloadAt(nowMs: number): Record<string, unknown>;
  answer: DryRun;
  /** A setpoint as the console has read it. */
  understood: string | undefined;
}

const FAMILIES: readonly Family[] = ['site-setpoint', 'mode', 'emergency'];

export function ControlPanel({ plantId, sent, mode }: { plantId: string; sent: () => void; mode: string }) {
  const family = useSignal<Family>('site-setpoint');
  const asked = useSignal<Asked | undefined>(undefined);
  const ask = async (form: FormData) => {
    const payloadAt = (nowMs: number) => payloadOf(family.value, form, nowMs);
    const body = { family: family.value, payload: payloadAt(platformNow()) };
    const answer = await read(
      api.POST('/api/v1/plants/{id}/commands/dry-run', { params: { path: { id: plantId } }, body }),
    );
    asked.value = { family: family.value, payloadAt, answer, understood: understoodOf(family.value, form) };
  };
  return (
    <Panel title={T.control.title}>
      <fieldset class="tabs" aria-label={T.control.title}>
        {FAMILIES.map((one) => (
          <button
            key={one}
            type="button"
            class="small"
            aria-pressed={family.value === one}
            onClick={() => {
              family.value = one;
            }}
          >
            {T.control.families[one]}
          </button>
        ))}
      </fieldset>
      <CallForm submit={ask} label={T.control.ask} key={family.value}>
        {family.value === 'site-setpoint' && <SetpointFields />}
        {family.value === 'mode' && <ModeFields mode={mode} />}
        {family.value === 'emergency' && <EmergencyFields />}
      </CallForm>
      {asked.value && (
        <Confirm
          asked={asked.value}
          plantId={plantId}
          close={() => {
            asked.value = undefined;
          }}
          sent={sent}
        />
      )}
    </Panel>
  );
}

function payloadOf(family: Family, form: FormData, from: number): Record<string, unknown> {
  const text = (name: string) => String(form.get(name) ?? '').trim();
  const reason = text('reason') === '' ? {} : { reason: text('reason') };
  if (family === 'mode') return { mode: text('mode'), ...reason };
  if (family === 'emergency') return { type: text('type'), ...reason };
  const seconds = numberIn(form, 'seconds');
  return {
    type: 'POWER',
    targetValueKw: numberIn(form, 'kw'),
    direction: text('direction'),
    includeConsumption: true,
    priority: text('priority'),
    validFrom: new Date(from).toISOString(),
    ...(seconds === undefined ? {} : { validUntil: new Date(from + seconds * 1_000).toISOString() }),
  };
}

function understoodOf(family: Family, form: FormData): string | undefined {
  if (family !== 'site-setpoint') return undefined;
  const direction = form.get('direction') === 'EXPORT' ? 'EXPORT' : 'IMPORT';
  const { directions, understood } = T.control;
  return understood(numberIn(form, 'kw') ?? 0, directions[direction], numberIn(form, 'seconds'));
}

function SetpointFields() {
  return (
    <div class="fields">
      <NumberField name="kw" label={T.control.power} min={0} required />
      <SelectField label={T.control.direction} name="direction">
        <option value="IMPORT">{T.control.directions.IMPORT}</option>
        <option value="EXPORT">{T.control.directions.EXPORT}</option>
      </SelectField>
      <SelectField label={T.control.priority} name="priority">
        <option>NORMAL</option>
        <option>HIGH</option>
      </SelectField>
      <NumberField name="seconds" label={T.control.duration} hint={T.control.durationHint} min={1} integer />
    </div>
  );
}

function ModeFields({ mode }: { mode: string }) {
  return (
    <div class="fields">
      <SelectField label={T.control.mode} name="mode" defaultValue={mode}>
        {OPERATING_MODES.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </SelectField>
      <ReasonField />
    </div>
  );
}

function EmergencyFields() {
  return (
    <div class="fields">
      <SelectField label={T.control.emergency} hint={T.control.emergencyHint} name="type">
        <option value="STOP">{T.control.emergencies.STOP}</option>
        <option value="HOLD">{T.control.emergencies.HOLD}</option>
      </SelectField>
      <ReasonField />
    </div>
  );
}

function ReasonField() {
  return <TextField label={T.control.reason} name="reason" maxLength={200} />;
}

function Confirm({
  asked: { family, payloadAt, answer, understood },
  plantId,
  close,
  sent,
}: {
  asked: Asked;
  plantId: string;
  close: () => void;
  sent: () => void;
}) {
  const typed = useSignal('');
  const done = useSignal<string | undefined>(undefined);
  // A second try sends the same bytes, so it is the same command.
  const body = useRef<CommandBody | undefined>(undefined);
  const { acknowledgement } = answer;
  const isRejected = acknowledgement.status === 'REJECTED';
  const word = family === 'emergency' ? String(payloadAt(0).type) : undefined;
  const send = async () => {
    body.current ??= { family, payload: payloadAt(platformNow()), idempotencyKey: crypto.randomUUID() };
    const result = await read(
      api.POST('/api/v1/plants/{id}/commands', { params: { path: { id: plantId } }, body: body.current }),
    );
    const { status, message } = result.acknowledgement;
    done.value = [T.states[status] ?? status, message].filter(Boolean).join(': ');
    sent();
  };
  return (
    <Dialog title={T.control.confirm} close={close}>
      {understood !== undefined && <p>{understood}</p>}
      <DryRunResult answer={answer} />
      {done.value !== undefined ? (
        <p class="notice" role="status" tabIndex={-1} ref={(one) => one?.focus()}>
          {done.value}
        </p>
      ) : isRejected ? (
        <p class="notice">{T.control.rejected}</p>
      ) : (
        <CallForm
          submit={send}
          label={T.control.send}
          danger={word !== undefined}
          disabled={word !== undefined && typed.value !== word}
        >
          {word !== undefined && <ConfirmField word={word} typed={typed} />}
        </CallForm>
      )}
    </Dialog>
  );
}

/** What a command would do, in words. */
export function DryRunResult({ answer: { acknowledgement, stages, plan } }: { answer: DryRun }) {
  const refused = stages.filter(({ outcome }) => outcome === 'refused');
  return (
    <div class="dry-run">
      <p>
        <Badge state={acknowledgement.status} /> {acknowledgement.message ?? ''}
      </p>
      {refused.map(({ stage, message, constraint, limit, unit, admissible }) => (
        <p key={`${stage} ${constraint}`}>
          {message ?? stage}
          {constraint !== undefined && limit !== undefined && ` (${constraint}: ${limit} ${unit ?? ''})`}
          {admissible?.max !== undefined && ` ${T.control.atMost(admissible.max, admissible.unit)}`}
          {admissible?.min !== undefined && ` ${T.control.atLeast(admissible.min, admissible.unit)}`}
        </p>
      ))}
      {plan && (
        <ul>
          <li>{plan.onTop === null ? T.control.noPlace : plan.onTop ? T.control.onTop : T.control.waits}</li>
          {plan.displaces.map(({ commandId, level, ends }) => (
            <li key={commandId ?? level}>
              {ends === null
                ? T.control.putsBelow(T.plan.levels[level ?? 'MODE'])
                : T.control.ends(T.plan.levels[level ?? 'MODE'], ends)}
            </li>
          ))}
          {plan.waitsBelow && <li>{T.control.waitsBelow(T.plan.levels[plan.waitsBelow.level])}</li>}
          {plan.plantCommand && (
            <li>
              {T.control.plantGets(plan.plantCommand.action, commandedValue(plan.plantCommand.payload))}
              {plan.plantCommand.until && ` ${T.site.until(localTime(new Date(plan.plantCommand.until)))}`}
            </li>
          )}
          {plan.resumesAfter && <li>{T.control.resumes(localTime(new Date(plan.resumesAfter)))}</li>}
        </ul>
      )}
    </div>
  );
}

function commandedValue(payload: Record<string, unknown>): string {
  const { targetSignedKw, mode } = payload;
  if (typeof targetSignedKw === 'number') return kw(targetSignedKw);
  return typeof mode === 'string' ? mode : '';
}
