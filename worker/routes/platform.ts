/** Routes about the platform itself, which anybody may call: health, API documents and browsers' CSP reports. */
import * as z from 'zod';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import { errorBody, errorEnvelope } from '../../protocol/errors.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { answerDocument } from '../http/document.ts';
import { ApiError, unavailable } from '../http/error-response.ts';
import { CSP_REPORT_PATH } from '../http/json-body.ts';
import { mailFault } from '../mail/settings.ts';
import { route } from '../route.ts';

const MAX_LOGGED_CHARACTERS = 2_000;
const ANYBODY = { door: 'public' } as const;
const anyObject = z.record(z.string(), z.unknown());

/** The last read of the database by `/readyz`: anybody may ask, so an isolate reads at most once in this time. */
const READY_MS = 1_000;
const READ_TIMEOUT_MS = 5_000;
/** A setting changes only with a deployment. */
const FAULT_RETRY_S = 600;
let lastRead = { atMs: 0, isDone: false };

async function isDatabaseRead(database: D1Database, now: number): Promise<boolean> {
  const age = now - lastRead.atMs;
  if (age >= 0 && age < READY_MS) return lastRead.isDone;
  const isDone = await readDatabase(database).catch((error: unknown) => {
    console.error('the database cannot be read, /readyz answers 503', { reason: reasonOf(error) });
    return false;
  });
  lastRead = { atMs: now, isDone };
  return isDone;
}

async function readDatabase(database: D1Database): Promise<boolean> {
  const late = scheduler.wait(READ_TIMEOUT_MS).then(() => Promise.reject(new Error('no answer in time')));
  const { success } = await Promise.race([database.prepare('SELECT 1').run(), late]);
  return success;
}

export const platformRoutes = [
  // The handler reads no storage, so a 200 shows only that the Worker runs.
  route('GET /healthz', {
    summary: 'Check the health of the edge',
    who: ANYBODY,
    answer: { description: 'The edge is healthy', body: z.strictObject({ status: z.literal('ok') }) },
    handler: () => ({ status: 'ok' as const }),
  }),
  route('GET /readyz', {
    summary:
      'Check that the edge can serve requests: that it reads its database, and that its settings of mail can work',
    who: ANYBODY,
    answer: { description: 'The edge is ready', body: z.strictObject({ status: z.literal('ok') }) },
    handler: async (c) => {
      if (!(await isDatabaseRead(c.env.DB, Date.now())))
        throw new ApiError('SERVICE_UNAVAILABLE', 'The edge cannot read its database: see its log', {
          headers: { 'retry-after': String(READY_MS / 1_000) },
        });
      const fault = mailFault(c.env);
      if (fault !== undefined) throw unavailable(`This deployment cannot send mail: ${fault}`, FAULT_RETRY_S);
      return { status: 'ok' as const };
    },
  }),
  route('GET /api/v1/openapi.json', {
    summary: 'Get this OpenAPI document',
    who: ANYBODY,
    answer: { description: 'The OpenAPI 3.1 document', body: anyObject },
    hasTag: true,
    handler: answerDocument('api/v1/openapi.json'),
  }),
  route('GET /api/v1/asyncapi.json', {
    summary: 'Get the AsyncAPI document of AMQP and MQTT, with schemas and signed examples',
    who: ANYBODY,
    answer: { description: 'The AsyncAPI 3.0 document', body: anyObject },
    hasTag: true,
    handler: answerDocument('api/v1/asyncapi.json'),
  }),
  // Logs each report and answers 200 [C-1.6], [C-10].
  route(`POST ${CSP_REPORT_PATH}`, {
    summary: 'Report a content security policy violation',
    who: ANYBODY,
    body: z.unknown(),
    bodyBytes: LIMIT.reportBodyBytes,
    examples: {
      body: {
        'csp-report': { 'document-uri': 'https://example.com/', 'violated-directive': 'script-src' },
      },
    },
    answer: { description: 'The report was logged: CSP_VIOLATION_LOGGED', body: errorEnvelope },
    handler: (_c, { body }) => {
      console.warn('report of a content security policy violation received', {
        report: JSON.stringify(body).slice(0, MAX_LOGGED_CHARACTERS),
      });
      return errorBody('CSP_VIOLATION_LOGGED', 'The report was logged');
    },
  }),
];
