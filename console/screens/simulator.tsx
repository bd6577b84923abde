/** Loads the panel that drives the simulated plant, where there is one. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { readSimulated } from '../api/simulator.ts';

/** The panel that drives it, in a file of its own. */
type Panel = typeof import('./try-it.tsx').TryIt;

export function Simulator({ plantId, sent }: { plantId: string; sent: () => void }) {
  const panel = useSignal<{ TryIt: Panel } | undefined>(undefined);
  useEffect(() => {
    let isGone = false;
    const look = async () => {
      if ((await readSimulated())?.plantId !== plantId) return;
      const { TryIt } = await import('./try-it.tsx');
      if (!isGone) panel.value = { TryIt };
    };
    look().catch((error: unknown) => console.info('the panel "Try it" is not shown', error));
    return () => {
      isGone = true;
    };
  }, [plantId]);
  const TryIt = panel.value?.TryIt;
  return TryIt ? <TryIt plantId={plantId} sent={sent} /> : null;
}
