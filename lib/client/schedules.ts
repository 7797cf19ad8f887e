/** The client's verbs about recurring work: `client.schedules`. */
import { ValidationError } from '../core/errors.ts';
import type { JobState, Json } from '../core/job.ts';
import type { FiringEntry, ScheduleRecord, ScheduleSpec } from '../core/recurring.ts';
import { rulesOf } from '../core/recurring.ts';
import { firesOf, inBlackout, jitterOf } from '../core/schedule.ts';
import { readCron } from '../cron/croner.ts';
import { jobIdOfEntry } from '../dispatch/pass/firing.ts';
import { type OperateContext, partitionsOf } from '../operate/controls.ts';
import { parseSchedule, type ScheduleRequest, scheduleIdProblem } from '../schedules/request.ts';
import {
  deleteSchedule,
  getSchedule,
  listSchedules,
  pauseSchedule,
  putSchedule,
  resumeSchedule,
  runNow,
} from '../schedules/schedules.ts';
import { SHAPES } from './arguments.ts';
import { type CallOptions, type Doing, eachWithin, optionsOf, within } from './calls.ts';
import { NotFoundError, scheduleDeclared } from './errors.ts';
import { type FiringsOf, firingsOfSchedule } from './firings.ts';
import { jsonOf } from './json.ts';

/** What became of a firing, or of several in a row. */
export interface FiringView {
  /** When it was due by its times, jitter not included. */
  readonly atMs: number;
  /** Of several: when the last one was. */
  readonly untilMs?: number | undefined;
  /**
   * `made`: a job. `manual`: a job, because somebody asked for it. `missed`: none, because it was noticed too late. `running`: none,
   * because the job before had not ended. `paused`: none, because the schedule was stopped. `blackout`: none, because it was in one.
   */
  readonly what: FiringEntry['what'];
  readonly jobId?: string | undefined;
  /** As it was last seen; `gone`: its record has expired. */
  readonly jobState?: JobState | 'gone' | undefined;
  /** How long after it was due, jitter included, the first attempt of its job started. */
  readonly lateMs?: number | undefined;
}

/** A schedule, and how far it is. */
export interface ScheduleView {
  readonly id: string;
  /** `paused`: somebody asked for it. `stopped`: it paused itself. `ended`: no firing is left. */
  readonly state: 'active' | 'paused' | 'stopped' | 'ended';
  /** A deployment has made it, which alone changes or removes it. */
  readonly isDeclared: boolean;
  readonly spec: ScheduleSpec;
  /** The last firing that made a job. */
  readonly lastMs?: number | undefined;
  /** The next one, jitter not included. */
  readonly nextMs?: number | undefined;
  /** When the next one's job is due. */
  readonly nextDueMs?: number | undefined;
  /** A firing that waits for the end of the last job. */
  readonly queuedMs?: number | undefined;
  /** Failed jobs in a row. */
  readonly failures: number;
  /** The last ten, the oldest first. */
  readonly firings: readonly FiringView[];
  /** Why it does not fire, or did not, in sentences; empty: there is nothing to say. */
  readonly why: readonly string[];
  readonly createdAtMs: number;
  readonly changedAtMs: number;
}

export interface PutResult {
  readonly outcome: 'created' | 'changed' | 'unchanged';
  readonly schedule: ScheduleView;
}

export interface NextOptions extends CallOptions {
  /** ISO 8601 with a zone: firings after it; now unless given. */
  readonly from?: string | undefined;
  /** @default 10 */
  readonly count?: number | undefined;
}

const NEXT_COUNT = 10;

export class ScheduleVerbs {
  readonly #context: () => Promise<OperateContext>;
  readonly #traceparent: () => string | undefined;

  /** @param traceparent - the trace that a request is part of */
  constructor(context: () => Promise<OperateContext>, traceparent: () => string | undefined) {
    this.#context = context;
    this.#traceparent = traceparent;
  }

