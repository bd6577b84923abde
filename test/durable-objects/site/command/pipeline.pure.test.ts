/** The stages of a submission in order, and the checks before those of the command kind [C-7.4]. */

import { describe, expect, it } from 'vitest';
import {
  chargeItem,
  type FactsOptions,
  NOW_MS,
  PAYLOADS,
  signedSubmission,
  siteView,
  subsetsOf,
} from '#workerd/site-view.ts';
import type { Submission } from '../../../../durable-objects/rpc.ts';
import { publishDigest } from '../../../../durable-objects/site/command/message-ids.ts';
import {
  type EarlierMessage,
  type Judgement,
  judge,
  receive,
} from '../../../../durable-objects/site/command/pipeline.ts';
import { compact } from '../../../../protocol/compact-json.ts';
import { formatInstant } from '../../../../protocol/ids.ts';
import { COMMAND_FAMILIES, type CommandFamily } from '../../../../protocol/routing-keys.ts';
import type { SignatureVerdict } from '../../../../protocol/signing.ts';

const LATER = '2030-03-05T10:00:00.000Z';
const TOLERANCE_MS = 300_000;
const ACCEPTED = { status: 'ACCEPTED', commandType: 'MODE_CHANGE' } as const;

/** An earlier message like this publish, except for the given changes. */
function earlierOf(
  one: Submission,
  changes: Partial<Pick<Submission, 'routingKey' | 'payloadText'>> = {},
): EarlierMessage {
  const { routingKey, payloadText } = { ...one, ...changes };
  return { digest: publishDigest(routingKey, compact(payloadText)), acknowledgement: ACCEPTED };
}

function judgeNow(one: Submission, options: FactsOptions = {}, earlier?: EarlierMessage): Judgement {
  return judge(receive(one), earlier, siteView(options), NOW_MS);
}

function rejected(rejectionCode: string, message: string, changes: object = {}) {
  return {
    verdict: 'rejected',
    stage: expect.any(String),
    refusal: { rejectionCode, message },
    violations: [],
    binding: true,
    ...changes,
  };
}

describe('the stages of a submission', () => {
  const broken: [string, string][] = [
    ['signature', 'signature mismatch'],
    ['repeat', 'messageId reused'],
    [
      'freshness',
      `signature timestamp outside tolerance; timestamp ${formatInstant(NOW_MS - TOLERANCE_MS - 1)} is more than 300 s behind the platform's clock`,
    ],
    ['payload', 'commands: is required'],
    ['target', 'BESS-1 is offline'],
    ['constraint', 'BESS-1: 51 kW exceeds maxChargeKw 50 kW'],
    ['asset', 'BESS-1 is a BESS, not a FVE'],
    ['fault', 'BESS-1 reports a fault'],
  ];
  const OF_ITEMS = ['target', 'constraint', 'asset', 'fault'];

  it('the first failed stage decides, for every combination of errors, and an item lists all its errors [C-7.4]', () => {
    for (const some of subsetsOf(broken)) {
      const names = some.map(([name]) => name);
      const isBroken = (name: string) => names.includes(name);
      const item = chargeItem(isBroken('constraint') ? 51 : 5, {
        ...(isBroken('asset') ? { assetType: 'FVE' } : {}),
      });
      const one = signedSubmission('device', isBroken('payload') ? {} : { commands: [item] }, {
        signature: isBroken('signature') ? 'mismatch' : 'valid',
        timestampMs: isBroken('freshness') ? NOW_MS - TOLERANCE_MS - 1 : NOW_MS,
      });
      const earlier = isBroken('repeat') ? earlierOf(one, { payloadText: '{"commands":[]}' }) : undefined;
      const options = {
        constraints: { maxChargeKw: 50 },
        offline: isBroken('target') ? ['BESS-1'] : [],
        inFault: isBroken('fault') ? ['BESS-1'] : [],
      };
      const judgement = judgeNow(one, options, earlier);
      const [first, ...more] = some.map(([name, text]) => ({ name, text }));
      const isOfItem = first !== undefined && OF_ITEMS.includes(first.name);
      const text = isOfItem ? [first.text, ...more.map(({ text }) => text)].join('; ') : first?.text;
      const seen =
        judgement.verdict === 'rejected' ? [judgement.stage, judgement.refusal.message] : [judgement.verdict];
      expect([names, ...seen]).toEqual([names, ...(first ? [first.name, text] : ['valid'])]);
    }
  });
});

