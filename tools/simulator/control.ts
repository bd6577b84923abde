/** What the console of the development stack sees of the simulated plant, and how it changes its behaviour. */
import { type SimulatorSetting, settingOf } from './behaviour.ts';

interface ControlRequest {
  method: string;
  text(): Promise<string>;
}

/** `plantIs`: the plant as it is now, without id while the stack starts; `change` may take effect later. */
export function simulatorControl(
  plantIs: { id: string; now: SimulatorSetting },
  change: (setting: SimulatorSetting) => void,
): (request: ControlRequest) => Promise<Response> {
  return async (request) => {
    if (request.method === 'PUT') {
      try {
        const { behaviour } = JSON.parse(await request.text()) as { behaviour?: unknown };
        change(settingOf('behaviour', String(behaviour)));
      } catch (error) {
        return Response.json({ message: (error as Error).message }, { status: 400 });
      }
    }
    const { id: plantId, now: behaviour } = plantIs;
    if (plantId === '') return new Response(null, { status: 204 });
    return Response.json({ plantId, behaviour });
  };
}
