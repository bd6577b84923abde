/**
 * Device templates [C-11.6]: the signals that a type of device reports, and the actions that it executes. An
 * organization writes its own ones; `system-template.ts` has the platform's.
 */
import * as z from 'zod';
import { ASSET_TYPES } from './enums.ts';
import { LIMIT } from './limits.ts';
import { nearest } from './nearest.ts';
import { plainText } from './text.ts';
import { displayName } from './user.ts';
import { utf8Length } from './utf8.ts';

export const TEMPLATE_LEVELS = ['SYSTEM', 'ORGANIZATION'] as const;
export type TemplateLevel = (typeof TEMPLATE_LEVELS)[number];
const SIGNAL_KINDS = ['GAUGE', 'REGISTER', 'STATE'] as const;
const PARAM_TYPES = ['number', 'integer', 'boolean', 'string'] as const;

export const actionName = z
  .string()
  .regex(/^[A-Z][A-Z0-9_]{0,63}$/, 'must be upper-case letters, digits and _, at most 64');
const unit = plainText.max(LIMIT.templateUnitCharacters);
const bound = z.number().min(-LIMIT.signalMagnitude).max(LIMIT.signalMagnitude);

export const templateSignal = z
  .strictObject({
    /** The name in a message's `data`, without the sub-device: `powerKw`. */
    name: z
      .string()
      .max(LIMIT.signalNameCharacters)
      .regex(/^\P{C}+$/u, 'must have printable characters')
      .refine((text) => !text.includes('/'), 'must not contain /: a template has no names of sub-devices'),
    label: displayName,
    unit,
    kind: z.enum(SIGNAL_KINDS),
    min: bound.optional(),
    max: bound.optional(),
    /** The values that a signal of kind STATE can have. */
    states: z
      .array(z.strictObject({ value: bound, label: displayName }))
      .min(1)
      .max(LIMIT.templateValues)
      .refine((states) => !repeats(states.map(({ value }) => value)), 'must not contain a value twice')
      .optional(),
  })
  .refine(isOrdered, { path: ['min'], message: 'must not be above max' })
  .refine(({ kind, states }) => states === undefined || kind === 'STATE', {
    path: ['states'],
    message: 'only a signal of kind STATE has them',
  })
  .refine(({ kind, min, max }) => kind !== 'STATE' || (min === undefined && max === undefined), {
    path: ['kind'],
    message: 'a signal of kind STATE has no min and max: list its states',
  });
export type TemplateSignal = z.infer<typeof templateSignal>;

type ParamType = (typeof PARAM_TYPES)[number];

/** What the value of a parameter must be. */
interface ParamRule {
  type: ParamType;
  unit?: string | undefined;
  min?: number | undefined;
  max?: number | undefined;
  enum?: readonly (number | boolean | string)[] | undefined;
}

const paramValue = z.union([z.number(), z.boolean(), plainText.max(LIMIT.templateTextCharacters)]);

export const templateParam = z
  .strictObject({
    type: z.enum(PARAM_TYPES),
    unit: unit.optional(),
    /** Bounds of a number or an integer. */
    min: bound.optional(),
    max: bound.optional(),
    /** The only values that are valid. */
    enum: z
      .array(paramValue)
      .min(1)
      .max(LIMIT.templateValues)
      .refine((values) => !repeats(values), 'must not contain a value twice')
      .optional(),
    required: z.boolean().optional(),
  })
  .refine(isOrdered, { path: ['min'], message: 'must not be above max' })
  .refine(({ type, min, max }) => isNumeric(type) || (min === undefined && max === undefined), {
    path: ['type'],
    message: 'only a number or an integer has min and max',
  })
  .refine(
    ({ enum: values = [], ...param }) => values.every((value) => paramFault(param, value) === undefined),
    {
      path: ['enum'],
      message: 'must contain only values of the type, within min and max',
    },
  );
export type TemplateParam = z.infer<typeof templateParam>;

/** A record of zod drops this name without a word, because it is no property of its own there. */
function noProto(given: unknown, context: z.RefinementCtx): void {
  const isNamed = typeof given === 'object' && given !== null && Object.hasOwn(given, '__proto__');
  if (isNamed) context.addIssue({ code: 'custom', path: ['__proto__'], message: NAME_FAULT });
}

const NAME_FAULT = 'must be letters, digits and _, at most 64';

export const templateAction = z.strictObject({
  action: actionName,
  label: displayName,
  params: z
    .unknown()
    .superRefine(noProto)
    .pipe(
      z
        .record(z.string().regex(/^[A-Za-z]\w{0,63}$/, NAME_FAULT), templateParam)
        .refine((params) => Object.keys(params).length <= LIMIT.templateParams, {
          message: `must be at most ${LIMIT.templateParams}`,
        }),
    )
    .default({}),
});
export type TemplateAction = z.infer<typeof templateAction>;

/** D1 is shared, so a list has a size, too. */
const isBounded = [
  (entries: readonly unknown[]) => utf8Length(JSON.stringify(entries)) <= LIMIT.templateListBytes,
  {
    message: `must be at most ${LIMIT.templateListBytes} bytes as JSON: use shorter labels or fewer entries`,
  },
] as const;

/** The fields of a template that may be changed. Sub-devices rely on the asset type, so it may not. */
const changeable = {
  name: displayName,
  manufacturer: displayName.nullable(),
  model: displayName.nullable(),
  signals: z
    .array(templateSignal)
    .max(LIMIT.templateSignals)
    .refine(...isBounded)
    .superRefine(namedOnce(({ name }) => name, 'name')),
  actions: z
    .array(templateAction)
    .max(LIMIT.templateActions)
    .refine(...isBounded)
    .superRefine(namedOnce(({ action }) => action, 'action')),
};

