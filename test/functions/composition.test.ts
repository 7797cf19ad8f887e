/** What the functions need of their environment and of the table, and say when it is missing. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { FunctionDuties } from '../../functions/composition.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { DynamoDeclareStore } from '../../lib/store/dynamodb/declaring.ts';
import { aDeclaration, pretendDeclared } from '../fixtures/declared.ts';

const ENVIRONMENT = {
  FAIRLEAD_TABLE: 'table',
  FAIRLEAD_BUS: 'bus',
  FAIRLEAD_WAKE_QUEUE: 'https://sqs/wake',
  AWS_REGION: 'us-east-1',
} as const;
const NO_LOG = { info: () => undefined, warn: () => undefined, error: () => undefined };
const ONE_TYPE = resolveConfiguration({ types: { resize: {} }, fairness: { weights: { big: 4 } } });
const TWO_TYPES = resolveConfiguration({ types: { resize: {}, index: {} } });

describe('the composition', () => {
  let stores: Pick<typeof DynamoDeclareStore, 'prototype'>;
  const declared = (record: ReturnType<typeof aDeclaration> | undefined): void =>
    pretendDeclared(record, stores);

  /** Each test is a process of its own. */
  beforeEach(async () => {
    vi.resetModules();
    for (const [name, value] of Object.entries(ENVIRONMENT)) vi.stubEnv(name, value);
    stores = (await import('../../lib/store/dynamodb/declaring.ts')).DynamoDeclareStore;
    declared(aDeclaration(ONE_TYPE));
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  const freshProcess = async (duties: FunctionDuties = {}) =>
    (await import('../../functions/composition.ts')).composition(
      { log: NO_LOG, metrics: { add: () => {}, asksFor: () => false } },
      duties,
    );
  const compose = async (duties: FunctionDuties = {}) => (await freshProcess(duties))();

  it('is built from the environment and the declaration, once for the life of the process', async () => {
    const composition = await freshProcess();
    const built = await composition();
    expect(built.configuration.types.map(({ type }) => type)).toEqual(['resize']);
    expect(await composition()).toBe(built);
    expect(stores.prototype.readDeclaration).toHaveBeenCalledTimes(1);
  });

  it('is built anew within a minute of another declaration', async () => {
    vi.useFakeTimers({ toFake: ['performance', 'hrtime', 'Date'] });
    const composition = await freshProcess();
    await composition();
    declared(aDeclaration(TWO_TYPES, { version: 2 }));
    expect((await composition()).deployed?.version).toBe(1);
    vi.advanceTimersByTime(60_000);
    const renewed = await composition();
    expect(renewed.deployed?.version).toBe(2);
    expect(renewed.configuration.types.map(({ type }) => type)).toEqual(['resize', 'index']);
  });

  it('goes on with what it knows while the table does not answer', async () => {
    vi.useFakeTimers({ toFake: ['performance', 'hrtime', 'Date'] });
    const composition = await freshProcess();
    const built = await composition();
    vi.spyOn(stores.prototype, 'readDeclaredVersion').mockRejectedValue(new Error('no answer'));
    vi.advanceTimersByTime(60_000);
    expect(await composition()).toBe(built);
  });

  it('puts each key where clients put it', async () => {
    declared(aDeclaration(resolveConfiguration({ types: { resize: {} }, partitions: 16 })));
    const { partitionOf } = await compose();
    expect(['', 'tenant-a', 'tenant-b'].map(partitionOf)).toEqual([10, 13, 7]);
  });

  it.each(['FAIRLEAD_TABLE', 'FAIRLEAD_BUS', 'FAIRLEAD_WAKE_QUEUE'])(
    'says that %s is missing, and who sets it',
    async (name) => {
      vi.stubEnv(name, '');
      await expect(compose()).rejects.toThrow(
        `${name} is not set; the Scheduler construct sets it: deploy the stack again`,
      );
    },
  );

  it.each([
    ['can ask itself to lead, if it may', { mayLead: true }, {}, 'function'],
    ['cannot ask itself to lead if it takes no such invocations', {}, {}, 'undefined'],
    [
      'cannot ask itself to lead where it does not know its name',
      { mayLead: true },
      { AWS_LAMBDA_FUNCTION_NAME: undefined },
      'undefined',
    ],
  ])('%s', async (_, duties, environment, expected) => {
    const given = { AWS_LAMBDA_FUNCTION_NAME: 'dispatch', ...environment };
    for (const [name, value] of Object.entries(given)) vi.stubEnv(name, value);
    expect(typeof (await compose(duties)).askToLead).toBe(expected);
  });

  it('says that nothing is declared, and who declares', async () => {
    declared(undefined);
    await expect(compose()).rejects.toMatchObject({
      name: 'MisconfiguredError',
      message: expect.stringContaining('deploy the stack with the Scheduler construct'),
    });
  });
});
