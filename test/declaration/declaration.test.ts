/** Whoever works with a declaration meets a newer one, and goes on with that. */
import { describe, expect, it } from 'vitest';
import { StoreClient } from '../../lib/client/client.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { encodeConfiguration, encodePayloadSchemas, unpackDeclaration } from '../../lib/declaration/codec.ts';
import { Declarations, declaredParts } from '../../lib/declaration/declaration.ts';
import { declare } from '../../lib/deploy/declare.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { ingest } from '../../lib/submit/ingest.ts';
import { errorOf } from '../client/desk.ts';
import { declareIn, queueUrlsFor } from '../fixtures/declared.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';

const pool = (types: PoolInput['types'], more: Partial<PoolInput> = {}): PoolInput => ({
  types,
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: Object.keys(types ?? {}), slots: 4 } },
  ...more,
});
const ONE = pool({ resize: { timeoutMs: 30_000 } });
const TWO = pool({ resize: { timeoutMs: 30_000 }, index: { timeoutMs: 30_000 } });

const deploy = (on: Stage, input: PoolInput): Promise<number> =>
  declareIn(on.store, resolveConfiguration(input), { nowMs: on.clock.nowMs, queue: on.queue });

const declarationsOf = (on: Stage): Declarations =>
  new Declarations({ store: on.store, clock: on.clock, log: on.log });

/** A dispatch function's process. */
async function dispatcherOf(on: Stage): Promise<DispatchContext> {
  const declarations = declarationsOf(on);
  const parts = declaredParts(declarations, await declarations.current(), () => on.queue);
  return on.dispatcher(parts);
}

describe('a deployment', () => {
  it('declares one version after the other, and remembers types that are gone', async () => {
    const on = stage({ pool: TWO });
    expect(await deploy(on, TWO)).toBe(1);
    expect(await deploy(on, ONE)).toBe(2);
    const { version, configuration, formerTypes } = await declarationsOf(on).current();
    expect([version, configuration.types.length, formerTypes]).toEqual([2, 1, ['index']]);
    await deploy(on, TWO);
    expect((await declarationsOf(on).current()).formerTypes).toEqual([]);
  });

  it('tells clients the JSON Schemas of payloads, until one comes without', async () => {
    const on = stage({ pool: TWO });
    const context = { store: on.store, queue: on.queue, nowMs: on.clock.nowMs, log: on.log };
    const configuration = resolveConfiguration(TWO);
    const plain = {
      pool: encodeConfiguration(configuration),
      queueUrls: queueUrlsFor(configuration),
      deployment: 'first',
    };
    const schema = { type: 'object', properties: { key: { type: 'string' } } };
    await declare(context, { ...plain, payloadSchemas: encodePayloadSchemas({ resize: schema }) });
    const shown = async (): Promise<readonly unknown[]> => {
      const client = new StoreClient({
        store: on.store,
        queue: on.queue,
        declarations: declarationsOf(on),
        clock: on.clock,
        newId: () => '1',
      });
      return (await client.types()).map(({ type, payloadSchema }) => [type, payloadSchema]);
    };
    expect(await shown()).toEqual([
      ['resize', schema],
      ['index', undefined],
    ]);
    await declare(context, { ...plain, deployment: 'second' });
    expect(await shown()).toEqual([
      ['resize', undefined],
      ['index', undefined],
    ]);
    await expect(declare(context, { ...plain, deployment: 'third', payloadSchemas: 'cut' })).rejects.toThrow(
      /cannot be read/,
    );
    expect(await on.store.readDeclaredVersion()).toBe(2);
  });

  it('that comes twice declares once, also when others have declared since', async () => {
    const on = stage({ pool: ONE });
    const context = { store: on.store, queue: on.queue, nowMs: on.clock.nowMs, log: on.log };
    const configuration = resolveConfiguration(ONE);
    const first = {
      pool: encodeConfiguration(configuration),
      queueUrls: queueUrlsFor(configuration),
      deployment: 'first',
    };
    expect(await declare(context, first)).toBe(1);
    expect(await declare(context, { ...first, deployment: 'second' })).toBe(2);
    expect(await declare(context, first)).toBe(1);
    expect(await on.store.readDeclaredVersion()).toBe(2);
  });

  it('that was cut off before it told its partitions does so when it comes again', async () => {
    const on = stage({ pool: ONE });
    await deploy(on, ONE);
    const configuration = resolveConfiguration(TWO);
    const deployment = {
      pool: encodeConfiguration(configuration),
      queueUrls: queueUrlsFor(configuration),
      deployment: 'cut off',
    };
    const context = { store: on.store, queue: on.queue, nowMs: on.clock.nowMs, log: on.log };
    const cutOff = storeWith(on.store, { announceDeclaration: () => new Promise<never>(() => {}) });
    void declare({ ...context, store: cutOff }, deployment);
    await on.time.runDue();
    expect((await on.store.loadPartition({ partition: 0, nowMs: on.clock.nowMs() })).declared).toBe(1);
    expect(await declare(context, deployment)).toBe(2);
    expect((await on.store.loadPartition({ partition: 0, nowMs: on.clock.nowMs() })).declared).toBe(2);
  });

  it('that meets another one declares what follows that', async () => {
    const on = stage({ pool: ONE });
    let met = false;
    const store = storeWith(on.store, {
      putDeclaration: async (asked) => {
        if (!met) {
          met = true;
          await deploy(on, TWO);
        }
        return on.store.putDeclaration(asked);
      },
    });
    expect(await declareIn(store, resolveConfiguration(ONE))).toBe(2);
    const newest = await on.store.readDeclaration();
    expect(unpackDeclaration(newest?.text ?? '').formerTypes).toEqual(['index']);
  });

  it.each([
    ['what cannot be read', 'nonsense', {}, /The configuration: cannot be read/],
    [
      'a fleet without a queue',
      encodeConfiguration(resolveConfiguration(ONE)),
      {},
      /queueUrls\.images: must be the URL of the fleet's queue, got undefined/,
    ],
  ])('is refused for %s, and nothing is declared', async (_, text, queueUrls, message) => {
    const on = stage({ pool: ONE });
    const context = { store: on.store, queue: on.queue, nowMs: on.clock.nowMs, log: on.log };
    const declaring = declare(context, { pool: text, queueUrls, deployment: 'one' });
    await expect(declaring).rejects.toMatchObject({
      name: 'ConfigurationError',
      message: expect.stringMatching(message),
    });
    expect(await on.store.readDeclaredVersion()).toBe(0);
  });
});

