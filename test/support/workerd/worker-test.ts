/** Fixtures of the Worker's suites. A fixture is created when a test that names it begins. */
import { test as base, expect } from 'vitest';
import type { CommandFamily } from '../../../protocol/routing-keys.ts';
import { Callers } from './callers.ts';
import { connect } from './devices.ts';
import { publishFrame } from './links.ts';
import { Mailbox } from './mailbox.ts';
import { PASSWORD, Person, uniqueEmail } from './people.ts';
import { RegistryRows } from './registry-rows.ts';
import { Team } from './team.ts';
import { createKey, createOrganization, createPlant, type KeyOptions } from './world.ts';

export { describe, expect } from 'vitest';
export { expectError, expectInvalid, expectSameError } from './rest.ts';

export const UUID = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
export const INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

export const test = base
  // Shared by the tests of a file: two organizations with members.
  .extend('team', { scope: 'file' }, () => Team.create())
  .extend('other', { scope: 'file' }, () => Team.create())
  // Every kind of caller of a route of `team`.
  .extend('callers', { scope: 'file' }, ({ team, other }) => Callers.of(team, other))
  // One organization that no other test touches, so that its lists and counts are known.
  .extend('ownTeam', () => Team.create())
  .extend('person', () => Person.register())
  // The mails of requests to it.
  .extend('mailbox', () => new Mailbox())
  // A person who has registered, and has not proved the email address.
  .extend('newcomer', async ({ mailbox }) => {
    const email = uniqueEmail();
    await mailbox.read('POST', '/auth/register', { email, password: PASSWORD, name: 'New' }, 201);
    return await Person.logIn(email);
  })
  // A plant of `team` with a gateway, and the gateway's link.
  .extend('plantId', async ({ team }) => (await team.newPlant()).id)
  .extend('device', ({ team, plantId }) => team.newTokenDevice({ plantId }))
  .extend('link', ({ device }) => connect(device))
  // An organization without members, with a key for it and a plant whose Site knows its gateway.
  .extend('organization', () => createOrganization())
  .extend('plant', ({ organization }) => createPlant(organization))
  .extend('newKey', ({ organization }) => (options: KeyOptions = {}) => {
    return createKey(organization, options);
  })
  .extend('key', ({ newKey }) => newKey())
  // A command of that key to that plant, as a partner publishes it.
  .extend('newFrame', ({ organization, key, plant }) => {
    return (family: CommandFamily, payload: object, options: Parameters<typeof publishFrame>[5] = {}) =>
      publishFrame(organization, key, plant.id, family, payload, options);
  })
  // Rows of the registry, written without REST.
  .extend('rows', () => RegistryRows.create())
  .extend('world', ({ organization, plant, key }) => ({ organization, plant, key }));

export const it = test;
