/** Every kind of caller that a route can have, and the credentials that each sends. */
import { env } from 'cloudflare:workers';
import { API_KEY_SCOPES, type ApiKeyScope } from '../../../protocol/scopes.ts';
import type { AnyRoute } from '../../../worker/route.ts';
import { unknownKey } from './client.ts';
import { joinOrganization, Person } from './people.ts';
import type { Team } from './team.ts';

export const CALLERS = [
  'no credential',
  'a wrong session',
  'a wrong key',
  'a VIEWER',
  'an OPERATOR',
  'an ADMIN',
  'an ORG_ADMIN',
  'an ORG_ADMIN by cookie',
  'an ORG_ADMIN without x-org-id',
  'an ORG_ADMIN with a wrong key, too',
  'a stranger without x-org-id',
  'a stranger with their own x-org-id',
  'a stranger with this x-org-id',
  'a member of nothing',
  'an unproved ORG_ADMIN',
  'a key with the scope',
  'a key with every scope but that',
  'a key with the scope and a foreign x-org-id',
  'a foreign key with the scope',
] as const;
export type Caller = (typeof CALLERS)[number];

export class Callers {
  readonly team: Team;
  readonly #foreign: Team;
  /** A user without memberships. */
  readonly #loner: Person;
  /** An ORG_ADMIN of the team who has not proved an e-mail address. */
  readonly #unproved: Person;
  readonly #keys = new Map<string, string>();

  private constructor(team: Team, foreign: Team, loner: Person, unproved: Person) {
    this.team = team;
    this.#foreign = foreign;
    this.#loner = loner;
    this.#unproved = unproved;
  }

  /** The callers that are in neither team's list of members. */
  get people(): Person[] {
    return [this.#loner, this.#unproved];
  }

  static async of(team: Team, foreign: Team): Promise<Callers> {
    const unproved = await Person.register();
    await joinOrganization(team.id, unproved, 'ORG_ADMIN');
    await env.DB.prepare('UPDATE users SET proved_at_ms = NULL WHERE id = ?').bind(unproved.id).run();
    return new Callers(team, foreign, await Person.register(), unproved);
  }

  /** The credentials of a caller; with a new session where the route could end it. */
  async headersOf(caller: Caller, { who }: AnyRoute): Promise<Record<string, string>> {
    const { team } = this;
    const [foreign, loner] = [this.#foreign, this.#loner];
    const scope: ApiKeyScope = ('scope' in who && who.scope) || 'plants:read';
    const token = async (person: Person) =>
      who.door === 'user' || who.door === 'account'
        ? (await person.newSession()).accessToken
        : person.accessToken;
    const session = async (person: Person) => ({ authorization: `Bearer ${await token(person)}` });
    const here = { 'x-org-id': team.id };
    const wrongKey = { 'x-api-key': unknownKey() };
    switch (caller) {
      case 'no credential':
        return {};
      case 'a wrong session':
        return { authorization: `Bearer ${team.orgAdmin.accessToken.slice(0, -4)}AAAA`, ...here };
      case 'a wrong key':
        return wrongKey;
      case 'a VIEWER':
        return { ...(await session(team.viewer)), ...here };
      case 'an OPERATOR':
        return { ...(await session(team.operator)), ...here };
      case 'an ADMIN':
        return { ...(await session(team.admin)), ...here };
      case 'an ORG_ADMIN':
        return { ...(await session(team.orgAdmin)), ...here };
      case 'an ORG_ADMIN by cookie':
        return { cookie: `access_token=${await token(team.orgAdmin)}`, ...here };
      case 'an ORG_ADMIN without x-org-id':
        return await session(team.orgAdmin);
      case 'an ORG_ADMIN with a wrong key, too':
        return { ...(await session(team.orgAdmin)), ...here, ...wrongKey };
      case 'a stranger without x-org-id':
        return await session(foreign.orgAdmin);
      case 'a stranger with their own x-org-id':
        return { ...(await session(foreign.orgAdmin)), 'x-org-id': foreign.id };
      case 'a stranger with this x-org-id':
        return { ...(await session(foreign.orgAdmin)), ...here };
      case 'a member of nothing':
        return await session(loner);
      case 'an unproved ORG_ADMIN':
        return { ...(await session(this.#unproved)), ...here };
      case 'a key with the scope':
        return await this.#keyOf(team, [scope]);
      case 'a key with every scope but that':
        return await this.#keyOf(
          team,
          API_KEY_SCOPES.filter((one) => one !== scope),
        );
      case 'a key with the scope and a foreign x-org-id':
        return { ...(await this.#keyOf(team, [scope])), 'x-org-id': foreign.id };
      case 'a foreign key with the scope':
        return await this.#keyOf(foreign, [scope]);
    }
  }

  async #keyOf(owner: Team, scopes: ApiKeyScope[]): Promise<Record<string, string>> {
    const name = `${owner.id} ${scopes.join()}`;
    const key = this.#keys.get(name) ?? (await owner.newKey(scopes)).key;
    this.#keys.set(name, key);
    return { 'x-api-key': key };
  }
}
