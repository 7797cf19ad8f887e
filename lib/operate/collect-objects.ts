/**
 * Deletes objects whose job is gone: its record has ended with its time, or the job was never stored, because its submitter
 * crashed between putting the object and the job. Nothing else deletes them, so a lost hint leaves nothing behind.
 *
 * A key has the week in which it was put. Objects of this week and the one before are left alone: a submitter may be about
 * to store their job, and a record is kept for a week after its end. A repeated submit in a later week puts another key, so
 * no object that is looked at here is about to be named.
 */
import type { ObjectStore } from '../objects/contract.ts';
import { OBJECT_KINDS, partsOfKey, weekOf } from '../objects/large-values.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';

export interface CollectContext {
  readonly store: Pick<SubmitStore, 'lookUpJobs'>;
  readonly objects: ObjectStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

export interface Collected {
  readonly seen: number;
  readonly deleted: number;
}

const WEEK_MS = 7 * 24 * 3_600_000;
/** Jobs that are looked up with one call. */
const LOOKED_UP = 100;

/**
 * Looks at all objects that are old enough, until `forMs` have passed: some 2,000 a second. A run that ends before it has
 * seen all of them leaves the rest to later ones, and each run begins with the kind and the week that chance says, so no
 * object is left out for ever.
 */
export async function collectObjects(context: CollectContext, forMs: number): Promise<Collected> {
  const { objects, clock, log } = context;
  const untilMs = clock.monotonicMs() + forMs;
  let seen = 0;
  let deleted = 0;
  for (const prefix of await prefixesOf(context)) {
    let after: string | undefined;
    do {
      if (clock.monotonicMs() >= untilMs) {
        log.warn('objects are left for later runs', { seen, deleted });
        return { seen, deleted };
      }
      const { keys, next } = await objects.list({ prefix, after });
      const gone = await goneOf(context, keys);
      await objects.delete(gone);
      seen += keys.length;
      deleted += gone.length;
      after = next;
    } while (after !== undefined);
  }
  log.info('objects were collected', { seen, deleted });
  return { seen, deleted };
}

/** The prefixes of old enough keys, from a random one on. */
async function prefixesOf({ objects, clock, random }: CollectContext): Promise<readonly string[]> {
  const last = weekOf(clock.nowMs() - 2 * WEEK_MS);
  const prefixes: string[] = [];
  for (const kind of OBJECT_KINDS) {
    let after: string | undefined;
    for (;;) {
      const { keys } = await objects.list({ prefix: `${kind}/`, after });
      const week = partsOfKey(keys[0] ?? '')?.week;
      if (week === undefined || week > last) break;
      prefixes.push(`${kind}/${week}/`);
      // The first key after all of this week's.
      after = `${kind}/${week}0`;
    }
  }
  const first = Math.floor(random() * prefixes.length);
  return [...prefixes.slice(first), ...prefixes.slice(0, first)];
}

/** The keys whose job is gone. A job that cannot be read counts as there. */
async function goneOf({ store }: CollectContext, keys: readonly string[]): Promise<readonly string[]> {
  const byJob = Map.groupBy(keys, (key) => partsOfKey(key)?.jobId);
  byJob.delete(undefined);
  const ids = [...byJob.keys()].filter((id) => id !== undefined);
  const gone: string[] = [];
  for (let from = 0; from < ids.length; from += LOOKED_UP) {
    const some = ids.slice(from, from + LOOKED_UP);
    const unreadable = new Set<string>();
    const jobs = await store.lookUpJobs({ ids: some, unreadable: (id) => unreadable.add(id) });
    for (const [at, id] of some.entries())
      if (jobs[at] === undefined && !unreadable.has(id)) gone.push(...(byJob.get(id) ?? []));
  }
  return gone;
}