describe('the signature of a submission', () => {
  it.each<[SignatureVerdict, string]>([
    ['valid', 'valid'],
    ['not-needed', 'valid'],
    ['missing', 'signature missing'],
    ['mismatch', 'signature mismatch'],
  ])(
    'a submission with the signature result %s is: %s; a rejected one does not reserve its messageId [C-7.2]',
    (signature, message) => {
      const judgement = judgeNow(signedSubmission('mode', PAYLOADS.mode, { signature }));
      if (message === 'valid') expect(judgement.verdict).toBe('valid');
      else expect(judgement).toEqual(rejected('INVALID_PAYLOAD', message, { binding: false }));
    },
  );

  it('the text of a signature mismatch includes the hint of the Vhost [C-7.2]', () => {
    const hinted = { signatureHint: 'signed over: 1.1|…' };
    const one = signedSubmission('mode', PAYLOADS.mode, { signature: 'mismatch', ...hinted });
    const message = 'signature mismatch; signed over: 1.1|…';
    expect(judgeNow(one)).toEqual(rejected('INVALID_PAYLOAD', message, { binding: false }));
    expect(judgeNow({ ...one, signature: 'valid' }).verdict).toBe('valid');
  });

  it('the signature is checked before the repeat, so that a forger cannot read an acknowledgement [C-7.3]', () => {
    const one = signedSubmission('mode', PAYLOADS.mode, { signature: 'mismatch' });
    expect(judgeNow(one, {}, earlierOf(one))).toMatchObject({ refusal: { message: 'signature mismatch' } });
  });
});

describe('a repeated messageId', () => {
  const one = signedSubmission('mode', { mode: 'STANDARD', reason: 'a  b' });

  it('gets the same acknowledgement if routing key and payload are the same [C-7.3]', () => {
    expect(judgeNow(one, {}, earlierOf(one))).toEqual({ verdict: 'repeat', acknowledgement: ACCEPTED });
  });

  it('is a repeat with other whitespace outside strings, and is rejected with other whitespace inside one [C-7.3]', () => {
    const spaced = { ...one, payloadText: '{ "mode" : "STANDARD",\n\t"reason":"a  b" }' };
    expect(judgeNow(spaced, {}, earlierOf(one)).verdict).toBe('repeat');
    const other = { ...one, payloadText: '{"mode":"STANDARD","reason":"a b"}' };
    expect(judgeNow(other, {}, earlierOf(one)).verdict).toBe('rejected');
  });

  it.each<[string, Partial<Submission>]>([
    ['another routing key', { routingKey: 'acme2.command.mode' }],
    ['another payload', { payloadText: '{"mode":"STANDARD"}' }],
    ['the same fields in another order', { payloadText: '{"reason":"a  b","mode":"STANDARD"}' }],
  ])(
    'is rejected with %s, and the messageId still belongs to the first submission [C-7.3]',
    (_what, changes) => {
      expect(judgeNow({ ...one, ...changes }, {}, earlierOf(one))).toEqual(
        rejected('INVALID_PAYLOAD', 'messageId reused', { binding: false }),
      );
    },
  );

  it('is recognized whatever its timestamp is, and even if the site has no gateway any more [C-7.3]', () => {
    const old = { ...one, timestampMs: NOW_MS - 10 * TOLERANCE_MS };
    expect(judgeNow(old, { gatewayId: undefined }, earlierOf(one)).verdict).toBe('repeat');
  });
});

describe('the timestamp of a submission', () => {
  it.each([
    [-TOLERANCE_MS, 'fresh'],
    [TOLERANCE_MS, 'fresh'],
    [-TOLERANCE_MS - 1, 'stale'],
    [TOLERANCE_MS + 1, 'stale'],
  ])('a signed submission with a timestamp %d ms from now is %s (spec: Limits)', (offMs, expected) => {
    const one = signedSubmission('mode', PAYLOADS.mode, { timestampMs: NOW_MS + offMs });
    const side = offMs < 0 ? 'behind' : 'ahead of';
    const at = formatInstant(NOW_MS + offMs);
    const text = `signature timestamp outside tolerance; timestamp ${at} is more than 300 s ${side} the platform's clock`;
    const stale = rejected('INVALID_PAYLOAD', text, { binding: false });
    if (expected === 'fresh') expect(judgeNow(one).verdict).toBe('valid');
    else expect(judgeNow(one)).toEqual(stale);
  });

  it('an unsigned submission may have any timestamp [C-7.2]', () => {
    const old = { timestampMs: 0, signature: 'not-needed' } as const;
    const one = signedSubmission('emergency', PAYLOADS.emergency, old);
    expect(judgeNow(one).verdict).toBe('valid');
  });
});

