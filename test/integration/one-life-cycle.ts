/**
 * The table's expressions against the life cycle that the memory store runs: one random script of verbs goes to both, with
 * what is outdated, repeated and lost, and after each verb every item is the same, field by field.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import type { Verdict } from '../../lib/core/life-cycle.ts';
import type { WorkerIdentity } from '../../lib/store/contract/records.ts';
import type { ClaimRequest } from '../../lib/store/contract/requests.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aClaimRequest } from '../fixtures/factories/claim-request.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { type Dice, diceOf, seeded } from '../simulation/random.ts';

const WAIT_MS = 120_000;
/** All lines are read, and more than once where the index lags. */
const LINES_MS = 20_000;
const STEPS = 80;
/** The table counts it in seconds. */
const SECOND_MS = 1_000;
/** A job that is taken to another partition goes there, or comes back from there. */
const ELSEWHERE = 10_000;
const FORGOTTEN_AFTER_MS = 600;
const WORKERS: readonly [WorkerIdentity, ...WorkerIdentity[]] = [
  { workerId: 'w1', incarnation: 'i1' },
  { workerId: 'w1', incarnation: 'i2' },
  { workerId: 'w2', incarnation: 'i1' },
];

/** What both stores are asked; the name is for whoever reads a failure. */
interface Step {
  readonly verb: string;
  readonly ask: (store: JobStore) => Promise<unknown>;
}

/** What a script has seen so far, of which it takes what is current, and what is not. */
interface Seen {
  readonly nowMs: number;
  readonly conflictKey: string;
  /** Of the partitions. */
  readonly versions: ReadonlyMap<number, number>;
  /** By job, the latest last. */
  readonly images: ReadonlyMap<string, readonly Job[]>;
  readonly requests: readonly ClaimRequest[];
}

/** Mostly the last one. */
const lately = <T>(dice: Dice, all: readonly T[]): T | undefined =>
  dice.chance(0.8) ? all.at(-1) : all[dice.whole(0, all.length - 1)];

function verdictOf(dice: Dice, nowMs: number): Verdict {
  const error = { name: dice.pick(['Broken', 'WorkerLost']), message: `at ${nowMs}` };
  return dice.pick<Verdict>([
    { kind: 'succeeded', result: { nowMs } },
    { kind: 'failed', error },
    { kind: 'retry', error, runAtMs: nowMs + dice.whole(-5, 60) },
    { kind: 'retry', error, runAtMs: nowMs },
    { kind: 'retry', error, runAtMs: nowMs },
    { kind: 'retry', error, runAtMs: nowMs },
    { kind: 'cancelled' },
  ]);
}

/** The verbs that may lead a job on from where it is, and those that should not. */
const USUAL: Readonly<Record<Job['state'], readonly [string, ...string[]]>> = {
  scheduled: ['promote', 'promote', 'rehome', 'retime', 'expire'],
  pending: [
    'rehome',
    'claim',
    'claim',
    'claim',
    'claimTogether',
    'claimTogether',
    'retime',
    'raise',
    'park',
    'expire',
  ],
  claimed: ['start', 'start', 'start', 'start', 'claimAgain'],
  running: ['finish', 'finish', 'finish', 'lose', 'lose', 'checkpoint', 'cancel', 'start'],
  succeeded: ['cancel'],
  failed: ['redrive'],
  cancelled: ['finish'],
  expired: ['cancel', 'start'],
};
const EVERY = [...new Set(Object.values(USUAL).flat())] as [string, ...string[]];

