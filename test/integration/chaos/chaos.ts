/**
 * Dispatchers and workers as real processes on a real table, killed, and stopped for longer than their lease, every few
 * seconds, while some handlers keep their process's event loop busy. What the workers' processes wrote down is held
 * against the invariants, and so is the table's stream.
 *
 * `FAIRLEAD_CHAOS_SEED` draws other faults. What the machine makes of them is its own.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../../lib/core/defaults.ts';
import { isTerminal, type Job, type Json, type MovingJob } from '../../../lib/core/job.ts';
import { WORKER_LOST } from '../../../lib/core/retry.ts';
import { systemClock } from '../../../lib/runtime/system.ts';
import { DynamoJobStore } from '../../../lib/store/dynamodb/store.ts';
import { decodeMovingJob, isJobItem } from '../../../lib/store/table/codec/job.ts';
import { type AnnouncedLines, rankOf, submit } from '../../../lib/submit/submit.ts';
import {
  clientConfiguration,
  createQueue,
  createTable,
  type TestQueue,
  type TestTable,
} from '../../contract/aws.ts';
import { aJob } from '../../fixtures/factories/job.ts';
import { type Dice, diceOf, seeded } from '../../simulation/random.ts';
import { fleetEnvironment } from '../fleet-environment.ts';
import {
  BUDGET,
  BUSY_STEP_MS,
  CAPS,
  CONFLICTING,
  type DispatchStep,
  type Entry,
  FLEET,
  FRAGILE,
  LOW_TYPES,
  type Payload,
  POOL,
  SLOTS_OF_ONE,
  STEPS,
  TYPES,
  WORKER_TIMES,
} from './pool.ts';
import { readStream } from './table-stream.ts';

const SEED = Number(process.env.FAIRLEAD_CHAOS_SEED ?? 1);
const FIRST_WAVE = 60;
const KEYS = ['tenant-a', 'tenant-b', 'tenant-c', 'tenant-d', 'tenant-e'];
const RESOURCES = 20;
const DISPATCHERS = ['dispatcher-1', 'dispatcher-2'];

export interface ChaosScene {
  readonly jobs: number;
  /** Of them, those whose handlers do not let go of their thread, and for how long. */
  readonly busy: { readonly jobs: number; readonly forMs: number };
  /** Worker processes. */
  readonly workers: number;
  /** A type among them fails with its worker; without it, all jobs are to succeed. */
  readonly hasFragile: boolean;
  /** All must have happened within. */
  readonly withinMs: number;
}

/** Without news for so long something is wrong. */
const SIGNAL_MS = 60_000;
const LOOK_MS = 250;
/** A victim that does not do what it is to be struck at is struck all the same. */
const STRIKE_MS = 10_000;

type Role = 'worker' | 'dispatcher';

const SCRIPTS: Readonly<Record<Role, URL>> = {
  worker: new URL('./worker-process.ts', import.meta.url),
  dispatcher: new URL('./dispatcher-process.ts', import.meta.url),
};

interface Fault {
  readonly role: Role;
  readonly how: 'kill' | 'freeze';
  /** What a dispatcher is struck at. */
  readonly step: DispatchStep;
  readonly pauseMs: number;
}

interface Freeze {
  readonly fromMs: number;
  toMs?: number;
}

/** One process, from its start to its end. */
interface Life {
  readonly role: Role;
  readonly name: string;
  readonly child: ChildProcess;
  readonly freezes: Freeze[];
  endedAtMs?: number;
}

const isFrozen = ({ freezes }: Life): boolean => freezes.some(({ toMs }) => toMs === undefined);

const FAULTS: readonly (readonly [Role, Fault['how'], number])[] = [
  ['worker', 'kill', 4],
  ['worker', 'freeze', 3],
  ['dispatcher', 'kill', 4],
  ['dispatcher', 'freeze', 3],
];

function drawFaults(dice: Dice): readonly Fault[] {
  return FAULTS.flatMap(([role, how, times]) =>
    Array.from({ length: times }, () => ({
      // The jobs of a lost worker wait for its lease to pass: the last ones end with the faults then.
      place: dice.between(0, role === 'worker' ? 0.75 : 1),
      fault: { role, how, step: dice.pick(STEPS), pauseMs: dice.whole(1_000, 2_500) },
    })),
  )
    .sort((one, other) => one.place - other.place)
    .map(({ fault }) => fault);
}