describe('the payload of a submission', () => {
  it.each(COMMAND_FAMILIES)(
    'an empty payload of the family %s is INVALID_PAYLOAD, and reserves its messageId [C-7.1]',
    (family) => {
      expect(judgeNow(signedSubmission(family, {}))).toMatchObject({
        verdict: 'rejected',
        refusal: { rejectionCode: 'INVALID_PAYLOAD', message: expect.stringMatching(/^\w+: ./) },
        binding: true,
        violations: [],
      });
    },
  );

  it.each(COMMAND_FAMILIES)(
    'a payload of the family %s is validated by the command kind of that family [C-7.5]',
    (family) => {
      const judgement = judgeNow(signedSubmission(family, PAYLOADS[family]));
      const commandType = {
        'site-setpoint': 'SITE_SETPOINT',
        device: 'DEVICE_COMMAND',
        emergency: 'EMERGENCY',
        mode: 'MODE_CHANGE',
        schedule: 'SCHEDULE',
        config: 'CONFIG',
      }[family];
      const items = family === 'device' ? [{}] : [];
      const command = { commandType, payload: PAYLOADS[family] };
      expect(judgement).toMatchObject({ verdict: 'valid', command, violations: [], items });
    },
  );
});

describe('the window of a submission', () => {
  const VALID = 'valid';
  const past = 'validUntil: must be in the future';
  const backwards = 'validUntil: must be after validFrom';
  const at = (offMs: number) => new Date(NOW_MS + offMs).toISOString();

  const expectWindow = (family: CommandFamily, window: object, message: string) => {
    const judgement = judgeNow(signedSubmission(family, { ...PAYLOADS[family], ...window }));
    if (message === VALID) expect(judgement.verdict).toBe('valid');
    else expect(judgement).toEqual(rejected('INVALID_PAYLOAD', message));
  };

  it.each([
    ['that ends now', past, -2, 0],
    ['that ends in a moment', VALID, -2, 1],
    ['that ended', past, -2, -1],
    ['that ended before it began', past, -1, -2],
    ['that ends as it begins', backwards, 5, 5],
    ['that ends before it begins', backwards, 6, 5],
    ['that ends after it begins', VALID, 5, 6],
    ['without an end', VALID, -86_400_000, undefined],
    ['that ended, and would begin later', `${past}; ${backwards}`, 5, -5],
  ])('the window of a setpoint %s gets the result: %s [C-7.6]', (_what, message, fromMs, untilMs) => {
    const validUntil = untilMs === undefined ? {} : { validUntil: at(untilMs) };
    expectWindow('site-setpoint', { validFrom: at(fromMs), ...validUntil }, message);
  });

  it.each([
    ['that ends now', past, at(0)],
    ['that ends in a moment', VALID, at(1)],
    ['that ended, in another time zone,', past, '2030-03-05T10:59:59+02:00'],
  ])('the window of a mode %s gets the result: %s [C-7.6]', (_what, message, validUntil) => {
    expectWindow('mode', { validUntil }, message);
  });

  it('an invalid window is listed with the other errors of the payload [C-7.4]', () => {
    const wrong = { ...PAYLOADS['site-setpoint'], priority: 'URGENT', validFrom: at(5), validUntil: at(-5) };
    const priority = 'priority: must be one of NORMAL, HIGH, EMERGENCY';
    expect(judgeNow(signedSubmission('site-setpoint', wrong))).toEqual(
      rejected('INVALID_PAYLOAD', `${priority}; ${past}; ${backwards}`, { stage: 'payload' }),
    );
    const startTime = at(-86_400_000);
    const id = '00000000-0000-4000-8000-00000000000a';
    const over = { scheduleId: id, startTime, slots: [{ slotIndex: 0, mode: 'STANDARD' }] };
    const both =
      'endTime: must be in the future; scheduleId: another schedule has this id: choose another one';
    expect(judgeNow(signedSubmission('schedule', over), { schedules: { [id]: 'ACTIVE' } })).toEqual(
      rejected('INVALID_PAYLOAD', both, { stage: 'window' }),
    );
  });

  it('the window is checked with the payload, before the target [C-7.4]', () => {
    const one = signedSubmission('mode', { mode: 'STANDARD', validUntil: at(0) });
    expect(judgeNow(one, { gatewayId: undefined })).toMatchObject({ refusal: { message: past } });
    const open = signedSubmission('mode', { mode: 'STANDARD', validUntil: LATER });
    expect(judgeNow(open, { gatewayId: undefined })).toMatchObject({
      refusal: { rejectionCode: 'DEVICE_OFFLINE' },
    });
  });
});