/** Draws the next step. */
function draw(dice: Dice, seen: Seen, fresh: (changes: Partial<Job>) => Job): Step {
  const { nowMs, conflictKey, images, requests } = seen;
  const ids = [...images.keys()] as [string, ...string[]];
  const id = dice.pick(ids);
  const all = images.get(id) ?? [];
  const current = all.at(-1);
  const image = lately(dice, all);
  if (current === undefined || image === undefined) throw new Error(`nothing was seen of ${id}`);
  const running = all.filter(({ state }) => state === 'running');
  const ran = dice.chance(0.95) ? lately(dice, running) : image;
  const worker: WorkerIdentity = dice.chance(0.85) ? (ran?.worker ?? WORKERS[0]) : dice.pick(WORKERS);
  const expiresAtMs = Math.ceil((nowMs + FORGOTTEN_AFTER_MS) / SECOND_MS) * SECOND_MS;
  const by = dice.pick(['ann', 'bob', undefined]);
  const verb = dice.pick(dice.chance(0.85) ? USUAL[current.state] : EVERY);
  const requestOf = (job: Job, at: number): ClaimRequest =>
    aClaimRequest(job, {
      batchId: `1-${requests.length + at}`,
      claimedAtMs: nowMs,
      ...(dice.chance(0.2) ? { lock: { conflictKey, partition: dice.whole(0, 1) } } : {}),
    });
  switch (verb) {
    case 'promote':
      return { verb, ask: (store) => store.promote({ jobs: [image], nowMs }) };
    case 'expire':
      return { verb, ask: (store) => store.expireJobs({ jobs: [image], nowMs, expiresAtMs }) };
    case 'rehome': {
      const partition = (current.partition + ELSEWHERE) % (2 * ELSEWHERE);
      return {
        verb: `rehome to ${partition}`,
        ask: (store) => store.rehome({ jobs: [image], partition, nowMs }),
      };
    }
    case 'claim':
    case 'claimTogether': {
      const claimed = verb === 'claim' ? [image] : ids.flatMap((each) => images.get(each)?.at(-1) ?? []);
      const asked = claimed.map(requestOf);
      return { verb: `${verb} ${JSON.stringify(asked)}`, ask: (store) => store.claim(asked) };
    }
    case 'claimAgain': {
      const again = lately(dice, requests);
      return { verb, ask: (store) => store.claim(again === undefined ? [] : [again]) };
    }
    case 'start': {
      const claimId = (dice.chance(0.8) ? current : image).claim?.claimId ?? '1-0.0';
      return { verb, ask: (store) => store.startJob({ ...worker, jobId: id, claimId, nowMs }) };
    }
    case 'finish': {
      const request = { ...worker, job: ran ?? image, verdict: verdictOf(dice, nowMs), nowMs, expiresAtMs };
      return { verb: `finish ${request.verdict.kind}`, ask: (store) => store.finishJob(request) };
    }
    case 'lose': {
      const verdict = verdictOf(dice, nowMs);
      return {
        verb: `lose ${verdict.kind}`,
        ask: (store) => store.endUnfinished({ job: ran ?? image, verdict, nowMs, expiresAtMs }),
      };
    }
    case 'checkpoint':
      return {
        verb,
        ask: (store) => store.saveCheckpoint({ job: ran ?? image, worker, checkpoint: { nowMs } }),
      };
    case 'cancel':
      return { verb, ask: (store) => store.cancelJob({ jobId: id, nowMs, expiresAtMs, by }) };
    case 'retime': {
      const runAtMs = dice.pick([0, nowMs, nowMs + dice.whole(1, 80), image.runAtMs]);
      const priority = dice.pick([undefined, image.priority, dice.whole(0, 10)]);
      return {
        verb: `retime ${runAtMs - nowMs} ${priority}`,
        ask: (store) => store.retimeJob({ job: image, runAtMs, priority, nowMs, by }),
      };
    }
    case 'raise':
      return {
        verb,
        ask: (store) =>
          store.raiseVersion({
            jobId: id,
            version: image.version,
            given: { job: image, claimId: '1-0.0', atMs: nowMs },
          }),
      };
    case 'park': {
      const { partition } = current;
      const version = (seen.versions.get(partition) ?? 0) - (dice.chance(0.9) ? 0 : 1);
      return { verb, ask: (store) => store.park({ partition, version, jobs: [image], conflictKey }) };
    }
    default: {
      const next = fresh({ redriveOf: id, ...(by === undefined ? {} : { redriveBy: by }), type: image.type });
      return {
        verb: `redrive as ${next.id}`,
        ask: (store) => store.redrive({ deadLetter: image, job: next }),
      };
    }
  }
}

/** What a verb answered, or the name of what it threw. */
async function answerOf(ask: Promise<unknown>): Promise<unknown> {
  try {
    return await ask;
  } catch (error) {
    return { threw: error instanceof Error ? error.name : String(error) };
  }
}

/** Everything that lines show of the jobs of a partition. */
async function linesOf(store: JobStore, partition: number, conflictKey: string): Promise<unknown> {
  const lines = [];
  const line = { type: 'resize', mode: 'queued', fairnessKey: 'tenant-a' } as const;
  lines.push((await store.readLine({ partition, line, limit: 100 })).jobs);
  lines.push((await store.readDue({ partition, nowMs: Number.MAX_SAFE_INTEGER / 2, limit: 100 })).jobs);
  lines.push((await store.readBlocked({ partition, conflictKey, groups: 100 })).jobs);
  for (const state of ['succeeded', 'cancelled'] as const) {
    const { jobs } = await store.readFinished({ partition, state, type: 'resize', limit: 100 });
    // Records that have expired may be among them, as long as they are not collected.
    const present = await store.getJobs({ ids: jobs.map(({ id }) => id) });
    lines.push(jobs.filter((_, at) => present[at] !== undefined));
  }
  return lines.map((jobs) => jobs.map(({ id, version, readyAtMs }) => [id, version, readyAtMs]));
}