function drawJob(dice: Dice, nowMs: number, { hasFragile, busy }: ChaosScene, isBusy: boolean): Job {
  const types = hasFragile && !isBusy ? TYPES : TYPES.filter((type) => type !== FRAGILE);
  // More of the types that may run together: the others would take all the time.
  const type = dice.pick((dice.chance(0.4) ? types : [...CONFLICTING]) as [string, ...string[]]);
  const payload: Payload = {
    effects: isBusy ? busy.forMs / BUSY_STEP_MS : dice.whole(1, 5),
    failsFirst: !isBusy && dice.chance(0.05),
    isBusy,
  };
  const isOfResource = CONFLICTING.has(type) && dice.chance(0.4);
  return aJob({
    id: randomUUID(),
    type,
    fairnessKey: dice.pick(KEYS as [string, ...string[]]),
    ...(isOfResource ? { resourceId: `album-${dice.whole(1, RESOURCES)}` } : {}),
    payload: payload as unknown as Json,
    readyAtMs: nowMs,
    runAtMs: nowMs,
    submittedAtMs: nowMs,
  });
}

/** When a handler counted as running. */
interface Attempt {
  readonly job: Job;
  readonly token: number;
  readonly life: Life;
  readonly effects: number;
  readonly hasEnded: boolean;
  readonly fromMs: number;
  readonly toMs: number;
}

/**
 * A handler runs from its begin to its end; in a process that was killed, until that was gone; in one that was stopped,
 * until its lease had passed, or until the last thing it did, if that is later.
 */
function attemptOf(job: Job, life: Life, entries: readonly Entry[]): Attempt {
  const [begin, ...others] = entries.filter(({ what }) => what === 'begin');
  if (begin === undefined || others.length > 0)
    throw new Error(`${begin?.jobId} began ${1 + others.length} times as ${begin?.token}`);
  const effects = entries.filter(({ what }) => what === 'effect');
  const end = entries.find(({ what }) => what === 'end');
  const overAtMs = end?.atMs ?? life.endedAtMs ?? Infinity;
  const freeze = life.freezes.find(({ fromMs }) => begin.atMs <= fromMs && fromMs <= overAtMs);
  const leasedMs = freeze === undefined ? overAtMs : Math.min(overAtMs, freeze.fromMs + WORKER_TIMES.leaseMs);
  return {
    job,
    token: begin.token,
    life,
    effects: effects.length,
    hasEnded: end !== undefined,
    fromMs: begin.atMs,
    toMs: Math.max(begin.atMs, effects.at(-1)?.atMs ?? 0, leasedMs),
  };
}

function mostAtOnce(attempts: readonly Attempt[]): number {
  return Math.max(
    0,
    ...attempts.map(
      ({ fromMs }) => attempts.filter((each) => each.fromMs <= fromMs && fromMs < each.toMs).length,
    ),
  );
}

/** Describes the test of a scene. */
export function describeChaos(scene: ChaosScene): void {
  describe(`processes that are killed, stopped and kept busy (seed ${SEED})`, () => chaos(scene));
}

