/**
 * What holds of the deployed path where hints are lost: it starts nothing that the rules forbid, and what may start does
 * not wait for longer than a bound, though nobody was told of it.
 */
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { Deployed, type Planted } from './deployed.ts';
import { type Player, play, type Scenario, type Start } from './play.ts';
import { Reference } from './reference.ts';

/**
 * How long a job may wait that may start, while nothing starts that could have been in its way: the end whose slot it
 * needs may have been looked for just before it came, is looked for a minute later, and then a tick must come. Where
 * something else starts, that was in its turn, and another end may be unheard of: the time begins anew.
 */
export const UNHEARD_MS = 60_000 + 60_000;

/** The first breach; undefined without one. */
export async function breachOf(scenario: Scenario, planted?: Planted): Promise<string | undefined> {
  const { types, fleets, maxConcurrency } = resolveConfiguration(scenario.pool);
  const reference = new Reference(scenario);
  const deployed = new Deployed(scenario, planted);
  const jobs = new Map(scenario.jobs.map((job) => [job.id, job]));
  const isPoolBound =
    maxConcurrency !== null ||
    scenario.events.some(
      (event) => event.op === 'control' && event.scope === 'pool' && typeof event.maxConcurrency === 'number',
    );
  const tierOf = (id: string) => types.find(({ type }) => type === jobs.get(id)?.type)?.tier;
  /** Whether a start may have been in the way of a job: they share a limit. */
  const isInTheWay = (start: Start, id: string): boolean =>
    isPoolBound ||
    tierOf(start.id) === tierOf(id) ||
    jobs.get(start.id)?.fairnessKey === jobs.get(id)?.fairnessKey ||
    fleets.some(({ fleet, types: own }) => fleet === start.fleet && own.includes(jobs.get(id)?.type ?? ''));
  const ableSince = new Map<string, number>();
  const watched: Player = {
    instant: async (atMs, happenings) => {
      const starts = await deployed.instant(atMs, happenings);
      const [breach] = reference.follow(atMs, happenings, starts);
      if (breach !== undefined) throw new Breach(`${breach.id} started at ${atMs} against the rules`);
      const able = new Set(reference.able());
      for (const id of ableSince.keys())
        if (!able.has(id) || starts.some((start) => isInTheWay(start, id))) ableSince.delete(id);
      for (const id of able) {
        const sinceMs = ableSince.get(id) ?? atMs;
        ableSince.set(id, sinceMs);
        if (atMs - sinceMs > UNHEARD_MS)
          throw new Breach(`${id} may start since ${sinceMs}, and waits at ${atMs}`);
      }
      return starts;
    },
    wakeBy: (wakeAt) => deployed.wakeBy(wakeAt),
  };
  try {
    await play(scenario, watched);
  } catch (error) {
    return error instanceof Breach ? error.message : String(error instanceof Error ? error.stack : error);
  }
  return undefined;
}

class Breach extends Error {}