/** @param first - the seed of the first of so many scripts */
export function testOneLifeCycle(first: number, count: number): void {
  describe('one life cycle', () => {
    let table: TestTable;
    beforeAll(async () => {
      table = await createTable();
    }, WAIT_MS);
    afterAll(async () => {
      await table?.drop();
    });

    const scripts = Array.from({ length: count }, (_, at) => first + at);
    it.each(scripts)('is what both stores make of script %i', { timeout: WAIT_MS }, async (seed) => {
      const dice = diceOf(seeded(seed));
      const partition = seed;
      const conflictKey = `catalogue/${seed}`;
      let nowMs = NOW_MS;
      const clock = () => nowMs;
      const onTable = new DynamoJobStore({ ...table, place: suitePlace, nowMs: clock });
      const memory = new MemoryJobStore({ clock, random: seeded(seed), place: suitePlace });
      const stores = [memory, onTable] as const;
      const both = async (ask: Step['ask']): Promise<readonly unknown[]> =>
        Promise.all(stores.map((store) => answerOf(ask(store))));

      let made = 0;
      const fresh = (changes: Partial<Job> = {}): Job => {
        made += 1;
        return aJob({
          id: `script-${seed}-${made}`,
          partition,
          readyAtMs: nowMs,
          runAtMs: nowMs,
          submittedAtMs: nowMs,
          listFinished: made % 4 !== 0,
          ...changes,
        });
      };
      const later = nowMs + dice.whole(1, 40);
      const jobs = [fresh(), fresh(), fresh({ state: 'scheduled', runAtMs: later, readyAtMs: later })];
      for (const store of stores) await store.createJobs(jobs);
      for (const each of [partition, partition + ELSEWHERE]) {
        const committed = await both((store) => store.commit({ partition: each, commit: aCommit() }));
        expect(committed).toEqual(['committed', 'committed']);
      }

      const images = new Map(jobs.map((job) => [job.id, [job]]));
      const requests: ClaimRequest[] = [];
      const script: string[] = [];
      for (let at = 0; at < STEPS; at += 1) {
        nowMs += dice.pick([0, 1, 7, 40]);
        const versions = new Map<number, number>();
        for (const each of [partition, partition + ELSEWHERE])
          versions.set(each, (await memory.loadPartition({ partition: each, nowMs })).version);
        const step = draw(dice, { nowMs, conflictKey, versions, images, requests }, fresh);
        script.push(`${nowMs - NOW_MS}: ${step.verb}`);
        const asked = /^claim\w* (\[.*)/.exec(step.verb)?.[1];
        if (asked !== undefined) requests.push(...(JSON.parse(asked) as ClaimRequest[]));
        const told = script.slice(-8).join('\n');
        for (let time = dice.chance(0.15) ? 2 : 1; time > 0; time -= 1) {
          const [expected, answered] = await both(step.ask);
          expect(answered, told).toStrictEqual(expected);
        }
        const redriven = /^redrive as (.*)/.exec(step.verb)?.[1];
        const ids = [...images.keys(), ...(redriven === undefined ? [] : [redriven])];
        const [expected, found] = await both((store) => store.getJobs({ ids }));
        expect(found, told).toStrictEqual(expected);
        const [lock, lockThere] = await both((store) => store.readLocks([conflictKey]));
        expect(lockThere, told).toStrictEqual(lock);
        for (const [place, job] of (expected as (Job | undefined)[]).entries()) {
          const id = ids[place] ?? '';
          const known = images.get(id) ?? [];
          if (job !== undefined && JSON.stringify(job) !== JSON.stringify(known.at(-1))) {
            images.set(id, [...known, job]);
          }
        }
      }
      const linesOfBoth = (store: JobStore) =>
        Promise.all([partition, partition + ELSEWHERE].map((each) => linesOf(store, each, conflictKey)));
      await expect.poll(() => linesOfBoth(onTable), { timeout: LINES_MS }).toEqual(await linesOfBoth(memory));
    });
  });
}
