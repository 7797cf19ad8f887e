/** A client over a scheduler in memory: what a producer and an operator hold. */
import { inspect } from 'node:util';
import { StoreClient } from '../../lib/client/client.ts';
import type { ClientParts } from '../../lib/client/contexts.ts';
import type { Job } from '../../lib/core/job.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import type { Jobs } from '../../lib/jobs/jobs.ts';
import { FAILED, type Stage, type StageOptions, type Started, stage, storeWith } from '../stage/stage.ts';

/** Two tiers, two types of one conflict group, a Lambda fleet and one whose workers register. */
export const POOL: PoolInput = {
  types: {
    resize: { tier: 'urgent', defaultCostMs: 1_000, timeoutMs: 30_000, conflictGroup: 'album' },
    report: { tier: 'standard', defaultCostMs: 2_000, timeoutMs: 30_000, retry: { maxAttempts: 1 } },
  },
  tiers: [{ tier: 'urgent' }, { tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 2 }, general: { types: ['report'] } },
};

export interface Desk extends Stage {
  readonly client: StoreClient;
  /** Another process's client. */
  readonly anotherClient: <Declared extends Jobs = Jobs>(
    own?: Partial<ClientParts<Declared>>,
  ) => StoreClient<Declared>;
  /** All that is stored, as text to compare. */
  readonly everything: () => string;
  /** Stores a job that has failed for good. */
  readonly deadLetter: (changes?: Partial<Job>) => Promise<Job>;
  /** Admits what may start, starts it, and ends it as told. */
  readonly work: (end?: Parameters<Stage['end']>[1]) => Promise<readonly Job[]>;
}

export function desk(options: StageOptions = {}): Desk {
  const staged = stage({ pool: POOL, ...options });
  // What was stored, the stream has told of.
  const pass: Stage['pass'] = (trigger = {}, context) => {
    const jobs = [...staged.store.everyJob()].filter(({ state }) => state === 'pending');
    return staged.pass({ jobs, reason: 'wake', ...trigger }, context);
  };
  const scene: Stage = { ...staged, pass };
  let made = 0;
  const anotherClient = <Declared extends Jobs = Jobs>(
    own: Partial<ClientParts<Declared>> = {},
  ): StoreClient<Declared> =>
    new StoreClient<Declared>({
      store: scene.store,
      queue: scene.queue,
      configuration: scene.configuration,
      clock: scene.clock,
      newId: () => {
        made += 1;
        return made.toString(16).padStart(32, '0');
      },
      ...own,
    });
  const work: Desk['work'] = async (verdict) => {
    await scene.pass();
    const ended: Job[] = [];
    for (const started of await scene.startEverywhere()) ended.push(await scene.end(started, verdict));
    return ended;
  };
  const deadLetter: Desk['deadLetter'] = async (changes = {}) => {
    await scene.put(scene.job({ type: 'resize', ...changes }));
    const [job] = await work(FAILED);
    if (job === undefined) throw new Error('nothing was started');
    await scene.pass({ jobs: [job], reason: 'stream' });
    return job;
  };
  return {
    ...scene,
    client: anotherClient(),
    anotherClient,
    deadLetter,
    work,
    everything: () =>
      inspect([[...scene.store.everyJob()], scene.store.inspect(0)], {
        depth: null,
        maxArrayLength: null,
        maxStringLength: null,
        sorted: true,
      }),
  };
}

/** The job that is waited for, once it is stored. */
export async function storedJob({ advance, store }: Desk): Promise<Job> {
  await advance(0);
  const [job] = [...store.everyJob()];
  if (job === undefined) throw new Error('no job was stored');
  return job;
}

/** Admits what may start, and starts the first of it. */
export async function startedOf(scene: Stage): Promise<Started> {
  await scene.pass();
  const [started] = await scene.startEverywhere();
  if (started === undefined) throw new Error('nothing was started');
  return started;
}

/** All that an iterator gives. */
export async function allOf<Value>(values: AsyncIterable<Value>): Promise<readonly Value[]> {
  const all: Value[] = [];
  for await (const value of values) all.push(value);
  return all;
}

/** What a promise is rejected with. */
export async function errorOf(work: Promise<unknown>): Promise<Error> {
  try {
    await work;
  } catch (error) {
    if (error instanceof Error) return error;
    throw new Error(`not an error: ${String(error)}`);
  }
  throw new Error('it was not rejected');
}

/** A client that counts the reads of the store, in requests. */
export function counting(scene: Desk) {
  const reads: (readonly string[])[] = [];
  const store = storeWith(scene.store, {
    lookUpJobs: (request) => {
      reads.push(request.ids);
      return scene.store.lookUpJobs(request);
    },
    getJobs: (request) => {
      reads.push(request.ids);
      return scene.store.getJobs(request);
    },
  });
  return { reads, client: scene.anotherClient({ store }) };
}
