/** What the console of the development stack sees of the simulated plant, and how it changes its behaviour. */
import type { Answer } from '../edge-workers.ts';
import { type SimulatorSetting, settingOf } from './behaviour.ts';

/** `plantIs`: the plant as it is now, without id while the stack starts; `change` may take effect later. */
export function simulatorControl(
  plantIs: { id: string; now: SimulatorSetting },
  change: (setting: SimulatorSetting) => void,
): Answer {
  return async (request) => {
    if (request.method === 'PUT') {
      const setting = wanted(await request.text());
      if (setting instanceof Error) return Response.json({ message: setting.message }, { status: 400 });
      change(setting);
      return new Response(null, { status: 202 });
    }
    const { id: plantId, now: behaviour } = plantIs;
    if (plantId === '') return new Response(null, { status: 204 });
    return Response.json({ plantId, behaviour }, { headers: { 'cache-control': 'no-store' } });
  };
}

function wanted(text: string): SimulatorSetting | Error {
  try {
    const { behaviour } = (JSON.parse(text) ?? {}) as { behaviour?: unknown };
    return settingOf('behaviour', String(behaviour));
  } catch (error) {
    return error as Error;
  }
}
