/**
 * Strangers: how much slower the platform is for others because of clients without a credential, and because
 * of one account at its full rate. The three parts run one after the other; each compares a client with
 * itself while nothing else happens, in one run.
 */
import { benchStrangersAccount } from './strangers-account.ts';
import { benchStrangersConnections } from './strangers-connections.ts';
import { benchStrangersRequests } from './strangers-requests.ts';

export async function benchStrangers(minutes: number | undefined): Promise<void> {
  await benchStrangersRequests();
  await benchStrangersConnections();
  await benchStrangersAccount(minutes);
}
