/**
 * Schedules that a deployment declares. Deployments create, change and delete only schedules that deployments created.
 * An item of its own lists these, so the next deployment knows all that a failed one has created.
 */

import type { PoolConfiguration } from '../core/configuration.ts';
import { ConfigurationError } from '../core/errors.ts';
import { partitionOf } from '../core/partition.ts';
import type { ScheduleSpec } from '../core/recurring.ts';
import type { JobQueue } from '../queue/contract.ts';
import {
  parseSchedule,
  SCHEDULE_LIMITS,
  type ScheduleRequest,
  scheduleIdProblem,
} from '../schedules/request.ts';
import { deleteSchedule, putSchedule } from '../schedules/schedules.ts';
import type { ScheduleStore } from '../store/contract/schedules.ts';
import type { DeployStore } from '../store/contract/verbs.ts';

/** Schedules by id. */
export type DeclaredSchedules = Readonly<Record<string, ScheduleRequest>>;

/** The most characters that a deployment may pass as schedules. */
const TEXT_CHARS_MAX = 100_000;

/**
 * Encodes the schedules for the deployment.
 * @throws ConfigurationError if there are more than one deployment may declare
 */
export function packDeclaredSchedules(schedules: DeclaredSchedules): string {
  const text = JSON.stringify(schedules);
  const count = Object.keys(schedules).length;
  if (text.length <= TEXT_CHARS_MAX && count <= SCHEDULE_LIMITS.declared) return text;
  throw new ConfigurationError(
    'schedules',
    `${count} schedules of ${text.length} characters`,
    `are more than one deployment may declare (${SCHEDULE_LIMITS.declared}, ${TEXT_CHARS_MAX} characters)`,
    'Put the others with the client: client.schedules.put.',
  );
}

/**
 * Checks the schedules against the types of the pool.
 * @throws ConfigurationError - names the schedule and the field
 */
export function checkDeclaredSchedules(
  schedules: unknown,
  configuration: PoolConfiguration,
): ReadonlyMap<string, ScheduleSpec> {
  if (typeof schedules !== 'object' || schedules === null || Array.isArray(schedules))
    throw new ConfigurationError(
      'schedules',
      schedules,
      'must be an object',
      'Name each schedule by its id.',
    );
  return new Map(
    Object.entries(schedules).map(([id, request]) => {
      const idProblem = scheduleIdProblem(id);
      if (idProblem !== undefined)
        throw new ConfigurationError('schedules', id, idProblem, 'Choose another id.');
      // The check begins at time 0, because a schedule whose end has passed may stay declared, and never fires again.
      const parsed = parseSchedule(request, 0, configuration);
      if ('spec' in parsed) return [id, parsed.spec] as const;
      const { field, problem, value, wayOut } = parsed.refusal;
      const path = `schedules.${id}${field === '' ? '' : `.${field}`}`;
      throw new ConfigurationError(
        path,
        value ?? valueAt(request, field),
        problem,
        wayOut === '' ? 'See docs/schedules.md.' : wayOut,
      );
    }),
  );
}

/** Returns the value of a field, such as `units.openai`; undefined if there is none. */
const valueAt = (request: unknown, field: string): unknown =>
  field
    .split('.')
    .reduce<unknown>(
      (value, name) => (value as Readonly<Record<string, unknown>> | undefined)?.[name],
      request,
    );

/**
 * Decodes and checks the schedules of a deployment.
 * @throws ConfigurationError if the text is not JSON, or a schedule in it is invalid
 */
export function unpackDeclaredSchedules(
  text: string,
  configuration: PoolConfiguration,
): ReadonlyMap<string, ScheduleSpec> {
  let schedules: unknown;
  try {
    schedules = JSON.parse(text);
  } catch {
    throw new ConfigurationError(
      'schedules',
      text,
      'is not JSON',
      'Declare through the Scheduler construct.',
    );
  }
  return checkDeclaredSchedules(schedules, configuration);
}

export interface DeclareSchedulesContext {
  readonly store: DeployStore;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly nowMs: () => number;
}

/**
 * Checks, before anything is declared, that no schedule created at run time has one of these ids.
 * @throws ConfigurationError
 */
export async function requireNamesFree(
  store: Pick<ScheduleStore, 'getSchedules'>,
  ids: Iterable<string>,
): Promise<void> {
  const named = [...ids];
  if (named.length === 0) return;
  for (const record of await store.getSchedules({ ids: named }))
    if (record !== undefined && !record.state.isDeclared) throw nameTaken(record.state.id);
}

const nameTaken = (id: string): ConfigurationError =>
  new ConfigurationError(
    'schedules',
    id,
    'is the id of a schedule that was created at run time, which a deployment never changes',
    'Delete that one (fairlead schedules delete), or declare yours under another id.',
  );

/**
 * Creates and updates the declared schedules, and deletes those that are not declared any more. Safe to repeat.
 * @throws ConfigurationError if an id was taken at run time after `requireNamesFree`; all other schedules are then as
 * declared
 */
export async function declareSchedules(
  { store, queue, nowMs }: DeclareSchedulesContext,
  configuration: PoolConfiguration,
  schedules: ReadonlyMap<string, ScheduleSpec>,
): Promise<void> {
  const context = {
    store,
    queue,
    configuration,
    nowMs,
    // Of requests with a dedupe key: no crowd of deployments meets at one.
    clock: { nowMs, sleep: () => Promise.resolve() },
    announced: new Map(),
    partitionOf: (fairnessKey: string) => partitionOf(fairnessKey, configuration.partitions),
  };
  const before = await store.readDeclaredSchedules();
  if (before.length === 0 && schedules.size === 0) return;
  // Lists the schedules before they are created, so that a deployment that stops half-way leaves none unlisted.
  await store.noteDeclaredSchedules([...new Set([...before, ...schedules.keys()])]);
  const taken: string[] = [];
  for (const [id, spec] of schedules)
    if ((await putSchedule(context, id, spec, true)).kind === 'owned') taken.push(id);
  for (const id of before) if (!schedules.has(id)) await deleteSchedule(context, id, true);
  await store.noteDeclaredSchedules([...schedules.keys()]);
  const [first] = taken;
  // planted: name-taken-unseen
  if (first !== undefined) throw nameTaken(first);
}
