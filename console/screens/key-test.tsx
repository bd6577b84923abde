/** Connects with a key through the public listener, as its partner does. */
import { api, read } from '../api/client.ts';
import { ms } from '../parts/format.tsx';
import { Badge } from '../parts/ui.tsx';
import { T } from '../texts.ts';

export interface Tested {
  ok: boolean;
  durationMs: number;
  error?: string;
}

export async function testKey(id: string, key: string): Promise<Tested> {
  const path = { params: { path: { id } }, body: { key } };
  return await read(api.POST('/api/v1/partner/api-keys/{id}/test-connection', path));
}

export function TestResult({ result }: { result: Tested | undefined }) {
  if (!result) return null;
  return (
    <p role="status">
      <Badge state={result.ok ? 'SUCCESS' : 'FAILED'} /> {result.error ?? T.keys.works} (
      {ms(result.durationMs)})
    </p>
  );
}