export const deviceTemplateRequest = z.strictObject({
  level: z.enum(TEMPLATE_LEVELS).default('ORGANIZATION'),
  name: changeable.name,
  assetType: z.enum(ASSET_TYPES),
  manufacturer: changeable.manufacturer.default(null),
  model: changeable.model.default(null),
  signals: changeable.signals.default([]),
  actions: changeable.actions.default([]),
});
export type DeviceTemplateRequest = z.infer<typeof deviceTemplateRequest>;

/** A PATCH: omitted fields stay unchanged; `signals` and `actions` are replaced as a whole. */
export const deviceTemplateChange = z.strictObject(changeable).partial();
export type DeviceTemplateChange = z.infer<typeof deviceTemplateChange>;

export const deviceTemplateRecord = z.strictObject({
  id: z.string(),
  level: z.enum(TEMPLATE_LEVELS),
  name: z.string(),
  assetType: z.enum(ASSET_TYPES),
  manufacturer: z.string().nullable(),
  model: z.string().nullable(),
  signals: z.array(templateSignal),
  actions: z.array(templateAction),
  /** Null for a SYSTEM template: it comes with the platform. */
  createdAt: z.string().nullable(),
  updatedAt: z.string().nullable(),
});
export type DeviceTemplateRecord = z.infer<typeof deviceTemplateRecord>;

/** Every fault of a command's payload, as `payload.name: what is wrong` [C-11.6]. */
export function paramFaults(
  { action, params }: TemplateAction,
  payload: Readonly<Record<string, unknown>>,
): string[] {
  const names = Object.keys(params);
  const unknown = Object.keys(payload)
    .filter((name) => !names.includes(name))
    .map((name) => {
      const meant = nearest(name, names);
      const remedy = meant
        ? `did you mean "${meant}"?`
        : names.length > 0
          ? `its parameters are ${names.join(', ')}`
          : 'it has none';
      return `payload.${name}: ${action} has no such parameter: ${remedy}`;
    });
  const wrong = Object.entries(params).flatMap(([name, param]) => {
    const given = Object.hasOwn(payload, name);
    if (!given && !param.required) return [];
    const fault = given ? paramFault(param, payload[name]) : 'is required';
    return fault === undefined ? [] : [`payload.${name}: ${fault}`];
  });
  return [...wrong, ...unknown];
}

/** What is wrong with the value of a parameter; undefined: it fits. */
function paramFault(param: ParamRule, value: unknown): string | undefined {
  const { type, min = -Infinity, max = Infinity, enum: values, unit: ofUnit } = param;
  if (!isOfType(type, value)) return `must be ${TYPE_WORDS[type]}`;
  if (values && !values.some((one) => one === value)) return `must be one of ${values.join(', ')}`;
  if (typeof value !== 'number' || (value >= min && value <= max)) return undefined;
  const words = [
    ...(param.min === undefined ? [] : [`at least ${param.min}`]),
    ...(param.max === undefined ? [] : [`at most ${param.max}`]),
  ];
  return `must be ${words.join(' and ')}${ofUnit ? ` ${ofUnit}` : ''}`;
}

const TYPE_WORDS: Record<ParamType, string> = {
  number: 'a number within ±1e12 with at most six decimals',
  integer: 'a whole number within ±1e12',
  boolean: 'true or false',
  string: `a text of at most ${LIMIT.templateTextCharacters} characters`,
};

function isOfType(type: ParamType, value: unknown): boolean {
  switch (type) {
    case 'number':
      return isSignable(value);
    case 'integer':
      return isSignable(value) && Number.isInteger(value);
    case 'boolean':
      return typeof value === 'boolean';
    case 'string':
      return typeof value === 'string' && value.length <= LIMIT.templateTextCharacters;
  }
}

/** Whether a number reaches the device as it is: what the platform signs has no exponent [C-3.7]. */
function isSignable(value: unknown): value is number {
  if (typeof value !== 'number' || !(Math.abs(value) <= LIMIT.signalMagnitude)) return false;
  return Number(value.toFixed(6)) === value;
}

/** What is wrong with the value of a signal; undefined: it fits. */
export function signalFault({ min, max, states }: TemplateSignal, value: number): string | undefined {
  if (states && !states.some((state) => state.value === value)) return 'is not one of the states';
  if (min !== undefined && value < min) return `is below ${min}`;
  return max !== undefined && value > max ? `is above ${max}` : undefined;
}

function isNumeric(type: ParamType): boolean {
  return type === 'number' || type === 'integer';
}

function isOrdered({ min, max }: { min?: number | undefined; max?: number | undefined }): boolean {
  return min === undefined || max === undefined || min <= max;
}

function repeats(values: readonly unknown[]): boolean {
  return new Set(values).size < values.length;
}

/** A check that names every entry whose name an earlier entry has. */
function namedOnce<Entry>(nameOf: (entry: Entry) => string, field: string) {
  return (entries: readonly Entry[], context: z.RefinementCtx) => {
    const known = new Set<string>();
    for (const [index, entry] of entries.entries()) {
      const name = nameOf(entry);
      if (known.has(name))
        context.addIssue({
          code: 'custom',
          path: [index, field],
          message: `"${name}" is already in the list`,
        });
      known.add(name);
    }
  };
}
