/** One command: its life as a line with the duration of each leg, its messages, and how to send it again. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { api, read } from '../api/client.ts';
import { may } from '../api/session.ts';
import { openPlantStream } from '../api/stream.ts';
import type { Command, DryRun, Timeline } from '../api/types.ts';
import { escaped } from '../parts/escaped.ts';
import { CallButton } from '../parts/form.tsx';
import { ms, Time } from '../parts/format.tsx';
import { List, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Code, Heading, Pairs, Panel } from '../parts/ui.tsx';
import { signedTextOf } from '../signature.ts';
import { T } from '../texts.ts';
import { DryRunResult } from './control.tsx';
import { askedFor } from './site-panels.tsx';
import { snippets } from './snippets.ts';

const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;
const SETTLE_MS = 100;
/** The shortest time between two reads because of events. */
const APART_MS = 2_000;
/** The last steps are noted within a second of their event. */
const POLL_MS = 10_000;

export function CommandScreen({
  params: { plantId = '', commandId = '' },
}: {
  params: Record<string, string>;
}) {
  const path = { params: { path: { id: plantId, commandId } } };
  const loaded = useLoad(
    commandId,
    async () => await read(api.GET('/api/v1/plants/{id}/commands/{commandId}/timeline', path)),
    POLL_MS,
  );
  const reload = useRef(loaded.reload);
  reload.current = loaded.reload;
  // Each event of the plant may be about this command.
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let readAtMs = Number.NEGATIVE_INFINITY;
    const stream = openPlantStream(plantId, ({ kind }) => {
      if (kind === 'telemetry' || timer !== undefined) return;
      timer = setTimeout(
        () => {
          timer = undefined;
          readAtMs = performance.now();
          void reload.current();
        },
        Math.max(SETTLE_MS, readAtMs + APART_MS - performance.now()),
      );
    });
    return () => {
      stream.close();
      clearTimeout(timer);
    };
  }, [plantId, commandId]);
  return <Shown loaded={loaded}>{(timeline) => <Shows timeline={timeline} plantId={plantId} />}</Shown>;
}

function Shows({ timeline, plantId }: { timeline: Timeline; plantId: string }) {
  const { command, steps } = timeline;
  return (
    <>
      <Heading title={`${T.command.types[command.commandType]} ${askedFor(command)}`}>
        <Badge state={command.status} />
        <a href={`/sites/${plantId}`}>{T.command.toSite}</a>
      </Heading>
      <Panel title={T.command.life}>
        <ol class="timeline">
          {steps.map((step, index) => (
            <li key={`${step.at} ${step.step} ${step.reason} ${step.by}`} data-step={step.step}>
              <span class="leg">{index === 0 ? '' : `+${ms(step.tookMs)}`}</span>
              <span class="step">
                <strong>{T.command.steps[step.step]}</strong>{' '}
                {step.reason && <Reason text={step.reason} plantId={plantId} />}{' '}
                {step.by && <span class="muted">{step.by}</span>}{' '}
                {step.attempt !== undefined && step.attempt > 1 && (
                  <span>{T.command.attempt(step.attempt)}</span>
                )}
              </span>
              <Time at={step.at} />
            </li>
          ))}
        </ol>
      </Panel>
      <div class="columns">
        <Panel title={T.command.details}>
          <Pairs of={detailsOf(command, plantId)} />
        </Panel>
        <Panel title={T.command.decided}>
          {command.decision && (
            <Code label={T.command.decision} text={JSON.stringify(command.decision, null, 2)} />
          )}
          {command.results && (
            <Code label={T.command.results} text={JSON.stringify(command.results, null, 2)} />
          )}
          <SignaturePanel timeline={timeline} />
        </Panel>
      </div>
      <Messages timeline={timeline} />
      <Again command={command} plantId={plantId} />
    </>
  );
}

/** What the platform found of the signature, and what that means. */
function SignaturePanel({ timeline: { signature, timestamp, command } }: { timeline: Timeline }) {
  // A command of a person is no message, so there is no text to sign.
  const isMessage = command.keyPrefix !== null && command.routingKey !== '' && timestamp !== null;
  const signed = isMessage ? signedTextOf({ ...command, timestamp }) : undefined;
  return (
    <>
      <h3>{T.command.signature}</h3>
      <p>
        {signature === null ? (
          T.command.notRecorded
        ) : (
          <>
            <Badge state={signature === 'valid' ? 'signed' : signature} tone={SIGNATURE_TONES[signature]} />{' '}
            {T.command.signatures[signature]}
          </>
        )}
      </p>
      {timestamp !== null && (
        <p class="muted">
          {T.command.stamped} <Time at={timestamp} />
        </p>
      )}
      {signed !== undefined && (
        <>
          <Code label={T.signature.signed} text={signed} />
          <p class="muted">{T.command.signedHint}</p>
        </>
      )}
    </>
  );
}

