/** When a stack is ready: its plant is there, and REST says so. The edge may be in trouble meanwhile; then this waits. */

const PAUSE_MS = 100;
const REQUEST_TIMEOUT_MS = 2_000;
const SAY_EVERY_MS = 10_000;

export interface AwaitedPlant {
  edgeUrl: string;
  apiKey: string;
  plantId: string;
  /** Whether its gateway listens for commands. */
  isListening(): boolean;
  /** Whether it will send readings. */
  reports: boolean;
}

/** Waits as long as it takes, and says now and then for what. */
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

/** Telemetry that was kept is no sign of a plant: its gateway has to listen too. */
async function whatIsMissing(plant: AwaitedPlant): Promise<string | undefined> {
  if (!plant.isListening()) return 'its gateway does not listen yet';
  if (!plant.reports) return undefined;
  const response = await fetch(`${plant.edgeUrl}/api/v1/vcp/sites/${plant.plantId}/telemetry/latest`, {
    headers: { 'x-api-key': plant.apiKey },
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  });
  if (!response.ok) return `the edge answers ${response.status}`;
  const { payload } = (await response.json()) as { payload?: { dataQuality?: string } };
  return payload?.dataQuality === 'GOOD'
    ? undefined
    : `its telemetry is ${payload?.dataQuality ?? 'missing'}`;
}
