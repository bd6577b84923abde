/** Plays a transcript on a lane: prepares its preconditions and returns its outcome. */
import { type Lane, Names } from './broker.ts';
import { Stage } from './stage.ts';
import { FILLED, type Transcript } from './transcript.ts';

let played = 0;

export async function play(lane: Lane, transcript: Transcript): Promise<string[]> {
  if (transcript.fill) await fill(lane, transcript.fill);
  played += 1;
  const stage = await Stage.connect(lane, new Names(lane, `own-${String(played).padStart(4, '0')}`));
  const { from = 'channel', hello = {} } = transcript;
  if (from !== 'socket') await stage.open(hello);
  if (from === 'channel') await stage.peer.openChannel(1);
  stage.begin();
  return await stage.run(transcript);
}

/** Leaves exactly these messages in the filled queue. */
async function fill(lane: Lane, bodies: readonly string[]): Promise<void> {
  const stage = await Stage.connect(lane, new Names(lane, ''));
  await stage.open({});
  await stage.peer.openChannel(1);
  stage.send('confirm.select');
  await stage.until('confirm.select-ok');
  do {
    stage.send('basic.get', { queue: FILLED, noAck: true });
  } while ((await stage.untilOne('basic.get-ok', 'basic.get-empty')) === 'basic.get-ok');
  for (const body of bodies) {
    stage.publish(body, {});
    await stage.until('basic.ack');
  }
  await stage.leave();
}
