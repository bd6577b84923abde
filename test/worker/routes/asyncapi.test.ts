/** The AsyncAPI document as it is served, and the check that what the suites receive follows it. */
import { afterEach, describe, expect, it } from 'vitest';
import { send } from '#workerd/rest.ts';
import { checkCommand, checkEvent, takeMisfits } from '#workerd/schema-check.ts';
import type { Delivery } from '../../../protocol/link/vhost.ts';
import { COMMAND_EXAMPLES } from '../../../tools/reference/asyncapi/commands.ts';
import { asyncApiDocument } from '../../../tools/reference/asyncapi/document.ts';

function delivery(routingKey: string, body: object): Delivery {
  return {
    lease: 1,
    redelivered: false,
    routingKey,
    properties: {},
    body: JSON.stringify(body),
    encoding: 'utf8',
    bytes: 0,
  };
}

describe('GET /api/v1/asyncapi.json', () => {
  it('the document is public', async () => {
    const response = await send('/api/v1/asyncapi.json');
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual(JSON.parse(JSON.stringify(asyncApiDocument())));
  });
});

describe('the check of sent messages', () => {
  afterEach(() => takeMisfits());

  it.each(Object.values(COMMAND_EXAMPLES))(
    'the documented example of $action passes, and fails with an additional field',
    (command) => {
      checkCommand(JSON.stringify(command));
      expect(takeMisfits()).toEqual([]);
      checkCommand(JSON.stringify({ ...command, more: 1 }));
      expect(takeMisfits()).toHaveLength(1);
    },
  );

  it('a payload with an additional field fails, and the failure names the payload’s schema', () => {
    const { payload, ...rest } = COMMAND_EXAMPLES.MODE_CHANGE;
    checkCommand(JSON.stringify({ ...rest, payload: { ...payload, more: 1 } }));
    expect(takeMisfits()).toEqual([expect.stringContaining('modeCommand')]);
  });

  it('an event whose payload does not fit its routing key fails; a dead-lettered command is not checked', () => {
    checkEvent(delivery('acme.event.execution', { payload: { status: 'ACCEPTED' } }));
    checkEvent(delivery('acme.command.mode', { of: 'a partner, dead-lettered' }));
    expect(takeMisfits()).toEqual([expect.stringContaining('execution')]);
  });
});
