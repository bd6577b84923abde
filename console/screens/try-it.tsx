/** Drives the simulated plant of the development stack: how it behaves, and each outcome of docs/simulator.md. */
import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { api, CallError, callError, read } from '../api/client.ts';
import { platformNow } from '../api/clock.ts';
import { readSimulated, requestBehaviour } from '../api/simulator.ts';
import { explain } from '../api/site.ts';
import type { Command } from '../api/types.ts';
import { CallButton, Choices, SelectField } from '../parts/form.tsx';
import { Failure, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Panel, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';
import {
  BEHAVIOURS,
  type Behaviour,
  DURING_EMERGENCY,
  OUTCOMES,
  type Outcome,
  payloadAt,
  TRY_COMMANDS,
} from '../try-outcomes.ts';

const LOOK_MS = 2_000;
/** A change takes a moment, because the plant connects again. */
const CHANGE_MS = 20_000;
const PAUSE_MS = 200;
/** How long a command is followed, and how often it is looked at. */
const FOLLOW_MS = 30_000;
const STEP_MS = 1_000;

/** What became of the first command of an outcome. */
interface Caused {
  sees: string;
  commandId: string;
  answer: string;
  /** Undefined until it is known. */
  command?: Command;
}

/** Works on the simulated plant until the reader leaves the page. */
class Driver {
  readonly #plantId: string;
  readonly #gone = new AbortController();

  constructor(plantId: string) {
    this.#plantId = plantId;
  }

  leave(): void {
    this.#gone.abort();
  }

  async behave(behaviour: Behaviour): Promise<void> {
    if ((await readSimulated())?.behaviour === behaviour) return;
    await requestBehaviour(behaviour);
    for (const until = performance.now() + CHANGE_MS; performance.now() < until; ) {
      if ((await readSimulated())?.behaviour === behaviour) return;
      await this.#pause(PAUSE_MS);
    }
    throw new CallError(0, 'NO_ANSWER', T.tryIt.unchanged);
  }

  /** An outcome comes whatever was caused before it: an emergency begins, or ends, as it needs. */
  async cause({ sees, behaviour, send: names }: Outcome): Promise<Caused> {
    const isActive = (await explain(this.#plantId, null)).emergency !== null;
    const isNeeded = DURING_EMERGENCY.includes(sees);
    if (isActive !== isNeeded) {
      await this.behave('on');
      const { commandId } = await this.#send(isNeeded ? 'emergency' : 'mode');
      // An emergency holds a device until the device has acknowledged the mode that ends it.
      for await (const _status of this.follow(commandId));
    }
    await this.behave(behaviour);
    let first: Caused | undefined;
    for (const name of names) {
      const { commandId, acknowledgement } = await this.#send(name);
      first ??= { sees, commandId, answer: acknowledgement.status };
    }
    return first as Caused;
  }

  /** Yields the command each time that it has another status, until it has ended. */
  async *follow(commandId: string): AsyncGenerator<Command> {
    let status: string | undefined;
    const path = { params: { path: { id: this.#plantId, commandId } } };
    for (const until = performance.now() + FOLLOW_MS; performance.now() < until; await this.#pause(STEP_MS)) {
      const { command } = await read(api.GET('/api/v1/plants/{id}/commands/{commandId}/timeline', path));
      if (command.status !== status) yield command;
      status = command.status;
      if (status !== 'PENDING' && status !== 'EXECUTING') return;
    }
  }

  async #send(name: Outcome['send'][number]) {
    if (this.#gone.signal.aborted) throw new CallError(0, 'NO_ANSWER', T.tryIt.left);
    const { family, payload } = TRY_COMMANDS[name];
    const body = { family, payload: payloadAt(payload, platformNow()), idempotencyKey: crypto.randomUUID() };
    const params = { path: { id: this.#plantId } };
    return await read(api.POST('/api/v1/plants/{id}/commands', { params, body }));
  }

  async #pause(forMs: number): Promise<void> {
    if (this.#gone.signal.aborted) throw new CallError(0, 'NO_ANSWER', T.tryIt.left);
    await new Promise((resolve) => setTimeout(resolve, forMs));
  }
}

/** Nothing for a plant that is not simulated. */
export function TryIt({ plantId, sent }: { plantId: string; sent: () => void }) {
  const { data } = useLoad(`is simulated ${plantId}`, readSimulated);
  return data?.plantId === plantId ? <Panels plantId={plantId} sent={sent} /> : null;
}

function Panels({ plantId, sent }: { plantId: string; sent: () => void }) {
  const loaded = useLoad('simulated', readSimulated, LOOK_MS);
  const driver = useMemo(() => new Driver(plantId), [plantId]);
  useEffect(() => () => driver.leave(), [driver]);
  const caused = useSignal<Caused | undefined>(undefined);
  const error = useSignal<CallError | undefined>(undefined);
  /** The behaviour that was chosen, until the plant has it. */
  const chosen = useSignal<Behaviour | undefined>(undefined);
  /** The plant does one thing at a time. */
  const isBusy = useSignal(false);
  const alone = async (work: () => Promise<void>) => {
    isBusy.value = true;
    error.value = undefined;
    try {
      await work();
    } finally {
      isBusy.value = false;
      await loaded.reload();
    }
  };
  const choose = (behaviour: Behaviour) =>
    alone(async () => {
      chosen.value = behaviour;
      await driver.behave(behaviour);
    })
      .catch((failure: unknown) => {
        error.value = callError(failure);
      })
      .finally(() => {
        chosen.value = undefined;
      });
  const cause = (outcome: Outcome) =>
    alone(async () => {
      caused.value = undefined;
      const made = await driver.cause(outcome);
      caused.value = made;
      sent();
      void follow(made);
    });
  const follow = async (made: Caused) => {
    try {
      for await (const command of driver.follow(made.commandId)) {
        if (caused.value?.commandId !== made.commandId) return;
        caused.value = { ...made, command };
      }
    } catch (failure) {
      if (caused.value?.commandId === made.commandId) error.value = callError(failure);
    }
  };
  return (
    <Panel title={T.tryIt.title}>
      <p class="muted">{T.tryIt.hint}</p>
      <Shown loaded={loaded}>
        {(simulated) =>
          simulated && (
            <SelectField
              label={T.tryIt.behaviour}
              hint={
                chosen.value === undefined
                  ? T.tryIt.behaviours[simulated.behaviour]
                  : T.tryIt.changing(chosen.value)
              }
              value={chosen.value ?? simulated.behaviour}
              aria-busy={isBusy.value}
              onChange={(event) => {
                const select = event.currentTarget;
                if (isBusy.value) select.value = chosen.value ?? simulated.behaviour;
                else void choose(select.value as Behaviour);
              }}
            >
              <Choices
                chosen={chosen.value ?? simulated.behaviour}
                of={BEHAVIOURS.map((one) => ({ id: one, name: one }))}
              />
            </SelectField>
          )
        }
      </Shown>
      {error.value && <Failure error={error.value} />}
      <p role="status">{caused.value && <Became caused={caused.value} plantId={plantId} />}</p>
      <Table
        caption={T.tryIt.outcomes}
        columns={[T.tryIt.sees, T.tryIt.plantIs, T.tryIt.sends, T.alerts.actions]}
      >
        {OUTCOMES.map((outcome) => (
          <tr key={outcome.sees}>
            <th scope="row" class="wrap">
              {outcome.sees}
            </th>
            <td>{outcome.behaviour}</td>
            <td>{outcome.send.join(', ')}</td>
            <td>
              <CallButton call={() => cause(outcome)} about={outcome.sees} disabled={isBusy.value}>
                {T.tryIt.cause}
              </CallButton>
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}

function Became({
  caused: { sees, answer, command, commandId },
  plantId,
}: {
  caused: Caused;
  plantId: string;
}) {
  return (
    <>
      {sees}: <Badge state={answer} />{' '}
      {command && command.status !== answer && (
        <>
          → <Badge state={command.status} />{' '}
        </>
      )}
      {command?.reason ?? command?.rejectionCode ?? ''}{' '}
      <a href={`/sites/${plantId}/commands/${commandId}`}>{T.tryIt.follow}</a>
    </>
  );
}
