/** A scheduler in memory that is redeployed: whatever is declared is in its table, and its dispatchers read it there. */
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { Declarations, declaredParts } from '../../lib/declaration/declaration.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import type { OperateContext } from '../../lib/operate/controls.ts';
import { submit } from '../../lib/submit/submit.ts';
import { declareIn } from '../fixtures/declared.ts';
import { type Stage, type StageOptions, stage } from './stage.ts';

export interface Redeployed extends Stage {
  /** What this process knows. */
  readonly declarations: Declarations;
  /** Declares, as a deployment does. Answers the version. */
  readonly deploy: (pool: PoolInput) => Promise<number>;
  /** A dispatch function's process, under what is declared as it begins. */
  readonly process: () => Promise<DispatchContext>;
  /** Whoever looks and operates, under what is declared now. */
  readonly operatorNow: () => Promise<OperateContext>;
  /** Stores jobs by what is declared now. */
  readonly submitNow: (...jobs: readonly Job[]) => Promise<readonly Job[]>;
}

export async function redeployed(
  pool: PoolInput,
  options: Omit<StageOptions, 'pool'> = {},
): Promise<Redeployed> {
  let place: Declarations['place'] | undefined;
  const on = stage({ ...options, pool, place: (job) => place?.(job) ?? { rank: '', sub: 0 } });
  const declarationsOf = (): Declarations =>
    new Declarations({ store: on.store, clock: on.clock, log: on.log });
  // The store is the table itself here: where jobs stand follows from what whoever writes knows, which is the newest.
  const declarations = declarationsOf();
  place = declarations.place;
  const deploy = async (next: PoolInput): Promise<number> => {
    const version = await on.finish(
      declareIn(on.store, resolveConfiguration(next), {
        nowMs: on.clock.nowMs,
        queue: on.queue,
        log: on.log,
      }),
    );
    await declarations.atLeast(version);
    return version;
  };
  await deploy(pool);
  return {
    ...on,
    declarations,
    deploy,
    process: async () => {
      const own = declarationsOf();
      return on.dispatcher(declaredParts(own, await own.current(), () => on.queue));
    },
    operatorNow: async () => {
      const { configuration, formerTypes } = await declarations.current();
      return { ...on.operator(), configuration, formerTypes };
    },
    submitNow: async (...jobs) => {
      const { configuration } = await declarations.current();
      await submit(on.submitter({ configuration }), jobs);
      return jobs;
    },
  };
}