function chaos(scene: ChaosScene): void {
  const { jobs: jobsInAll, busy, withinMs } = scene;
  const workers = Array.from({ length: scene.workers }, (_, at) => `worker-${at + 1}`);
  const configuration = resolveConfiguration(POOL);
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-chaos-'));
  const sqs = new SQSClient(clientConfiguration);
  const lives: Life[] = [];
  const announced: AnnouncedLines = new Map();
  let isOver = false;
  let table: TestTable;
  let fleetQueue: TestQueue;
  let wakeQueue: TestQueue;
  let store: DynamoJobStore;
  let environment: NodeJS.ProcessEnv;

  beforeAll(async () => {
    [table, fleetQueue, wakeQueue] = await Promise.all([
      createTable(),
      createQueue(sqs, FLEET),
      createQueue(sqs, 'wakes'),
    ]);
    store = new DynamoJobStore({ ...table, place: rankOf(configuration) });
    environment = await fleetEnvironment({
      store,
      configuration,
      fleet: FLEET,
      table: table.table,
      fleetQueueUrl: fleetQueue.url,
      wakeQueueUrl: wakeQueue.url,
    });
  }, withinMs);

  afterAll(async () => {
    isOver = true;
    const left = lives.filter(({ endedAtMs }) => endedAtMs === undefined);
    // Also ends what is stopped.
    for (const { child } of left) child.kill('SIGKILL');
    await until('the processes have ended', () => left.every(({ endedAtMs }) => endedAtMs !== undefined));
    await Promise.all([table, fleetQueue, wakeQueue].map((each) => each?.drop()));
    sqs.destroy();
    rmSync(folder, { recursive: true, force: true });
  }, withinMs);

  async function until(what: string, isSo: () => boolean | Promise<boolean>, withinMs = SIGNAL_MS) {
    const untilMs = Date.now() + withinMs;
    while (!(await isSo())) {
      if (Date.now() > untilMs) throw new Error(`waited ${withinMs} ms in vain until ${what}`);
      await sleep(LOOK_MS);
    }
  }

  /** Starts the process of this name, and starts it again whenever it has ended. */
  const supervise = (role: Role, name: string): void => {
    const child = spawn(
      process.execPath,
      [fileURLToPath(SCRIPTS[role]), name, join(folder, `${name}-${lives.length}`)],
      {
        env: environment,
        // It ends when its standard input does. A dispatcher says its steps on its standard output.
        stdio: ['pipe', role === 'worker' ? 'ignore' : 'pipe', 'inherit'],
      },
    );
    // Read it all, whether or not anybody waits for a step.
    child.stdout?.resume();
    const life: Life = { role, name, child, freezes: [] };
    lives.push(life);
    child.once('exit', () => {
      life.endedAtMs = Date.now();
      if (!isOver) supervise(role, name);
    });
  };

  const entriesIn = (file: string): readonly Entry[] => {
    const lines = readFileSync(join(folder, file), 'utf8').split('\n');
    // What follows the last line's end was cut off by a kill.
    return lines.slice(0, -1).map((line) => JSON.parse(line) as Entry);
  };
  const journal = (): readonly Entry[] => readdirSync(folder).flatMap(entriesIn);

  /** Attempts that this process is in the middle of. */
  const underWay = ({ child }: Life): readonly Entry[] => {
    const own = journal().filter(({ pid }) => pid === child.pid);
    const ended = new Set(
      own.filter(({ what }) => what === 'end').map(({ jobId, token }) => `${jobId} ${token}`),
    );
    return own.filter(({ what, jobId, token }) => what === 'begin' && !ended.has(`${jobId} ${token}`));
  };

  const upAndRunning = (role: Role): readonly Life[] =>
    lives.filter((life) => life.role === role && life.endedAtMs === undefined && !isFrozen(life));

  /** Waits until a dispatcher is about to take this step. */
  const saysStep = async ({ child }: Life, step: DispatchStep): Promise<void> => {
    const over = AbortSignal.timeout(STRIKE_MS);
    const look = new AbortController();
    const heard = new Promise<void>((resolve) => {
      child.stdout?.on('data', function listen(said: Buffer) {
        if (!look.signal.aborted && !said.toString().includes(step)) return;
        child.stdout?.off('data', listen);
        resolve();
      });
    });
    await Promise.race([heard, once(over, 'abort')]);
    look.abort();
  };

  const freeze = (life: Life): Freeze => {
    life.child.kill('SIGSTOP');
    const made: Freeze = { fromMs: Date.now() };
    life.freezes.push(made);
    return made;
  };
  const thaw = (life: Life, made: Freeze): void => {
    made.toMs = Date.now();
    life.child.kill('SIGCONT');
  };

  /** Stops a worker in the middle of its jobs, until one of them was taken from it. */
  const freezeWorker = async (life: Life): Promise<(() => Promise<void>) | undefined> => {
    const made = freeze(life);
    // It may have ended them before the signal reached it.
    await sleep(LOOK_MS);
    const held = underWay(life);
    if (held.length === 0) {
      life.freezes.pop();
      life.child.kill('SIGCONT');
      return undefined;
    }
    return async () => {
      await until('a job is taken from the worker that was stopped', async () => {
        const jobs = await store.getJobs({ ids: held.map(({ jobId }) => jobId) });
        return jobs.some((job, at) => job !== undefined && job.version > (held[at]?.token ?? 0));
      });
      thaw(life, made);
    };
  };

  /** Stops a dispatcher for longer than it may have led, and until another one has led after it. */
  const freezeDispatcher = async (life: Life): Promise<() => Promise<void>> => {
    const made = freeze(life);
    return async () => {
      await sleep(Math.max(0, made.fromMs + BUDGET.leadMs + LOOK_MS - Date.now()));
      await until('another dispatcher is there', () => upAndRunning('dispatcher').length > 0);
      await Promise.race(upAndRunning('dispatcher').map((other) => saysStep(other, 'stopLeading')));
      thaw(life, made);
    };
  };

  /** Answers what ends the fault, for a process that was stopped. */
  const strike = async (
    { role, how, step }: Fault,
    dice: Dice,
  ): Promise<(() => Promise<void>) | undefined> => {
    for (;;) {
      // One of each kind goes on, or nothing would.
      await until(
        `a ${role} is there to be struck`,
        () => upAndRunning(role).length > (how === 'freeze' ? 1 : 0),
      );
      const candidates = upAndRunning(role);
      if (role === 'worker') {
        const isBusy = (life: Life): boolean => underWay(life).length > 0;
        await until('a worker is busy', () => candidates.some(isBusy), STRIKE_MS).catch(() => {});
        // Looked at once: a worker that has just been busy may have ended its last job by the next look.
        const busy = candidates.filter(isBusy);
        const victim = dice.pick((busy.length > 0 ? busy : candidates) as [Life, ...Life[]]);
        if (victim.endedAtMs !== undefined) continue;
        if (how === 'freeze') {
          const end = await freezeWorker(victim);
          if (end === undefined) continue;
          return end;
        }
        victim.child.kill('SIGKILL');
        return undefined;
      }
      const victim = dice.pick(candidates as [Life, ...Life[]]);
      await saysStep(victim, step);
      if (victim.endedAtMs !== undefined) continue;
      if (how === 'freeze') return freezeDispatcher(victim);
      victim.child.kill('SIGKILL');
      return undefined;
    }
  };

  it('lose nothing, accept one outcome of each job, and exceed nothing', { timeout: withinMs }, async () => {
    const dice = diceOf(seeded(SEED));
    const jobs: Job[] = [];
    const send = async (count: number): Promise<void> => {
      const nowMs = Date.now();
      const busyLeft = Math.max(0, busy.jobs - jobs.length);
      const wave = Array.from({ length: count }, (_, at) => drawJob(dice, nowMs, scene, at < busyLeft));
      jobs.push(...wave);
      await submit({ store, configuration, nowMs: Date.now, clock: systemClock, announced }, wave);
    };
    for (const name of DISPATCHERS) supervise('dispatcher', name);
    for (const name of workers) supervise('worker', name);
    await send(FIRST_WAVE);

    const faults = drawFaults(dice);
    const thaws: Promise<void>[] = [];
    for (const [at, fault] of faults.entries()) {
      await sleep(fault.pauseMs);
      const left = jobsInAll - jobs.length;
      await send(Math.ceil(left / (faults.length - at)));
      const end = await strike(fault, dice);
      if (end !== undefined) thaws.push(end());
    }
    await Promise.all(thaws);
    const ids = jobs.map(({ id }) => id);
    let done: readonly Job[] = [];
    const allHaveEnded = async (): Promise<boolean> => {
      done = (await store.getJobs({ ids })).filter((job) => job !== undefined);
      return done.every(({ state }) => isTerminal(state));
    };
    // At worst one after the other.
    await until('all jobs have ended', allHaveEnded, SIGNAL_MS + busy.jobs * busy.forMs);
    await until('nothing is held', async () => {
      const { reservations } = await store.loadPartition({ partition: 0, nowMs: Date.now() });
      return reservations.length === 0;
    });
    isOver = true;
    const last = lives.filter(({ endedAtMs }) => endedAtMs === undefined);
    for (const { child } of last) child.kill('SIGTERM');
    await until('the processes have ended', () => last.every(({ endedAtMs }) => endedAtMs !== undefined));
    expect(last.map(({ name, child }) => [name, child.exitCode])).toEqual(last.map(({ name }) => [name, 0]));

    // Nothing is lost.
    expect(done).toHaveLength(jobsInAll);
    const failed = done.filter(({ state }) => state !== 'succeeded');
    expect(failed.filter(({ type, error }) => type !== FRAGILE || error?.name !== WORKER_LOST)).toEqual([]);

    // One accepted outcome, and nothing after it.
    const read = await readStream({ ...clientConfiguration, table: table.table, from: 'TRIM_HORIZON' });
    const readJobs = async (): Promise<readonly MovingJob[]> =>
      (await read()).filter(isJobItem).map(decodeMovingJob);
    const history = new Map<string, MovingJob[]>(ids.map((id) => [id, []]));
    await until('the stream has told all', async () => {
      for (const image of await readJobs()) history.get(image.id)?.push(image);
      return [...history.values()].every((told) => isTerminal(told.at(-1)?.state ?? 'pending'));
    });
    expect(await readJobs()).toEqual([]);
    for (const [id, told] of history) {
      expect([id, told.filter(({ state }) => isTerminal(state)).length]).toEqual([id, 1]);
      const versions = told.map(({ version }) => version);
      expect([id, versions]).toEqual([id, versions.toSorted((one, other) => one - other)]);
    }

    // What was really done, when.
    const byJob = new Map(done.map((job) => [job.id, job]));
    const byPid = new Map(lives.map((life) => [life.child.pid, life]));
    const entries = journal();
    const attempts = [
      ...Map.groupBy(entries, ({ jobId, token, pid }) => `${jobId} ${token} ${pid}`).values(),
    ].map((of) => {
      const [{ jobId, pid }] = of as [Entry];
      const [job, life] = [byJob.get(jobId), byPid.get(pid)];
      if (job === undefined || life === undefined) throw new Error(`${jobId} ran in ${pid}: one is unknown`);
      return attemptOf(job, life, of);
    });
    expect(new Set(attempts.map(({ job, token }) => `${job.id} ${token}`)).size).toBe(attempts.length);
    for (const { state, id, result, payload } of done) {
      if (state !== 'succeeded') continue;
      const accepted = attempts.find(
        ({ job, token, life }) =>
          job.id === id &&
          token === (result as { token: number }).token &&
          life.child.pid === (result as { pid: number }).pid,
      );
      const { effects, isBusy } = payload as unknown as Payload;
      expect(accepted).toMatchObject({ hasEnded: true, effects });
      if (isBusy && accepted !== undefined)
        expect(accepted.toMs - accepted.fromMs).toBeGreaterThanOrEqual(busy.forMs);
    }

    // Nobody goes on after it was stopped for longer than its lease.
    const afterwards = lives.flatMap(({ role, child, freezes }) =>
      role === 'dispatcher'
        ? []
        : freezes.flatMap(({ toMs = Infinity }) =>
            entries.filter(({ pid, what, atMs }) => pid === child.pid && what !== 'end' && atMs >= toMs),
          ),
    );
    expect(afterwards).toEqual([]);

    /** The groups in which more ran at once than may. */
    const exceeded = (groupOf: (attempt: Attempt) => string | undefined, cap: number) =>
      [...Map.groupBy(attempts, groupOf)]
        .filter(([group, of]) => group !== undefined && mostAtOnce(of) > cap)
        .map(([group, of]) => [group, mostAtOnce(of), of]);
    expect(exceeded(({ job }) => job.id, 1)).toEqual([]);
    expect(exceeded(({ job }) => (CONFLICTING.has(job.type) ? job.resourceId : undefined), 1)).toEqual([]);
    expect(exceeded(() => 'pool', CAPS.pool)).toEqual([]);
    expect(exceeded(({ job }) => job.fairnessKey, CAPS.key)).toEqual([]);
    expect(exceeded(({ job }) => (job.type === 'mail' ? 'mail' : undefined), CAPS.mail)).toEqual([]);
    expect(exceeded(({ job }) => (LOW_TYPES.has(job.type) ? 'low' : undefined), CAPS.low)).toEqual([]);
    expect(exceeded(({ life }) => String(life.child.pid), SLOTS_OF_ONE)).toEqual([]);

    // What was to happen did happen.
    const tally = {
      lives: lives.length,
      lost: done.reduce((sum, { workersLost }) => sum + workersLost, 0),
      cutOff: attempts.filter(({ hasEnded }) => !hasEnded).length,
      mostAtOnce: mostAtOnce(attempts),
      failed: failed.length,
      attempts: attempts.length,
    };
    expect(tally.lives).toBeGreaterThanOrEqual(workers.length + DISPATCHERS.length + 4 + 4);
    expect(tally.cutOff).toBeGreaterThan(0);
    expect(tally.lost).toBeGreaterThan(0);
    expect(tally.mostAtOnce).toBeGreaterThan(2);
    console.info(`seed ${SEED}: ${JSON.stringify(tally)}`);
  });
}
