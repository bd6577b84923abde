/**
 * REST commands to one device, from members with the role OPERATOR or higher and from API keys with the scope
 * commands:execute [C-3.4]. Neither the site's command log nor AMQP events show them. Actions that need the checks
 * of the site's command pipeline are rejected.
 */
import * as z from 'zod';
import { SITE_ACTIONS } from '../../../protocol/action.ts';
import { cut } from '../../../protocol/cut.ts';
import { type RestCommand, restCommand, restCommandRequest } from '../../../protocol/device-record.ts';
import { type DeviceTemplateRecord, paramFaults } from '../../../protocol/device-template.ts';
import { parseInstant, uuid } from '../../../protocol/ids.ts';
import { boundedFaults } from '../../../protocol/issue.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { pageOf, pageSchema } from '../../../protocol/page.ts';
import { templateOfDevice } from '../../../registry/device-templates.ts';
import { requireDeviceAfterMove } from '../../auth/access.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import type { Who } from '../../auth/door.ts';
import { ApiError, conflict, invalidBody, limitReached } from '../../http/error-response.ts';
import { idParameter, pageParameters } from '../../http/query.ts';
import { siteOf } from '../../lifecycle/device-site.ts';
import { route } from '../../route.ts';

const MAX_NAMES_CHARS = 300;

const READS_COMMANDS: Who = { door: 'member', role: 'VIEWER', scope: 'commands:read' };
const SENDS_COMMANDS: Who = { door: 'member', role: 'OPERATOR', scope: 'commands:execute' };

export const deviceCommandRoutes = [
  route('POST /api/v1/devices/{id}/commands', {
    summary: 'Send a command to a device',
    who: SENDS_COMMANDS,
    params: idParameter,
    body: restCommandRequest,
    examples: {
      body: { action: 'REBOOT', payload: { delaySeconds: 5 }, idempotencyKey: 'reboot-2026-01-15' },
    },
    answer: {
      status: 202,
      description: 'The command; it is sent again until the device acknowledges it or the command fails',
      body: restCommand,
    },
    errors: ['NOT_FOUND', 'CONFLICT', 'COMMAND_ACTION_NOT_IN_TEMPLATE', 'COMMAND_PARAMS_INVALID'],
    handler: async (c, { params, body }) => {
      const { action, payload, validUntil, idempotencyKey = null } = body;
      if (SITE_ACTIONS.includes(action)) {
        throw new ApiError(
          'COMMAND_ACTION_NOT_IN_TEMPLATE',
          `action: ${action} cannot be sent over REST: only partner commands (AMQP) and the platform send it`,
        );
      }
      const validUntilMs = validUntil === undefined ? null : (parseInstant(validUntil) ?? 0);
      const device = await requireDeviceAfterMove(c, params.id);
      const unfit = misfitOf(await templateOfDevice(c.env.DB, device), action, payload);
      const audit = auditEntry(c, 'device.command_sent', { type: 'DEVICE', id: device.id }, { action });
      const submission = { action, payload, validUntilMs, idempotencyKey, isFit: unfit === undefined };
      const answer = await siteOf(c.env, device).submitRestCommand(device.id, submission, audit);
      if ('command' in answer) return answer.command;
      switch (answer.refused) {
        case 'unfit':
          throw unfit ?? conflict('The template of the device has changed: send the command again');
        case 'reused':
          throw conflict(
            `The idempotencyKey "${idempotencyKey}" was used for another command: use a new one`,
          );
        case 'full':
          throw limitReached('device', LIMIT.openRestCommands, 'open commands: wait until one has ended');
        case 'inactive':
          throw conflict('The device is not ACTIVE and receives no commands: provision or reactivate it');
        case 'expired':
          throw invalidBody(`validUntil: ${validUntil} must be in the future`);
      }
    },
  }),
  route('GET /api/v1/devices/{id}/commands', {
    summary: 'List the commands to a device',
    who: READS_COMMANDS,
    params: idParameter,
    query: z.object(pageParameters),
    answer: { description: 'A page of commands, newest first', body: pageSchema<RestCommand>(restCommand) },
    errors: ['NOT_FOUND'],
    handler: async (c, { params, query }) => {
      const device = await requireDeviceAfterMove(c, params.id);
      const { page, limit } = query;
      const { commands, total } = await siteOf(c.env, device).pageRestCommands(device.id, page, limit);
      return pageOf({ rows: commands, total }, query, (command) => command);
    },
  }),
  route('GET /api/v1/devices/{id}/commands/{cmdId}', {
    summary: 'Get a command to a device',
    who: READS_COMMANDS,
    params: z.object({ id: uuid, cmdId: uuid }),
    answer: { description: 'The command', body: restCommand },
    errors: ['NOT_FOUND'],
    handler: async (c, { params }) => {
      const device = await requireDeviceAfterMove(c, params.id);
      const command = await siteOf(c.env, device).findRestCommand(device.id, params.cmdId);
      if (!command)
        throw new ApiError('NOT_FOUND', 'The device has no command with this cmdId: list its commands');
      return command;
    },
  }),
];

/** Why a device with a template does not get the command; undefined: it does [C-11.6]. */
function misfitOf(
  template: DeviceTemplateRecord | undefined,
  action: string,
  payload: Readonly<Record<string, unknown>>,
): ApiError | undefined {
  if (!template) return undefined;
  const meant = template.actions.find((one) => one.action === action);
  if (!meant) {
    const names = template.actions.map((one) => one.action).filter((name) => !SITE_ACTIONS.includes(name));
    const known =
      names.length > 0
        ? `send one of ${cut(names.join(', '), MAX_NAMES_CHARS)}`
        : 'it has no actions for REST: give the device another template';
    return new ApiError(
      'COMMAND_ACTION_NOT_IN_TEMPLATE',
      `action: the template "${template.name}" of the device has no action ${action}: ${known}`,
    );
  }
  const [first, ...others] = boundedFaults(paramFaults(meant, payload));
  return first === undefined
    ? undefined
    : new ApiError('COMMAND_PARAMS_INVALID', `Invalid parameters: ${first}`, { details: [first, ...others] });
}
