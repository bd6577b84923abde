/** Deliveries: their number, their order, and how they are settled. */
import {
  beside,
  closed,
  consume,
  FILLED,
  filled,
  type Group,
  get,
  getNone,
  known,
  leave,
  opened,
  PARTNER,
  request,
  type Step,
  send,
  until,
} from '../transcript.ts';

/** Waits for this number of deliveries. */
const delivered = (count = 1) => Array<Step>(count).fill(until('basic.deliver', 'header', 'body'));
/** Gets this number of messages. */
const gets = (count: number) => Array<Step[]>(count).fill(get()).flat();
const qos = (prefetchCount: number, global = false) => request('basic.qos', { prefetchCount, global });
const ack = (deliveryTag: number, multiple = false) => send('basic.ack', { deliveryTag, multiple });
const nack = (deliveryTag: number, requeue: boolean, multiple = false) =>
  send('basic.nack', { deliveryTag, requeue, multiple });
const reject = (deliveryTag: number, requeue: boolean) => send('basic.reject', { deliveryTag, requeue });
const cancel = request('basic.cancel', { consumerTag: 'ct' });
const empty = getNone();
const reopened = [...closed, ...opened()];
/** The queue is empty, also after the return of what the channel held. */
const gone = [...reopened, ...empty];
const recovered = request('basic.recover', { requeue: true });

export const deliveries: Group = {
  name: 'deliveries',
  rights: PARTNER,
  transcripts: [
    filled('ab', 'a get says how many are left', gets(2), empty),
    filled('a', 'a get without an acknowledgement to come', get({ noAck: true }), ack(1)),
    filled('ab', 'messages come in their order', consume(), delivered(2)),
    filled('ab', 'messages without an acknowledgement to come', consume({ noAck: true }), delivered(2), gone),
    filled('abc', 'no more than the prefetch at once', qos(2), consume(), delivered(2), known(FILLED)),
    filled('abc', 'the next behind an acknowledgement', qos(1), consume(), delivered(), ack(1), delivered()),
    filled(
      'abcd',
      'more behind one acknowledgement of several',
      qos(2),
      consume(),
      delivered(2),
      ack(2, true),
      delivered(2),
    ),
    filled(
      'abc',
      'a prefetch of the whole channel',
      qos(2, true),
      consume({ consumerTag: 'one' }),
      delivered(2),
      consume({ consumerTag: 'two' }),
      known(FILLED),
    ),
    filled(
      'abc',
      'a prefetch applies to consumers that start after it',
      consume(),
      delivered(3),
      qos(1),
      known(FILLED),
    ),
    filled('abc', 'a get is over the prefetch', qos(1), gets(2)),
    filled('a', 'an acknowledgement takes it away', get(), ack(1), gone),
    filled('a', 'an acknowledgement twice', get(), ack(1), ack(1)),
    filled('a', 'an acknowledgement of tag 0 with one outstanding', get(), ack(0)),
    filled('ab', 'all are acknowledged by tag 0', gets(2), ack(0, true), gone),
    filled('ab', 'an acknowledgement beyond the last', gets(2), ack(5, true)),
    filled(
      'abc',
      'an acknowledgement of several behind one in the middle',
      gets(3),
      ack(2),
      ack(3, true),
      gone,
    ),
    filled('ab', 'an acknowledgement of several, the last of which is done', gets(2), ack(2), ack(2, true)),
    filled('ab', 'an acknowledgement of several that are all done', gets(2), ack(1), ack(2), ack(2, true)),
    filled(
      'a',
      'an acknowledgement on another channel',
      opened(2),
      get(),
      send('basic.ack', { deliveryTag: 1 }, 2),
    ),
    filled('a', 'a nack with requeue brings it again', get(), nack(1, true), get()),
    filled('ab', 'a requeue goes to its place', get(), nack(1, true), gets(2)),
    filled('abc', 'a nack of several with requeue keeps their order', gets(3), nack(3, true, true), gets(3)),
    filled('a', 'a nack without requeue takes it away', get(), nack(1, false), empty),
    filled('a', 'a reject with requeue brings it again', get(), reject(1, true), get()),
    filled('a', 'a reject without requeue takes it away', get(), reject(1, false), empty),
    filled(
      'a',
      'a consumer gets again what it requeues',
      qos(1),
      consume(),
      delivered(),
      nack(1, true),
      delivered(),
    ),
    filled('ab', 'basic.recover brings all again', gets(2), recovered, gets(2)),
    filled('ab', 'basic.recover with a consumer', consume(), delivered(2), recovered, delivered(2)),
    filled(
      'a',
      'basic.recover-async brings it again',
      consume(),
      delivered(),
      send('basic.recover-async', { requeue: true }),
      delivered(),
    ),
    filled('a', 'a recovered tag is not there any more', get(), recovered, ack(1)),
    filled('a', 'a cancel leaves what was delivered', consume(), delivered(), cancel, empty, ack(1), gone),
    filled('a', 'a close of the channel brings it again', consume(), delivered(), reopened, get()),
    filled('a', 'tags begin at 1 again on a channel that is opened again', get(), ack(1), gone),
    filled('a', 'a connection that ends brings it to another', beside(get(), leave), get()),
    filled(
      'abcd',
      'two consumers of a channel take turns',
      qos(1),
      consume({ consumerTag: 'one' }),
      delivered(),
      consume({ consumerTag: 'two' }),
      delivered(),
      ack(1),
      delivered(),
    ),
    filled(
      'a',
      'a message that was rejected by one goes to another',
      qos(1),
      consume({ consumerTag: 'one' }),
      delivered(),
      consume({ consumerTag: 'two' }),
      nack(1, true),
      delivered(),
    ),
  ],
};
