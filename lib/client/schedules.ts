/** `client.schedules`: the client's verbs for recurring work. */
import { ValidationError } from '../core/errors.ts';
import type { JobState, Json } from '../core/job.ts';
import { jsonOf } from '../core/json.ts';
import type { FiringEntry, ScheduleRecord, ScheduleSpec } from '../core/recurring.ts';
import { rulesOf } from '../core/recurring.ts';
import { firesOf, inBlackout, jitterOf } from '../core/schedule.ts';
import { readCron } from '../cron/croner.ts';
import { jobIdOfEntry } from '../dispatch/pass/firing.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { type OperateContext, partitionsOf } from '../operate/controls.ts';
import { parseSchedule, scheduleIdProblem } from '../schedules/request.ts';
import {
  deleteSchedule,
  getSchedule,
  listSchedules,
  pauseSchedule,
  putSchedule,
  resumeSchedule,
  runNow,
} from '../schedules/schedules.ts';
import { SHAPES, withDurations } from './arguments.ts';
import { type CallKind, type CallOptions, eachWithSignal, optionsOf, withSignal } from './calls.ts';
import type { DeclaredJobs } from './declared-jobs.ts';
import { backlogFull, NotFoundError, scheduleDeclared } from './errors.ts';
import { type FiringsOf, firingsOfSchedule } from './firings.ts';
import type { TypedSchedule } from './typed.ts';

/** The outcome of a firing, or of several in a row. */
export interface FiringView {
  /** When it was due by the schedule's times, jitter not included; epoch ms. */
  readonly atMs: number;
  /** If the entry stands for several firings: when the last one was due. */
  readonly untilMs?: number | undefined;
  /**
   * `made`: a job was made. `manual`: `runNow` made a job. `missed`: no job, because the firing was noticed too late.
   * `running`: no job, because the job before had not ended. `paused`: no job, because the schedule was stopped.
   * `blackout`: no job, because the time was in a blackout. `full`: no job, because too many waited.
   */
  readonly what: FiringEntry['what'];
  readonly jobId?: string | undefined;
  /** The job's state when it was last seen; `gone` if its record has expired. */
  readonly jobState?: JobState | 'gone' | undefined;
  /** How many ms after it was due, jitter included, the first attempt of its job started. */
  readonly lateMs?: number | undefined;
}

/** A schedule and its state. Times are epoch ms. */
export interface ScheduleView {
  readonly id: string;
  /** `paused`: an operator paused it. `stopped`: it stopped itself. `ended`: no firing is left. */
  readonly state: 'active' | 'paused' | 'stopped' | 'ended';
  /** Whether a deployment declares it; then only a deployment changes or removes it. */
  readonly isDeclared: boolean;
  readonly spec: ScheduleSpec;
  /** When the last firing that made a job was due, jitter not included. */
  readonly lastMs?: number | undefined;
  /** When the next firing is due, jitter not included. */
  readonly nextMs?: number | undefined;
  /** When the job of the next firing is due, jitter included. */
  readonly nextDueMs?: number | undefined;
  /** The due time of a firing that waits for the end of the last job. */
  readonly queuedMs?: number | undefined;
  /** How many jobs in a row have failed. */
  readonly failures: number;
  /** The last ten outcomes, the oldest first. */
  readonly firings: readonly FiringView[];
  /** Sentences that say why it does not fire, or did not; empty if there is no such reason. */
  readonly why: readonly string[];
  readonly createdAtMs: number;
  readonly changedAtMs: number;
}

export interface PutResult {
  readonly outcome: 'created' | 'changed' | 'unchanged';
  readonly schedule: ScheduleView;
}

export interface NextOptions extends CallOptions {
  /** ISO 8601 with a zone: list firings after this instant. @default - now */
  readonly from?: string | undefined;
  /** How many firings to list: 1 to 1,000. @default 10 */
  readonly count?: number | undefined;
}

const NEXT_COUNT = 10;

export class ScheduleVerbs<Declared extends Jobs = Jobs> {
  readonly #context: () => Promise<OperateContext>;
  readonly #traceparent: () => string | undefined;
  readonly #declared: DeclaredJobs;

  /** @param traceparent - gives the trace that a request is part of */
  constructor(
    context: () => Promise<OperateContext>,
    traceparent: () => string | undefined,
    declared: DeclaredJobs,
  ) {
    this.#context = context;
    this.#traceparent = traceparent;
    this.#declared = declared;
  }

  /**
   * Creates a schedule, or changes it from its next firing on. The same request again changes nothing.
   * @throws ValidationError, ConflictError if a deployment declares it
   */
  async put(id: string, request: TypedSchedule<Declared>, options?: CallOptions): Promise<PutResult> {
    const { signal } = optionsOf(SHAPES.options, options);
    const checkedId = idOf(id);
    const sent = scheduleAsJson(checkedId, request);
    return withSignal(signal, async () => {
      const asked = hasTemplate(sent) ? sent : await this.#declared.completed(sent);
      const context = await this.#context();
      const spec = parsedSpec(checkedId, asked, context);
      const outcome = await putSchedule(context, checkedId, spec, false);
      if (outcome.kind === 'owned') throw scheduleDeclared(checkedId);
      return { outcome: outcome.kind, schedule: viewOf(outcome.record) };
    });
  }

