/** The objects of a deployment are all in its jurisdiction, or in none; nothing makes an object beside it. */
import { env } from 'cloudflare:workers';
import { describe, expect, it } from '#workerd/worker-test.ts';
import type { Env } from '../../durable-objects/env.ts';
import { objectNamed } from '../../durable-objects/object-id.ts';

const KINDS = ['SITE', 'VHOST', 'REQUESTS', 'METRICS'] as const;
const NAME = '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10';

function inJurisdiction(JURISDICTION: string | undefined): Env {
  return { ...env, JURISDICTION } as Env;
}

describe('the id of an object', () => {
  it.each(KINDS)('keeps its value for a %s of a deployment without a jurisdiction', (kind) => {
    for (const none of [undefined, 'none'])
      expect(String(objectNamed(inJurisdiction(none), kind, NAME).id)).toBe(
        String(env[kind].idFromName(NAME)),
      );
  });

  // The runtime of the tests has no jurisdictions, and says so when it is asked for one.
  it.each(KINDS)('asks the platform for a %s in the jurisdiction of the deployment', (kind) => {
    for (const jurisdiction of ['eu', 'us'])
      expect(() => objectNamed(inJurisdiction(jurisdiction), kind, NAME)).toThrow(
        'Jurisdiction restrictions are not implemented',
      );
  });

  it('is that of the restricted namespace, and not that of the whole one', () => {
    const asked: string[] = [];
    const restricted = {
      idFromName: (name: string) => env.SITE.idFromName(`restricted ${name}`),
      get: (id: DurableObjectId) => env.SITE.get(id),
    };
    const SITE = {
      jurisdiction: (name: string) => {
        asked.push(name);
        return restricted;
      },
    };
    const stub = objectNamed({ SITE, JURISDICTION: 'eu' } as unknown as Env, 'SITE', NAME);
    expect(asked).toEqual(['eu']);
    expect(String(stub.id)).toBe(String(env.SITE.idFromName(`restricted ${NAME}`)));
  });

  it.each(['', ' ', 'EU', 'eu ', 'eu,us', 'germany', 'fedramp', 'None'])(
    'is not made at all if JURISDICTION is %j: the error names the setting, the value and the choices',
    (wrong) => {
      const error = `JURISDICTION must be "eu", "us" or "none", not ${JSON.stringify(wrong)}`;
      for (const kind of KINDS) expect(() => objectNamed(inJurisdiction(wrong), kind, NAME)).toThrow(error);
    },
  );
});
