/**
 * Each `fetch` of a suite has a connection of its own. The edge closes a kept connection after five idle seconds, and a
 * call that uses it at that moment fails with "other side closed".
 */
import { Agent, setGlobalDispatcher } from 'undici';

setGlobalDispatcher(new Agent({ pipelining: 0 }));
