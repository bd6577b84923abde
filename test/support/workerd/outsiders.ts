/** All kinds of callers who are neither a member nor a key of an organization. */
import { evictDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { API_KEY_SCOPES } from '../../../protocol/scopes.ts';
import type { AnyRoute } from '../../../worker/route.ts';
import { CALLERS, Callers } from './callers.ts';
import { operator } from './operator.ts';
import { makeSuperAdmin, Person } from './people.ts';
import type { Team } from './team.ts';
import type { KeyOptions } from './world.ts';

type Headers = Record<string, string>;
type HeadersOf = (route: AnyRoute) => Headers | Promise<Headers>;

export class Outsiders {
  readonly #callers: ReadonlyMap<string, HeadersOf>;
  readonly #people: readonly Person[];

  private constructor(callers: ReadonlyMap<string, HeadersOf>, people: readonly Person[]) {
    this.#callers = callers;
    this.#people = people;
  }

  /**
   * The members and keys of `team`, for which things of `foreign` are foreign. `ownPlant` and `foreignPlant`: plants of
   * the two, to which keys are limited.
   */
  static async create(team: Team, foreign: Team, ownPlant: string, foreignPlant: string): Promise<Outsiders> {
    // Several callers are one person, who sends more than 600 requests a minute.
    await operator.change(`/platform/organizations/${team.id}/limits`, {
      restRatePerMinute: 100_000,
      keyTestsPerMinute: 1_000,
      changesPerMinute: 100_000,
    });
    await team.orgAdmin.change(`/organizations/${team.id}`, { settings: { restRatePerMinute: 100_000 } });
    const superAdmin = await Person.register();
    await makeSuperAdmin(superAdmin);
    await team.join(superAdmin, 'ORG_ADMIN');
    const common = await Callers.of(team, foreign);
    const session =
      ({ accessToken }: Person, org: string) =>
      () => {
        return { authorization: `Bearer ${accessToken}`, 'x-org-id': org };
      };
    const newKey = async (options: KeyOptions) => {
      const { key } = await team.newKey([...API_KEY_SCOPES], options);
      return () => ({ 'x-api-key': key });
    };
    const callers = new Map<string, HeadersOf>([
      ...CALLERS.filter((caller) => !/^a (stranger|foreign key)/.test(caller)).map(
        (caller) => [caller, (route: AnyRoute) => common.headersOf(caller, route)] as const,
      ),
      ['a SUPER_ADMIN of the platform', session(superAdmin, team.id)],
      ['an ADMIN with the foreign x-org-id', session(team.admin, foreign.id)],
      ['a key with every scope', await newKey({})],
      ['a key for its own plant', await newKey({ allowedPlantIds: [ownPlant] })],
      ['a key for the foreign plant', await newKey({ allowedPlantIds: [foreignPlant] })],
      ['a key for no plant', await newKey({ allowedPlantIds: [] })],
      ['a key for other addresses', await newKey({ allowedIps: ['198.51.100.0/24'] })],
      ['an expired key', await newKey({ expiresAtMs: Date.now() - 1 })],
      ['a revoked key', await newKey({ revokedAtMs: Date.now() })],
    ]);
    return new Outsiders(callers, [...team.members, ...common.people, superAdmin]);
  }

  /** Calls `visit` once for each caller, with the headers that this caller sends to the route. */
  async each(route: AnyRoute, visit: (caller: string, headers: Headers) => Promise<void>): Promise<void> {
    const visits = [...this.#callers].map(async ([caller, headersOf]) => {
      await visit(caller, await headersOf(route));
    });
    await Promise.all(visits);
    await Promise.all(this.#people.map(forgetRequests));
  }
}

/** Requests outside of the own organization have a limit that no setting raises: begins their count again. */
async function forgetRequests({ id }: Person): Promise<void> {
  try {
    await evictDurableObject(env.REQUESTS.get(env.REQUESTS.idFromName(`user:${id}`)));
  } catch (error) {
    if (!String(error).includes('not currently running')) throw error;
  }
}
