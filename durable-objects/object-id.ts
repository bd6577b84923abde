/**
 * The only place that makes the id of an object, so that all objects of a deployment are in its jurisdiction. An id of
 * another jurisdiction is another object: `JURISDICTION` cannot be changed after the first deployment.
 */
/** The part of a namespace of objects that this file uses. */
interface Namespace<Stub> {
  idFromName(name: string): DurableObjectId;
  get(id: DurableObjectId): Stub;
  jurisdiction(name: 'eu' | 'us'): Namespace<Stub>;
}

const JURISDICTIONS = ['eu', 'us'] as const;

/** The object with this name: of a Site the id of its plant, of a Vhost the id of its key. */
export function objectNamed<
  Kind extends string,
  Bindings extends { readonly [Name in Kind]: Namespace<unknown> },
>(
  env: Bindings & { JURISDICTION?: string | undefined },
  kind: Kind,
  name: string,
): ReturnType<Bindings[Kind]['get']> {
  const { JURISDICTION: given = 'none' } = env;
  const jurisdiction = JURISDICTIONS.find((one) => one === given);
  if (!jurisdiction && given !== 'none')
    throw new Error(`JURISDICTION must be "eu", "us" or "none", not ${JSON.stringify(given)}`);
  const whole: Namespace<unknown> = env[kind];
  const namespace = jurisdiction ? whole.jurisdiction(jurisdiction) : whole;
  return namespace.get(namespace.idFromName(name)) as ReturnType<Bindings[Kind]['get']>;
}