  /**
   * Makes a schedule what is asked for, from its next firing on. The same request again changes nothing.
   * @throws ValidationError, ConflictError
   */
  async put(id: string, request: ScheduleRequest, options?: CallOptions): Promise<PutResult> {
    const { signal } = optionsOf(SHAPES.options, options);
    const checkedId = idOf(id);
    const asked = askedOf(checkedId, request);
    return within(signal, async () => {
      const context = await this.#context();
      const spec = specOf(checkedId, asked, context);
      const outcome = await putSchedule(context, checkedId, spec, false);
      if (outcome.kind === 'owned') throw scheduleDeclared(checkedId);
      return { outcome: outcome.kind, schedule: viewOf(outcome.record) };
    });
  }

  /** @throws NotFoundError */
  async get(id: string, options?: CallOptions): Promise<ScheduleView> {
    return this.#found(id, options, (context, checkedId) => getSchedule(context, checkedId), 'look');
  }

  /** All schedules: those that fire soonest first in each partition, then those that are stopped. From the index, so it may lag. */
  list(options?: CallOptions): AsyncIterableIterator<ScheduleView> {
    const { signal } = optionsOf(SHAPES.options, options);
    return eachWithin(signal, this.#list());
  }

  /** Stops a schedule: firings of that time are left out. @throws NotFoundError */
  async pause(id: string, options?: CallOptions): Promise<ScheduleView> {
    return this.#found(id, options, pauseSchedule, 'change');
  }

  /** Lets it go on with its next firing, whoever stopped it. @throws NotFoundError */
  async resume(id: string, options?: CallOptions): Promise<ScheduleView> {
    return this.#found(id, options, resumeSchedule, 'change');
  }

  /**
   * Removes a schedule. Jobs that it has made go on.
   * @throws NotFoundError, ConflictError
   */
  async delete(id: string, options?: CallOptions): Promise<void> {
    const { signal } = optionsOf(SHAPES.options, options);
    const checkedId = idOf(id);
    const outcome = await within(signal, async () => deleteSchedule(await this.#context(), checkedId, false));
    if (outcome === 'missing') throw new NotFoundError({ scheduleId: checkedId });
    if (outcome === 'owned') throw scheduleDeclared(checkedId);
  }

  /** When it fires next, if nobody changes it; of one that is stopped, when it would. @throws NotFoundError */
  async next(id: string, options?: NextOptions): Promise<FiringsOf> {
    const { signal, from, count = NEXT_COUNT } = optionsOf(SHAPES.nextOptions, options);
    const checkedId = idOf(id);
    return within(
      signal,
      async () => {
        const context = await this.#context();
        const record = await getSchedule(context, checkedId);
        if (record === undefined) throw new NotFoundError({ scheduleId: checkedId });
        const { spec, state } = record;
        const fromMs = from === undefined ? context.nowMs() : Date.parse(from);
        const found = firingsOfSchedule(checkedId, spec, { anchorMs: state.anchorMs, fromMs, count });
        return state.stopped === undefined ? found : { ...found, state: STATES[state.stopped] };
      },
      'look',
    );
  }

  /**
   * Makes its job now, beside its firings, also while it is stopped. The job is part of the trace that a submission would be.
   * @throws NotFoundError
   * @throws ValidationError if its job's type is not declared any more
   */
  async runNow(id: string, options?: CallOptions): Promise<{ readonly jobId: string }> {
    const { signal } = optionsOf(SHAPES.options, options);
    const checkedId = idOf(id);
    const traceparent = this.#traceparent();
    const outcome = await within(signal, async () =>
      runNow(await this.#context(), checkedId, { traceparent }),
    );
    if (outcome.kind === 'made') return { jobId: outcome.jobId };
    if (outcome.kind === 'missing') throw new NotFoundError({ scheduleId: checkedId });
    throw new ValidationError(
      'type',
      `is not declared, got ${JSON.stringify(outcome.type)}: declare it, or put the schedule with another one (schedule ${checkedId})`,
    );
  }

  async #found(
    id: string,
    options: CallOptions | undefined,
    verb: (context: OperateContext, id: string) => Promise<ScheduleRecord | undefined>,
    doing: Doing,
  ): Promise<ScheduleView> {
    const { signal } = optionsOf(SHAPES.options, options);
    const checkedId = idOf(id);
    const record = await within(signal, async () => verb(await this.#context(), checkedId), doing);
    if (record === undefined) throw new NotFoundError({ scheduleId: checkedId });
    return viewOf(record);
  }

  async *#list(): AsyncGenerator<ScheduleView> {
    const context = await this.#context();
    for await (const record of listSchedules(context, partitionsOf(context))) yield viewOf(record);
  }
}

function idOf(id: unknown): string {
  const problem = scheduleIdProblem(id);
  if (problem !== undefined) throw new ValidationError('id', problem);
  return id as string;
}

/** @throws ValidationError which names the schedule, for what JSON would change or lose */
function askedOf(id: string, request: unknown): Json {
  try {
    return jsonOf(request);
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    const reason = error.field === '' ? error.message : error.message.slice(error.field.length + 2);
    throw new ValidationError(error.field, `${reason} (schedule ${id})`, { cause: error });
  }
}

function specOf(id: string, asked: unknown, { configuration, nowMs }: OperateContext): ScheduleSpec {
  const parsed = parseSchedule(asked, nowMs(), configuration.types);
  if ('spec' in parsed) return parsed.spec;
  throw new ValidationError(parsed.refusal.field, `${parsed.refusal.reason} (schedule ${id})`);
}

const STATES = { asked: 'paused', failures: 'stopped', type: 'stopped', ended: 'ended' } as const;

function viewOf(record: ScheduleRecord): ScheduleView {
  const { spec, state } = record;
  const { id, isDeclared, stopped, lastMs, nextMs, queuedMs, failures, createdAtMs, changedAtMs } = state;
  const isActive = stopped === undefined;
  return {
    id,
    state: stopped === undefined ? 'active' : STATES[stopped],
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
    why: whyOf(record),
    createdAtMs,
    changedAtMs,
  };
}

const iso = (atMs: number): string => new Date(atMs).toISOString();

const span = ({ atMs, untilMs }: FiringEntry): string =>
  untilMs === undefined ? `The firing of ${iso(atMs)}` : `The firings from ${iso(atMs)} to ${iso(untilMs)}`;

/** Why it does not fire, or did not. */
function whyOf({ spec, state }: ScheduleRecord): readonly string[] {
  const { stopped, history, queuedMs, dealtMs, nextMs } = state;
  const why: string[] = [];
  if (stopped === 'asked')
    why.push('It is paused: it fires again once it is resumed, and leaves out what is due until then.');
  if (stopped === 'failures')
    why.push(
      `It paused itself: ${state.failures} of its jobs in a row have failed. Resume it once that is mended.`,
    );
  if (stopped === 'type')
    why.push(
      `It stopped itself: no job type ${JSON.stringify(spec.job.type)} was declared. Resume it once one is, or put it with another.`,
    );
  if (stopped === 'ended') why.push('It has ended: none of its times is left.');
  if (queuedMs !== undefined) why.push(`The firing of ${iso(queuedMs)} waits for the end of the job before.`);
  for (const entry of history) {
    if (entry.what === 'missed')
      why.push(
        `${span(entry)} made no job: noticed more than ${spec.misfireGraceMs} ms late, and misfire is ${spec.misfire}.`,
      );
    if (entry.what === 'running')
      why.push(
        `${span(entry)} made no job: the job before had not ended, and ifRunning is ${spec.ifRunning}.`,
      );
    if (entry.what === 'paused') why.push(`${span(entry)} made no job: the schedule was paused.`);
    if (entry.what === 'blackout') why.push(`${span(entry)} made no job: in a blackout.`);
  }
  const coming =
    stopped === undefined ? inBlackout(firesOf(rulesOf(spec, state.anchorMs), readCron), dealtMs) : undefined;
  if (coming !== undefined)
    why.push(
      `The firing of ${iso(coming.fromMs)} is in a blackout; the next one outside is ${nextMs === undefined ? 'none' : `that of ${iso(nextMs)}`}.`,
    );
  return why;
}
