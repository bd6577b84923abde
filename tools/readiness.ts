/**
 * Waits until a stack is ready: its gateway listens and REST shows fresh telemetry. Errors of the edge are
 * retried.
 */

const PAUSE_MS = 100;
const REQUEST_TIMEOUT_MS = 2_000;
const SAY_EVERY_MS = 10_000;

export interface AwaitedPlant {
  edgeUrl: string;
  apiKey: string;
  plantId: string;
  /** Whether its gateway listens for commands. */
  isListening(): boolean;
  /** Whether it sends readings; if not, telemetry is not awaited. */
  reports: boolean;
}

/** Waits without a time limit and reports every 10 s through `say` what is missing. */
export async function untilOnline(plant: AwaitedPlant, say: (text: string) => void): Promise<void> {
  let sayAt = performance.now() + SAY_EVERY_MS;
  for (;;) {
    const missing = await whatIsMissing(plant).catch((error: unknown) => String(error));
    if (missing === undefined) return;
    if (performance.now() >= sayAt) {
      say(`still waiting for the simulated plant: ${missing}`);
      sayAt = performance.now() + SAY_EVERY_MS;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

/** Stored telemetry may be left from an earlier run, so the gateway must listen, too. */
async function whatIsMissing(plant: AwaitedPlant): Promise<string | undefined> {
  if (!plant.isListening()) return 'its gateway does not listen for commands yet';
  if (!plant.reports) return undefined;
  const response = await fetch(`${plant.edgeUrl}/api/v1/vcp/sites/${plant.plantId}/telemetry/latest`, {
    headers: { 'x-api-key': plant.apiKey },
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  });
  if (!response.ok) return `the edge answered ${response.status}`;
  const { payload } = (await response.json()) as { payload?: { dataQuality?: string } };
  return payload?.dataQuality === 'GOOD'
    ? undefined
    : `its telemetry is ${payload?.dataQuality ?? 'missing'}`;
}
