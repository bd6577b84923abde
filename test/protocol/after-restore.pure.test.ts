/** Which saved audit events count after D1 was restored: of each thing of a target the last one. */
import { describe, expect, it } from 'vitest';
import { lastOfEach, type SavedEvent } from '../../protocol/after-restore.ts';

const ORGANIZATION = '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10';

/** Events of one target a second apart, written as `name` or `name target`. */
function saved(...names: string[]): SavedEvent[] {
  return names.map((text, index) => {
    const [event = '', target = 'x', organizationId = ORGANIZATION] = text.split(' ');
    return {
      organizationId,
      event: {
        ...{ id: String(index), event, actor: { type: 'USER', id: 'u' }, address: null, outcome: 'SUCCESS' },
        ...{ target: { type: 'THING', id: target }, details: {}, count: 1 },
        createdAt: new Date(Date.UTC(2026, 0, 1, 0, 0, index)).toISOString(),
      },
    };
  });
}

function left(...names: string[]): string[] {
  return lastOfEach(saved(...names)).map(({ saved: { event }, is }) => `${event.id} ${event.event} ${is}`);
}

describe('the events that count', () => {
  it('are the last ones about a thing', () => {
    expect(left('organization.suspended', 'organization.reactivated')).toEqual([
      '1 organization.reactivated lost',
    ]);
    expect(left('organization.suspended', 'organization.reactivated', 'organization.suspended')).toEqual([
      '2 organization.suspended apply',
    ]);
    expect(left('member.role_changed', 'member.removed', 'member.joined')).toEqual(['2 member.joined lost']);
    expect(left('user.password_changed', 'user.password_reset')).toEqual(['1 user.password_reset apply']);
  });

  it('are not those of a thing that has ended since', () => {
    expect(
      left('device.registered', 'device.updated', 'device.certificate_issued', 'device.deleted'),
    ).toEqual(['3 device.deleted apply']);
    expect(left('api_key.created', 'api_key.updated', 'api_key.revoked')).toEqual([
      '2 api_key.revoked apply',
    ]);
  });

  it('keep targets, things and organizations of a member apart, in their order', () => {
    expect(left('device.deleted b', 'device.updated a', 'device.certificate_issued a')).toEqual([
      '0 device.deleted apply',
      '1 device.updated lost',
      '2 device.certificate_issued apply',
    ]);
    expect(left('member.removed m one', 'member.joined m two')).toEqual([
      '0 member.removed apply',
      '1 member.joined lost',
    ]);
  });

  it('are not failures, events without a target, or events that change nothing in D1', () => {
    const [event] = saved('api_key.revoked');
    if (!event) throw new Error('no event');
    expect(lastOfEach([{ ...event, event: { ...event.event, outcome: 'FAILURE' } }])).toEqual([]);
    expect(lastOfEach([{ ...event, event: { ...event.event, target: null } }])).toEqual([]);
    expect(left('user.logged_in', 'device.suspended', 'plant.command_sent', 'an.unknown_name')).toEqual([]);
  });
});
