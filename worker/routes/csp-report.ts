/** Sink for browsers' content security policy reports: logs each report and answers 200 [C-1.6], [C-10]. */
import { z } from 'zod';
import { errorBody, errorEnvelope } from '../../protocol/errors.ts';
import { CSP_REPORT_PATH } from '../http/json-body.ts';
import { noParameters } from '../http/query.ts';
import { shedLoad } from '../http/rate.ts';
import { route } from '../route.ts';

const MAX_LOGGED_CHARACTERS = 2_000;

export const postCspReport = route({
  method: 'POST',
  path: CSP_REPORT_PATH,
  summary: 'Report a content security policy violation',
  who: { door: 'public' },
  params: noParameters,
  query: noParameters,
  body: z.unknown(),
  examples: {
    body: { 'csp-report': { 'document-uri': 'https://example.com/', 'violated-directive': 'script-src' } },
  },
  answer: { status: 200, description: 'The report was logged: CSP_VIOLATION_LOGGED', body: errorEnvelope },
  errors: [],
  handler: async (c, { body }) => {
    await shedLoad(c);
    console.warn('csp violation', { report: JSON.stringify(body).slice(0, MAX_LOGGED_CHARACTERS) });
    return errorBody('CSP_VIOLATION_LOGGED', 'The report was logged');
  },
});
