/** How the console of a development stack sees and changes the simulated plant. */
import { describe, expect, it } from 'vitest';
import type { SimulatorSetting } from '../../tools/simulator/behaviour.ts';
import { simulatorControl } from '../../tools/simulator/control.ts';

const request = (method: string, text = '') => ({ method, text: async () => text });

function control(id: string) {
  const changes: SimulatorSetting[] = [];
  const plantIs = { id, now: 'on' as SimulatorSetting };
  return { changes, plantIs, answer: simulatorControl(plantIs, (setting) => changes.push(setting)) };
}

describe('the control of the simulated plant', () => {
  it('names the plant and its behaviour of now, and nothing while the stack starts', async () => {
    const { plantIs, answer } = control('');
    expect((await answer(request('GET'))).status).toBe(204);
    Object.assign(plantIs, { id: 'plant-1', now: 'slow' });
    const known = await answer(request('GET'));
    expect(await known.json()).toEqual({ plantId: 'plant-1', behaviour: 'slow' });
    expect(known.headers.get('cache-control')).toBe('no-store');
  });

  it('asks for a behaviour', async () => {
    const { changes, answer } = control('plant-1');
    expect((await answer(request('PUT', '{"behaviour":"faulty"}'))).status).toBe(202);
    expect(changes).toEqual(['faulty']);
  });

  it.each(['', 'null', '{}', '[]', '{"behaviour":"wild"}', '{"behaviour":{}}'])(
    'refuses %j with a message, and changes nothing',
    async (text) => {
      const { changes, answer } = control('plant-1');
      const refused = await answer(request('PUT', text));
      expect(refused.status).toBe(400);
      expect(await refused.json()).toEqual({ message: expect.any(String) });
      expect(changes).toEqual([]);
    },
  );
});