  /** Reads a schedule and its state. @throws NotFoundError */
  async get(id: string, options?: CallOptions): Promise<ScheduleView> {
    return this.#viewFrom(id, options, (context, checkedId) => getSchedule(context, checkedId), 'look');
  }

  /**
   * Lists all schedules: in each partition those that fire soonest first, then those that are stopped. Read from an
   * index, which may lag behind by about a second.
   */
  list(options?: CallOptions): AsyncIterableIterator<ScheduleView> {
    const { signal } = optionsOf(SHAPES.options, options);
    return eachWithSignal(signal, this.#list());
  }

  /** Pauses a schedule. Firings that are due until it is resumed make no jobs. @throws NotFoundError */
  async pause(id: string, options?: CallOptions): Promise<ScheduleView> {
    return this.#viewFrom(id, options, pauseSchedule, 'change');
  }

  /** Resumes a paused or stopped schedule with its next firing. @throws NotFoundError */
  async resume(id: string, options?: CallOptions): Promise<ScheduleView> {
    return this.#viewFrom(id, options, resumeSchedule, 'change');
  }

  /**
   * Removes a schedule. Jobs that it has made continue.
   * @throws NotFoundError, ConflictError if a deployment declares it
   */
  async delete(id: string, options?: CallOptions): Promise<void> {
    const { signal } = optionsOf(SHAPES.options, options);
    const checkedId = idOf(id);
    const outcome = await withSignal(signal, async () =>
      deleteSchedule(await this.#context(), checkedId, false),
    );
    if (outcome === 'missing') throw new NotFoundError({ scheduleId: checkedId });
    if (outcome === 'owned') throw scheduleDeclared(checkedId);
  }

  /**
   * Lists the next firings, if the schedule is not changed. For a stopped schedule it lists when it would fire.
   * @throws NotFoundError
   */
  async next(id: string, options?: NextOptions): Promise<FiringsOf> {
    const { signal, from, count = NEXT_COUNT } = optionsOf(SHAPES.nextOptions, options);
    const checkedId = idOf(id);
    return withSignal(
      signal,
      async () => {
        const context = await this.#context();
        const record = await getSchedule(context, checkedId);
        if (record === undefined) throw new NotFoundError({ scheduleId: checkedId });
        const { spec, state } = record;
        const fromMs = from === undefined ? context.nowMs() : Date.parse(from);
        const found = firingsOfSchedule(checkedId, spec, { anchorMs: state.anchorMs, fromMs, count });
        return state.stopped === undefined ? found : { ...found, state: STATE_OF_STOP[state.stopped] };
      },
      'look',
    );
  }

  /**
   * Makes a job of the schedule now, in addition to its firings; a stopped schedule does so too. The job is part of
   * the same trace as a submission would be.
   * @throws NotFoundError
   * @throws ValidationError if the type of its job is not declared any more, or the job would have more units than one may have
   * @throws BacklogFullError if as many jobs wait as its type lets wait
   */
  async runNow(id: string, options?: CallOptions): Promise<{ readonly jobId: string }> {
    const { signal } = optionsOf(SHAPES.options, options);
    const checkedId = idOf(id);
    const traceparent = this.#traceparent();
    const outcome = await withSignal(signal, async () =>
      runNow(await this.#context(), checkedId, { traceparent }),
    );
    if (outcome.kind === 'made') return { jobId: outcome.jobId };
    if (outcome.kind === 'missing') throw new NotFoundError({ scheduleId: checkedId });
    if (outcome.kind === 'full') throw backlogFull(outcome);
    if (outcome.kind === 'misfit')
      throw new ValidationError(
        outcome.misfit.field.join('.'),
        `${outcome.misfit.reason} (schedule ${checkedId})`,
      );
    throw new ValidationError(
      'type',
      `is not declared, got ${JSON.stringify(outcome.type)}: declare it, or put the schedule with another type (schedule ${checkedId})`,
    );
  }

  async #viewFrom(
    id: string,
    options: CallOptions | undefined,
    verb: (context: OperateContext, id: string) => Promise<ScheduleRecord | undefined>,
    doing: CallKind,
  ): Promise<ScheduleView> {
    const { signal } = optionsOf(SHAPES.options, options);
    const checkedId = idOf(id);
    const record = await withSignal(signal, async () => verb(await this.#context(), checkedId), doing);
    if (record === undefined) throw new NotFoundError({ scheduleId: checkedId });
    return viewOf(record);
  }

  async *#list(): AsyncGenerator<ScheduleView> {
    const context = await this.#context();
    for await (const record of listSchedules(context, partitionsOf(context))) yield viewOf(record);
  }
}

/** Whether the payload is made at each firing, so that no schema can check it now. */
export const hasTemplate = (request: Json): boolean =>
  typeof request === 'object' && request !== null && 'payloadTemplate' in request;

/**
 * Returns the id, if it may be the id of a schedule.
 * @throws ValidationError
 */
export function idOf(id: unknown): string {
  const problem = scheduleIdProblem(id);
  if (problem !== undefined) throw new ValidationError('id', problem);
  return id as string;
}

/** Fields of a schedule that may be objects with a duration. */
const DURATIONS = ['every', 'jitter', 'misfireGrace'] as const;

/**
 * Returns the request as JSON.
 * @throws ValidationError which names the schedule, for values that JSON would change or lose
 */
export function scheduleAsJson(id: string, request: unknown): Json {
  try {
    return jsonOf(withDurations(request, DURATIONS));
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    const reason = error.field === '' ? error.message : error.message.slice(error.field.length + 2);
    throw new ValidationError(error.field, `${reason} (schedule ${id})`, { cause: error });
  }
}

function parsedSpec(id: string, asked: unknown, { configuration, nowMs }: OperateContext): ScheduleSpec {
  const parsed = parseSchedule(asked, nowMs(), configuration);
  if ('spec' in parsed) return parsed.spec;
  throw new ValidationError(parsed.refusal.field, `${parsed.refusal.reason} (schedule ${id})`);
}

const STATE_OF_STOP = { asked: 'paused', failures: 'stopped', type: 'stopped', ended: 'ended' } as const;

function viewOf(record: ScheduleRecord): ScheduleView {
  const { spec, state } = record;
  const { id, isDeclared, stopped, lastMs, nextMs, queuedMs, failures, createdAtMs, changedAtMs } = state;
  const isActive = stopped === undefined;
  return {
    id,
    state: stopped === undefined ? 'active' : STATE_OF_STOP[stopped],
    isDeclared,
    spec,
    ...(lastMs === undefined ? {} : { lastMs }),
    ...(nextMs === undefined || !isActive ? {} : { nextMs, nextDueMs: nextMs + jitterOf(id, spec.jitterMs) }),
    ...(queuedMs === undefined ? {} : { queuedMs }),
    failures,
    firings: state.history.map((entry) => ({
      ...entry,
      ...(entry.what === 'made' || entry.what === 'manual' ? { jobId: jobIdOfEntry(id, entry) } : {}),
    })),
    why: reasonsOf(record),
    createdAtMs,
    changedAtMs,
  };
}

const iso = (atMs: number): string => new Date(atMs).toISOString();

const firingsText = ({ atMs, untilMs }: FiringEntry): string =>
  untilMs === undefined ? `The firing of ${iso(atMs)}` : `The firings from ${iso(atMs)} to ${iso(untilMs)}`;

/** Returns why firings made no job; undefined: they made one. */
function noJobReason(
  { what }: FiringEntry,
  { misfire, misfireGraceMs, ifRunning, job }: ScheduleRecord['spec'],
): string | undefined {
  const type = JSON.stringify(job.type);
  switch (what) {
    case 'made':
    case 'manual':
      return undefined;
    case 'missed':
      return `noticed more than ${misfireGraceMs} ms late, and misfire is ${misfire}`;
    case 'running':
      return `the job before had not ended, and ifRunning is ${ifRunning}`;
    case 'paused':
      return 'the schedule was paused';
    case 'blackout':
      return 'in a blackout';
    case 'full':
      return `as many jobs waited as maxWaiting or maxWaitingPerKey of ${type} lets wait`;
    case 'units':
      return `it would have had more units than a limit of ${type} let one job have. Put the schedule with fewer units, or raise perJob`;
  }
}

/** Returns sentences that say why the schedule does not fire, or did not. */
function reasonsOf({ spec, state }: ScheduleRecord): readonly string[] {
  const { stopped, history, queuedMs, dealtMs, nextMs } = state;
  const why: string[] = [];
  if (stopped === 'asked')
    why.push('It is paused: it fires again once it is resumed, and makes no jobs for firings until then.');
  if (stopped === 'failures')
    why.push(
      `It stopped itself: ${state.failures} of its jobs in a row have failed. Resume it once that is fixed.`,
    );
  if (stopped === 'type')
    why.push(
      `It stopped itself: no job type ${JSON.stringify(spec.job.type)} was declared. Resume it once the type is declared, or put it with another type.`,
    );
  if (stopped === 'ended') why.push('It has ended: it has no firing left.');
  if (queuedMs !== undefined) why.push(`The firing of ${iso(queuedMs)} waits for the end of the job before.`);
  for (const entry of history) {
    const reason = noJobReason(entry, spec);
    if (reason !== undefined) why.push(`${firingsText(entry)} made no job: ${reason}.`);
  }
  const next =
    stopped === undefined ? inBlackout(firesOf(rulesOf(spec, state.anchorMs), readCron), dealtMs) : undefined;
  if (next !== undefined)
    why.push(
      `The firing of ${iso(next.fromMs)} is in a blackout; the next one outside of it is ${nextMs === undefined ? 'none' : `that of ${iso(nextMs)}`}.`,
    );
  return why;
}