describe('a dispatcher', () => {
  it('reads a newer declaration before it decides anything, in the pass that meets it', async () => {
    const on = stage({ pool: pool({ resize: { timeoutMs: 30_000, maxConcurrency: 4 } }) });
    await deploy(on, pool({ resize: { timeoutMs: 30_000, maxConcurrency: 4 } }));
    const warm = await dispatcherOf(on);
    await on.put(...Array.from({ length: 4 }, () => on.job()));
    await deploy(on, pool({ resize: { timeoutMs: 30_000, maxConcurrency: 1 } }));
    await on.pass({}, warm);
    expect(on.held()).toHaveLength(1);
  });

  it('admits a type that was declared after it began', async () => {
    const on = stage({ pool: TWO });
    await deploy(on, ONE);
    const warm = await dispatcherOf(on);
    await on.pass({}, warm);
    await deploy(on, TWO);
    const [job] = await on.put(on.job({ type: 'index' }));
    await on.pass({}, warm);
    expect(on.stateOf(job?.id ?? '')).toBe('claimed');
  });

  it('tells its partition of a version that nobody has told it of', async () => {
    const on = stage({ pool: ONE });
    const store = storeWith(on.store, { announceDeclaration: async () => {} });
    await declareIn(store, resolveConfiguration(ONE));
    await on.pass({}, await dispatcherOf(on));
    expect((await on.store.loadPartition({ partition: 0, nowMs: on.clock.nowMs() })).declared).toBe(1);
  });
});

describe('whoever submits', () => {
  const request = (type: string) => JSON.stringify({ id: 'event', detail: { type } });

  it('knows a type as soon as it is declared: the ingest function', async () => {
    const on = stage({ pool: TWO });
    await deploy(on, ONE);
    const declarations = declarationsOf(on);
    const context = async (maxAgeMs?: number) => ({
      ...on.submitter({ configuration: (await declarations.current(maxAgeMs)).configuration }),
      events: on.bus,
      log: on.log,
      partitionOf: () => 0,
      newest: () => context(0),
    });
    const warm = await context();
    await deploy(on, TWO);
    const report = await ingest(warm, [{ messageId: 'm', body: request('index') }]);
    expect(report).toMatchObject({ rejected: 0, created: [{ type: 'index' }] });
    const unknown = await ingest(warm, [{ messageId: 'n', body: request('nothing') }]);
    expect(unknown).toMatchObject({ rejected: 1, created: [] });
  });

  it('knows a type as soon as it is declared: the client', async () => {
    const on = stage({ pool: TWO });
    await deploy(on, ONE);
    let made = 0;
    const client = new StoreClient({
      store: on.store,
      queue: on.queue,
      declarations: declarationsOf(on),
      clock: on.clock,
      newId: () => {
        made += 1;
        return String(made).padStart(32, '0');
      },
    });
    expect(await errorOf(client.submit({ type: 'index' }))).toMatchObject({ field: 'type' });
    await deploy(on, TWO);
    await on.advance(1_000);
    expect(await client.submit({ type: 'index' })).toMatchObject({ repeated: false });
  });
});
