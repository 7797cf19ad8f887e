/** Rights spread late: a deployment that gives them and uses them must not fail for that. */

import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { expect, it } from 'vitest';
import { deploymentOf, reasonFor } from '../../functions/cloudformation.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { ConfigurationError, MisconfiguredError } from '../../lib/core/errors.ts';
import { encodeConfiguration } from '../../lib/declaration/codec.ts';
import { declareWhenPermitted } from '../../lib/deploy/declare.ts';
import { queueUrlsFor } from '../fixtures/declared.ts';
import { stage, storeWith } from '../stage/stage.ts';

/** A table that fails so often, then answers. What was waited is counted. */
async function declaring(failures: number, failure: Error) {
  const { store, log, time } = stage();
  let tries = 0;
  let waitedMs = 0;
  const refusing = storeWith(store, {
    putDeclaration: async (record) => {
      tries += 1;
      if (tries <= failures) throw failure;
      return store.putDeclaration(record);
    },
  });
  const configuration = resolveConfiguration({ types: { resize: {} } });
  const deployment = {
    pool: encodeConfiguration(configuration),
    queueUrls: queueUrlsFor(configuration),
    deployment: 'one',
  };
  const context = { store: refusing, queue: { sendWake: async () => {} }, nowMs: () => time.nowMs, log };
  const sleep = async (ms: number): Promise<void> => {
    waitedMs += ms;
  };
  const { kind } = await declareWhenPermitted(() => [context, deployment], { log, sleep });
  return { kind, tries, waitedMs };
}

it.each([
  ['the table', new MisconfiguredError('AccessDeniedException')],
  ['the wake queue', new MisconfiguredError('AccessDenied')],
])('a right to %s that comes within half a minute is waited for', async (_, failure) => {
  expect(await declaring(5, failure)).toEqual({ kind: 'declared', tries: 6, waitedMs: 30_000 });
});

it('a right that does not come fails the deployment', async () => {
  const failure = new MisconfiguredError('AccessDeniedException');
  expect(await declaring(100, failure)).toEqual({ kind: 'refused', tries: 6, waitedMs: 30_000 });
});

it('what is refused for another reason fails at once', async () => {
  const failure = new ConfigurationError('types', 1, 'is wrong', 'Correct it.');
  expect(await declaring(1, failure)).toEqual({ kind: 'refused', tries: 1, waitedMs: 0 });
});

it('a deployment is read from the texts that CloudFormation sends, and what is absent stays absent', () => {
  const event = (properties: object) =>
    ({ RequestId: 'one', ResourceProperties: properties }) as unknown as CloudFormationCustomResourceEvent;
  const plain = { pool: '1.pool', queueUrls: { images: 'https://sqs/images' } };
  expect(deploymentOf(event(plain))).toEqual({ ...plain, ownQueues: {}, deployment: 'one' });
  expect(deploymentOf(event({ ...plain, schedules: '{}', payloadSchemas: '1.schemas' }))).toMatchObject({
    schedules: '{}',
    payloadSchemas: '1.schemas',
  });
});

it.each(['x', '字', '"', '\u0001'])(
  'a reason full of %j is cut to what CloudFormation takes of an answer',
  (character) => {
    const reason = reasonFor(`RangeError: ${character.repeat(5_000)}`);
    expect(reason).toMatch(/^RangeError: .*…$/s);
    expect(Buffer.byteLength(JSON.stringify(reason))).toBeLessThanOrEqual(3_010);
  },
);
