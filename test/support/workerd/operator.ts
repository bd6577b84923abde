/** The operator of the deployment, with the token of the tests' environment. */
import { env } from 'cloudflare:workers';
import { Client } from './client.ts';

class OperatorClient extends Client {
  protected override credential(): Record<string, string> {
    return { authorization: `Bearer ${env.OPERATOR_TOKEN ?? ''}` };
  }
}

export const operator = new OperatorClient();