const SIGNATURE_TONES = { valid: 'good', 'not-needed': 'quiet', missing: 'bad', mismatch: 'bad' } as const;

/** What the sender sent, and what each device of the plant got. */
function Messages({ timeline: { command, timestamp, messages } }: { timeline: Timeline }) {
  const { messageId, correlationId, source, siteId, payload } = command;
  const sent = {
    messageId,
    ...(correlationId === null ? {} : { correlationId }),
    ...(timestamp === null ? {} : { timestamp }),
    ...{ source, siteId, payload },
  };
  return (
    <Panel title={T.command.messages}>
      <div class="columns">
        <Code label={T.command.payload} text={JSON.stringify(sent, null, 2)} />
        <List of={messages} none={T.command.noMessage}>
          {messages.map((one) => (
            <Code
              key={`${one.deviceId} ${one.cmdId} ${JSON.stringify(one.payload)}`}
              label={T.command.toDevice(one.deviceId.slice(0, 8), one.cmdId === null)}
              text={JSON.stringify(one, null, 2)}
            />
          ))}
        </List>
      </div>
    </Panel>
  );
}

/** A reason may name another command by its id. */
function Reason({ text, plantId }: { text: string; plantId: string }) {
  const id = UUID.exec(text)?.[0];
  if (id === undefined) return <span>{text}</span>;
  const [before, after] = text.split(id);
  return (
    <span>
      {before}
      <a href={`/sites/${plantId}/commands/${id}`}>{id.slice(0, 8)}…</a>
      {after}
    </span>
  );
}

function detailsOf(command: Command, plantId: string) {
  const { id, messageId, correlationId, routingKey, source, keyPrefix, priority, target } = command;
  const { validFrom, validUntil, rejectionCode, message, reason, targetValueKw, actualValueKw } = command;
  const all = [
    [T.command.id, id],
    [T.command.messageId, escaped(messageId)],
    [T.command.correlationId, correlationId && escaped(correlationId)],
    [T.command.routingKey, escaped(routingKey)],
    [T.command.source, keyPrefix ?? escaped(source)],
    [T.command.priority, priority],
    [T.command.target, target],
    [T.command.validFrom, validFrom && <Time at={validFrom} />],
    [T.command.validUntil, validUntil && <Time at={validUntil} />],
    [
      T.command.measured,
      actualValueKw === undefined ? undefined : T.command.ofTarget(actualValueKw, targetValueKw),
    ],
    [T.command.rejection, rejectionCode],
    [T.command.text, message && escaped(message)],
    [T.command.reason, reason && <Reason text={reason} plantId={plantId} />],
  ] as const;
  return all.filter(([, value]) => value !== undefined && value !== null && value !== '');
}

const FAMILY_OF = {
  SITE_SETPOINT: 'site-setpoint',
  DEVICE_COMMAND: 'device',
  MODE_CHANGE: 'mode',
  EMERGENCY: 'emergency',
} as const;

function Again({ command, plantId }: { command: Command; plantId: string }) {
  const answer = useSignal<DryRun | undefined>(undefined);
  const { commandType, payload } = command;
  const family = commandType in FAMILY_OF ? FAMILY_OF[commandType as keyof typeof FAMILY_OF] : undefined;
  const ask = async () => {
    if (!family) return;
    answer.value = await read(
      api.POST('/api/v1/plants/{id}/commands/dry-run', {
        params: { path: { id: plantId } },
        body: { family, payload },
      }),
    );
  };
  return (
    <Panel title={T.command.again}>
      {family && may('OPERATOR') && (
        <>
          <CallButton call={ask}>{T.command.runAgain}</CallButton>
          {answer.value && <DryRunResult answer={answer.value} />}
        </>
      )}
      {snippets(command, location.origin).map(({ label, text }) => (
        <Code key={label} label={label} text={text} />
      ))}
    </Panel>
  );
}
