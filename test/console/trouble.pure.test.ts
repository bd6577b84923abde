/** The order of the list of sites: those with trouble first. */
import { expect, it } from 'vitest';
import { troubleOf } from '../../console/screens/trouble.ts';

it('puts sites with more trouble first', () => {
  const alert = (severity: 'CRITICAL' | 'WARNING' | 'INFO') => ({ severity });
  const sites = [
    { name: 'online', trouble: troubleOf({ status: 'ONLINE' }, []) },
    {
      name: 'commands wait',
      trouble: troubleOf({ status: 'ONLINE' }, [], { deviates: false, waiting: 2 }),
    },
    { name: 'new', trouble: troubleOf({ status: 'PENDING' }, []) },
    { name: 'deviates', trouble: troubleOf({ status: 'ONLINE' }, [], { deviates: true, waiting: 0 }) },
    { name: 'one warning', trouble: troubleOf({ status: 'ONLINE' }, [alert('WARNING')]) },
    { name: 'two warnings', trouble: troubleOf({ status: 'ONLINE' }, [alert('WARNING'), alert('WARNING')]) },
    { name: 'degraded', trouble: troubleOf({ status: 'DEGRADED' }, []) },
    { name: 'critical', trouble: troubleOf({ status: 'ONLINE' }, [alert('INFO'), alert('CRITICAL')]) },
    { name: 'offline', trouble: troubleOf({ status: 'OFFLINE' }, []) },
    { name: 'offline, critical', trouble: troubleOf({ status: 'OFFLINE' }, [alert('CRITICAL')]) },
  ];
  const sorted = [...sites].reverse().sort((one, other) => other.trouble - one.trouble);
  expect(sorted.map(({ name }) => name)).toEqual(sites.map(({ name }) => name).reverse());
});
