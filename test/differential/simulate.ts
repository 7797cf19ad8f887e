/** Scenarios in the words of `fairlead simulate`, as far as it has them. */
import { asData, simulate } from '../../lib/cli/simulate.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { EPOCH_MS, play, type Scenario, type ScenarioJob, type Start } from './play.ts';
import { Reference } from './reference.ts';

type Fields = Readonly<Record<string, unknown>>;

/**
 * The scenario as one of `fairlead/1`; undefined where that format does not have what it is about: partitions that do not lend,
 * a worker that gives its job back, a fleet that gets smaller, a cancellation of what runs, of which the handler decides.
 */
export async function asSimulateScenario(scenario: Scenario): Promise<Fields | undefined> {
  const { pool, untilMs, seed, kind } = scenario;
  if (
    scenario.jobs.some(({ attempts }) =>
      attempts.some(({ outcome }) => outcome !== 'succeeded' && outcome !== 'failed'),
    )
  )
    return undefined;
  // The reference asks for wakes of its own, which that program does not know.
  if (kind === 'rates' || pool.partitions !== undefined || (await cancelsWhatRuns(scenario)))
    return undefined;
  const workers = workersOf(scenario);
  if (workers === undefined) return undefined;
  const maxAttempts = new Map(
    resolveConfiguration(pool).types.map(({ type, retry }) => [type, retry.maxAttempts]),
  );
  return {
    id: `${kind}-${seed}`,
    configuration: pool,
    startsAt: new Date(EPOCH_MS).toISOString(),
    untilMs,
    jobs: scenario.jobs.map((job) => jobOf(job, maxAttempts.get(job.type) ?? 1)),
    workers,
    events: eventsOf(scenario),
  };
}

/** What `fairlead simulate` starts of a scenario of its own. */
export async function simulatedStarts(scenario: Fields): Promise<readonly Start[]> {
  const { results } = asData(await simulate({ schema: 'fairlead/1', scenarios: [scenario] }));
  const [result] = results as readonly {
    readonly attempts: readonly (Start & { readonly startMs: number })[];
  }[];
  return (result?.attempts ?? []).map(({ startMs, id, fleet, attempt }) => ({
    atMs: startMs,
    id,
    fleet,
    attempt,
  }));
}

function jobOf({ attempts, ...job }: ScenarioJob, maxAttempts: number): Fields {
  const failures: Fields[] = [];
  for (let nth = 0; nth < maxAttempts; nth += 1) {
    const attempt = attempts[nth] ?? attempts.at(-1);
    if (attempt?.outcome !== 'failed') return { ...job, durationMs: attempt?.durationMs ?? 0, failures };
    failures.push({ name: 'Broken', afterMs: attempt.durationMs });
  }
  return { ...job, durationMs: 0, failures };
}

function workersOf({ events }: Scenario): readonly Fields[] | undefined {
  const workers: Fields[] = [];
  const slotsOf = new Map<string, number>();
  for (const event of [...events].sort((one, other) => one.atMs - other.atMs)) {
    if (event.op !== 'slots') continue;
    const { fleet, atMs } = event;
    const more = event.slots - (slotsOf.get(fleet) ?? 0);
    if (more < 0) return undefined;
    slotsOf.set(fleet, event.slots);
    if (more > 0) workers.push({ worker: `worker-${workers.length}`, fleet, slots: more, fromMs: atMs });
  }
  return workers;
}

/** An override names all that holds of its scope from then on; a control changes what it names. */
function eventsOf({ events }: Scenario): readonly Fields[] {
  const controls = new Map<
    string,
    { paused: boolean; maxConcurrency: number | null; weight: number | null }
  >();
  return [...events]
    .sort((one, other) => one.atMs - other.atMs)
    .flatMap((event): readonly Fields[] => {
      if (event.op === 'slots') return [];
      if (event.op !== 'control') return [event];
      const { atMs, scope } = event;
      const before = controls.get(scope) ?? { paused: false, maxConcurrency: null, weight: null };
      const after = {
        paused: event.paused ?? before.paused,
        maxConcurrency: event.maxConcurrency === undefined ? before.maxConcurrency : event.maxConcurrency,
        weight: event.weight === undefined ? before.weight : event.weight,
      };
      controls.set(scope, after);
      const { paused, maxConcurrency, weight } = after;
      return [
        {
          op: 'override',
          atMs,
          scope,
          paused,
          ...(maxConcurrency === null ? {} : { maxConcurrency }),
          ...(weight === null ? {} : { weight }),
        },
      ];
    });
}

async function cancelsWhatRuns(scenario: Scenario): Promise<boolean> {
  const jobs = new Map(scenario.jobs.map((job) => [job.id, job]));
  const starts = await play(scenario, new Reference(scenario));
  const nth = new Map<string, number>();
  const runs = starts.map(({ id, atMs }) => {
    const at = nth.get(id) ?? 0;
    nth.set(id, at + 1);
    const { attempts = [] } = jobs.get(id) ?? {};
    return { id, atMs, untilMs: atMs + ((attempts[at] ?? attempts.at(-1))?.durationMs ?? 0) };
  });
  return scenario.events.some(
    (event) =>
      event.op === 'cancel' &&
      runs.some(({ id, atMs, untilMs }) => id === event.id && atMs < event.atMs && event.atMs <= untilMs),
  );
}
