/** Drives the simulated plant of the development stack: how it behaves, and each outcome of docs/simulator.md. */
import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { api, CallError, read } from '../api/client.ts';
import { readSimulated, requestBehaviour } from '../api/simulator.ts';
import { callError, Failure, Shown, useLoad } from '../parts/load.tsx';
import { Badge, CallButton, Field, Panel, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';
import {
  BEHAVIOURS,
  type Behaviour,
  OUTCOMES,
  type Outcome,
  payloadAt,
  TRY_COMMANDS,
} from '../try-outcomes.ts';

const LOOK_MS = 2_000;
/** A change takes a moment, because the plant connects again. */
const CHANGE_MS = 20_000;
const PAUSE_MS = 200;

async function behave(behaviour: Behaviour): Promise<void> {
  await requestBehaviour(behaviour);
  for (const until = Date.now() + CHANGE_MS; Date.now() < until; ) {
    if ((await readSimulated())?.behaviour === behaviour) return;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  throw new CallError(0, 'NO_ANSWER', T.tryIt.unchanged);
}

/** What a command was answered with. */
interface Sent {
  sees: string;
  commandId: string;
  status: string;
}

/** Nothing for a plant that is not simulated. */
export function TryIt({ plantId, sent }: { plantId: string; sent: () => void }) {
  const { data } = useLoad(`is simulated ${plantId}`, readSimulated);
  return data?.plantId === plantId ? <Panels plantId={plantId} sent={sent} /> : null;
}

function Panels({ plantId, sent }: { plantId: string; sent: () => void }) {
  const loaded = useLoad('simulated', readSimulated, LOOK_MS);
  const last = useSignal<Sent | undefined>(undefined);
  const error = useSignal<CallError | undefined>(undefined);
  const before = useRef<Promise<unknown>>(Promise.resolve());
  const choose = async (behaviour: Behaviour) => {
    error.value = undefined;
    try {
      await behave(behaviour);
    } catch (failure) {
      error.value = callError(failure);
    }
    await loaded.reload();
  };
  /** One after the other: the plant can behave in one way only. */
  const causeInTurn = (outcome: Outcome) => {
    const caused = before.current.then(() => cause(outcome));
    // The button shows the error of its own outcome; the next one begins all the same.
    before.current = caused.catch(() => undefined);
    return caused;
  };
  const cause = async ({ sees, behaviour, send: names }: Outcome) => {
    last.value = undefined;
    // Read now: the outcome before may have changed it.
    if ((await readSimulated())?.behaviour !== behaviour) await behave(behaviour);
    for (const name of names) {
      const { family, payload } = TRY_COMMANDS[name];
      const body = { family, payload: payloadAt(payload, Date.now()), idempotencyKey: crypto.randomUUID() };
      const params = { path: { id: plantId } };
      const answer = await read(api.POST('/api/v1/plants/{id}/commands', { params, body }));
      last.value ??= { sees, commandId: answer.commandId, status: answer.acknowledgement.status };
    }
    await loaded.reload();
    sent();
  };
  return (
    <Panel title={T.tryIt.title}>
      <p class="muted">{T.tryIt.hint}</p>
      <Shown loaded={loaded}>
        {(simulated) =>
          simulated && (
            <Field label={T.tryIt.behaviour} hint={T.tryIt.behaviours[simulated.behaviour]}>
              {(attributes) => (
                <select
                  {...attributes}
                  value={simulated.behaviour}
                  onChange={(event) => void choose(event.currentTarget.value as Behaviour)}
                >
                  {BEHAVIOURS.map((one) => (
                    <option key={one} value={one}>
                      {one}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          )
        }
      </Shown>
      {error.value && <Failure error={error.value} />}
      <p role="status">
        {last.value && (
          <>
            {last.value.sees}: <Badge state={last.value.status} />{' '}
            <a href={`/sites/${plantId}/commands/${last.value.commandId}`}>{T.tryIt.follow}</a>
          </>
        )}
      </p>
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
              <CallButton call={() => causeInTurn(outcome)}>{T.tryIt.cause}</CallButton>
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
}
