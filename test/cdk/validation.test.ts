import { Duration, type Stack } from 'aws-cdk-lib';
import { describe, expect, it } from 'vitest';
import { Scheduler, type SchedulerProps } from '../../cdk/scheduler.ts';
import { ConfigurationError } from '../../lib/core/errors.ts';
import { emptyStack, workerFunction } from './stacks.ts';

const mistakes: readonly (readonly [string, (stack: Stack) => SchedulerProps, RegExp])[] = [
  ['no fleet', () => ({ fleets: {} }), /^fleets: the pool has no type and no fleet/],
  ['a fleet with no types', () => ({ fleets: { pdf: { types: [] } } }), /^fleets\.pdf\.types: names no type/],
  [
    'a type twice in one fleet',
    () => ({ fleets: { pdf: { types: ['a', 'a'] } } }),
    /^fleets\.pdf\.types\[1\]: is named twice, got "a"/,
  ],
  ['no slots', () => ({ fleets: { pdf: { types: ['a'], slots: 0 } } }), /^fleets\.pdf\.slots: .*got 0/],
  [
    'an unknown tier',
    () => ({ types: { a: { tier: 'gold' } }, fleets: { pdf: { types: ['a'] } } }),
    /^types\.a\.tier: names no declared tier \(default\), got "gold"/,
  ],
  [
    'a misspelt prop of the scheduler',
    () => ({ fleets: { pdf: { types: ['a'] } }, maxConcurency: 3 }) as SchedulerProps,
    /^maxConcurency: is not a known field/,
  ],
  [
    'a misspelt prop of a fleet',
    () => ({ fleets: { pdf: { types: ['a'], slot: 3 } } }) as SchedulerProps,
    /^fleets\.pdf\.slot: is not a known field/,
  ],
  [
    'a job that may take longer than its function lives',
    (stack) => ({
      types: { a: { timeoutMs: 30_000 } },
      fleets: { pdf: { types: ['a'], handler: workerFunction(stack, 'Pdf') } },
    }),
    /^types\.a\.timeoutMs: must be below the timeout of the function of fleet pdf \(30000 ms\), got 30000/,
  ],
  [
    'a handler without a number of slots',
    (stack) => ({ fleets: { pdf: { types: ['a'], slots: null, handler: workerFunction(stack, 'Pdf') } } }),
    /^fleets\.pdf\.slots: must be a number where a handler does the work/,
  ],
  [
    'more slots than an event source has invocations',
    (stack) => ({ fleets: { pdf: { types: ['a'], slots: 1_001, handler: workerFunction(stack, 'Pdf') } } }),
    /^fleets\.pdf\.slots: needs 1001 invocations at once, .*got 1001\. Raise batchSize/,
  ],
  [
    'a batch that SQS does not deliver',
    (stack) => ({ fleets: { pdf: { types: ['a'], batchSize: 11, handler: workerFunction(stack, 'Pdf') } } }),
    /^fleets\.pdf\.batchSize: must be a whole number from 1 to 10, got 11/,
  ],
  [
    'a batch size where nothing is invoked',
    () => ({ fleets: { pdf: { types: ['a'], batchSize: 2 } } }),
    /^fleets\.pdf\.batchSize: .*the fleet has no handler/,
  ],
  [
    'messages that come back while their function still runs',
    (stack) => ({
      fleets: {
        pdf: {
          types: ['a'],
          visibilityTimeout: Duration.seconds(29),
          handler: workerFunction(stack, 'Pdf'),
        },
      },
    }),
    /^fleets\.pdf\.visibilityTimeout: must not be below .*got "29 seconds"/,
  ],
  [
    'one function behind two fleets',
    (stack) => {
      const handler = workerFunction(stack, 'Both');
      return { fleets: { one: { types: ['a'], handler }, two: { types: ['b'], handler } } };
    },
    /^fleets\.one\.handler: is the handler of fleet two too/,
  ],
  [
    'a large ingest batch without a window',
    () => ({ fleets: { pdf: { types: ['a'] } }, ingestBatchSize: 100 }),
    /^ingestBatchSize: must be a whole number from 1 to 10, got 100/,
  ],
  [
    'more fleets than a deployment can hand over',
    () => ({
      fleets: Object.fromEntries(
        Array.from({ length: 1_000 }, (_, n) => [`f${n}`.padEnd(100, 'x'), { types: [`t${n}`] }]),
      ),
    }),
    /^fleets: with their queues .* bytes of the declaration, which a deployment hands over in at most 240000, got 1000/,
  ],
];

describe('a declaration that cannot work', () => {
  it.each(mistakes)(
    '%s is refused with its place and value, before anything is made',
    (_, propsFor, message) => {
      const stack = emptyStack();
      const props = propsFor(stack);
      const attempt = (): Scheduler => new Scheduler(stack, 'Jobs', props);
      expect(attempt).toThrow(message);
      expect(stack.node.tryFindChild('Jobs')?.node.children ?? []).toEqual([]);
      expect(() => new Scheduler(stack, 'Again', props)).toThrow(ConfigurationError);
    },
  );

  it('refuses to work for a fleet that is not there', () => {
    const scheduler = new Scheduler(emptyStack(), 'Jobs', { fleets: { pdf: { types: ['a'] } } });
    expect(() => scheduler.workerEnvironment('gpu')).toThrow(
      /names no fleet of this scheduler \("pdf"\), got "gpu"/,
    );
  });
});
