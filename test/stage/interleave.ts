/** Every order in which agents can take their steps: each call of a scheduling point waits until it is chosen. */
import type { JobStore } from '../../lib/store/contract/verbs.ts';

/** An agent calls it before each step that others may come before. */
export type Point = (agent: number) => Promise<void>;

/** Everything that can settle has settled. */
const quiet = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const RUNS_MAX = 20_000;

/**
 * Runs the agents once for each order of their steps: depth first, each run from the start.
 *
 * @param begin - sets the stage, starts each agent, and answers their work with a check of what they left behind
 * @returns how many orders there were
 */
export async function everyOrder(
  begin: (point: Point) => Promise<{
    readonly work: readonly Promise<unknown>[];
    readonly check: (order: readonly number[]) => void | Promise<void>;
  }>,
): Promise<number> {
  let path: number[] = [];
  for (let runs = 1; runs <= RUNS_MAX; runs += 1) {
    const waiting = new Map<number, () => void>();
    const point: Point = (agent) => new Promise((resolve) => waiting.set(agent, resolve));
    const { work, check } = await begin(point);
    const all = Promise.all(work);
    all.catch(() => undefined);
    const taken: number[] = [];
    const options: number[] = [];
    const order: number[] = [];
    await quiet();
    while (waiting.size > 0) {
      const agents = [...waiting.keys()].sort((a, b) => a - b);
      const choice = path[taken.length] ?? 0;
      const agent = agents[choice] ?? 0;
      taken.push(choice);
      options.push(agents.length);
      order.push(agent);
      const go = waiting.get(agent);
      waiting.delete(agent);
      go?.();
      await quiet();
    }
    await all;
    await check(order);
    const last = taken.findLastIndex((choice, at) => choice + 1 < (options[at] ?? 0));
    if (last === -1) return runs;
    path = [...taken.slice(0, last), (taken[last] ?? 0) + 1];
  }
  throw new Error(`more than ${RUNS_MAX} orders: give the agents fewer steps`);
}

/** The store as an agent reaches it: before each of these verbs others may come. */
export function steppedStore(
  store: JobStore,
  verbs: readonly (keyof JobStore)[],
  point: () => Promise<void>,
): JobStore {
  return new Proxy(store, {
    get: (target, name) => {
      const method: unknown = Reflect.get(target, name, target);
      if (typeof method !== 'function') return method;
      if (!verbs.some((verb) => verb === name)) return method.bind(target);
      return async (...parameters: readonly unknown[]) => {
        await point();
        return method.apply(target, parameters);
      };
    },
  });
}
