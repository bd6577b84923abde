/** An ORG_ADMIN who makes API keys over REST. */
import type { ApiKeyRecord, ConnectionTest, CreatedApiKey } from '../../../protocol/api-key-record.ts';
import type { Page } from '../../../protocol/page.ts';
import { bodyOf, type Call } from './client.ts';
import type { Person } from './people.ts';
import type { Team } from './team.ts';
import { test } from './worker-test.ts';

export const KEYS = '/partner/api-keys';
export const KEY_REQUEST = { name: 'Desk', partnerId: 'acme', scopes: ['vcp:read'] };

class KeyAdmin {
  readonly #team: Team;

  constructor(team: Team) {
    this.#team = team;
  }

  /** A request about the keys of the organization; `path` follows that of their list. */
  ask(path = '', options: Call = {}, by: Person = this.#team.orgAdmin): Promise<Response> {
    return by.call(`${KEYS}${path}`, { org: this.#team.id, ...options });
  }

  post(fields: object = {}): Promise<Response> {
    return this.ask('', { method: 'POST', body: { ...KEY_REQUEST, ...fields } });
  }

  async make(fields: object = {}): Promise<CreatedApiKey> {
    return await bodyOf(await this.post(fields), 201);
  }

  async list(query = ''): Promise<Page<ApiKeyRecord>> {
    return await bodyOf(await this.ask(query), 200);
  }

  async read(id: string): Promise<ApiKeyRecord> {
    return await bodyOf(await this.ask(`/${id}`), 200);
  }

  async revoke(id: string): Promise<object> {
    return await bodyOf(await this.ask(`/${id}`, { method: 'DELETE' }), 200);
  }

  async test(id: string, key: string): Promise<ConnectionTest> {
    return await bodyOf(await this.ask(`/${id}/test-connection`, { method: 'POST', body: { key } }), 200);
  }
}

/** `keys`: those of `ownTeam`. */
export const keyAdminTest = test.extend('keys', ({ ownTeam }) => new KeyAdmin(ownTeam));
