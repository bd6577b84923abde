/**
 * Strangers: what clients without a credential, and one account at its full rate, cost everybody else. The three
 * parts run one after the other; each compares a client with itself while nothing else happens, in one run.
 */
import { benchStrangersAccount } from './strangers-account.ts';
import { benchStrangersConnections } from './strangers-connections.ts';
import { benchStrangersRequests } from './strangers-requests.ts';

export async function benchStrangers(minutes: number | undefined): Promise<void> {
  await benchStrangersRequests();
  await benchStrangersConnections();
  await benchStrangersAccount(minutes);
}
