/** An ORG_ADMIN who makes API keys over REST. */
import type { ApiKeyRecord, CreatedApiKey } from '../../../protocol/api-key-record.ts';
import type { Page } from '../../../protocol/page.ts';
import { bodyOf, type Call } from './client.ts';
import type { Person } from './people.ts';
import { test } from './worker-test.ts';

export const KEYS = '/partner/api-keys';
export const KEY_REQUEST = { name: 'Desk', partnerId: 'acme', scopes: ['vcp:read'] };

/** Requests about the keys of `ownTeam`. */
export const keyAdminTest = test
  .extend('ask', ({ ownTeam }) => (path = '', options: Call = {}, by: Person = ownTeam.orgAdmin) => {
    return by.call(`${KEYS}${path}`, { org: ownTeam.id, ...options });
  })
  .extend('post', ({ ask }) => (fields: object = {}) => {
    return ask('', { method: 'POST', body: { ...KEY_REQUEST, ...fields } });
  })
  .extend('make', ({ post }) => async (fields: object = {}) => {
    return await bodyOf<CreatedApiKey>(await post(fields), 201);
  })
  .extend('list', ({ ask }) => async (query = '') => {
    return await bodyOf<Page<ApiKeyRecord>>(await ask(query), 200);
  });
