/** The AsyncAPI document as it is served, and what notices that something else is sent. */
import { afterEach, describe, expect, it } from 'vitest';
import type { Delivery } from '../../../protocol/link/vhost.ts';
import { asyncApiDocument } from '../../../worker/asyncapi/document.ts';
import { TOLD } from '../../../worker/asyncapi/examples.ts';
import { send } from '../../support/workerd/rest.ts';
import { checkCommand, checkEvent, takeMisfits } from '../../support/workerd/told.ts';

function delivery(routingKey: string, body: object): Delivery {
  return {
    lease: 1,
    redelivered: false,
    routingKey,
    properties: {},
    body: JSON.stringify(body),
    encoding: 'utf8',
  };
}

describe('GET /api/v1/asyncapi.json', () => {
  it('answers the document to anybody', async () => {
    const response = await send('/api/v1/asyncapi.json');
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual(JSON.parse(JSON.stringify(asyncApiDocument())));
  });
});

describe('what is sent in these suites', () => {
  afterEach(() => takeMisfits());

  it.each(Object.values(TOLD))('$action as documented passes, and with a field more does not', (command) => {
    checkCommand(JSON.stringify(command));
    expect(takeMisfits()).toEqual([]);
    checkCommand(JSON.stringify({ ...command, more: 1 }));
    expect(takeMisfits()).toHaveLength(1);
  });

  it('is noticed where a payload has a field that its action has not', () => {
    const { payload, ...rest } = TOLD.MODE_CHANGE;
    checkCommand(JSON.stringify({ ...rest, payload: { ...payload, more: 1 } }));
    expect(takeMisfits()).toEqual([expect.stringContaining('toldMode')]);
  });

  it('is noticed where an event has a payload of another kind', () => {
    checkEvent(delivery('acme.event.execution', { payload: { status: 'ACCEPTED' } }));
    checkEvent(delivery('acme.command.mode', { of: 'a partner, dead-lettered' }));
    expect(takeMisfits()).toEqual([expect.stringContaining('execution')]);
  });
});
