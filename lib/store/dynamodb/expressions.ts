/** Parts of expressions that several verbs use. */

import { CONTROL_FIELDS, type ControlEntry } from '../../core/capacity.ts';
import type { History, Job, JobState, MovingJob } from '../../core/job.ts';
import type { JobHead } from '../contract/job-fields.ts';
import type { FinishedState } from '../contract/operate.ts';
import type { ControlChange } from '../contract/requests.ts';
import { ATTRIBUTE, type Item } from '../table/codec/attributes.ts';
import { encodeChanges } from '../table/codec/control.ts';
import { encodeHistory } from '../table/codec/history.ts';
import type { Standing } from '../table/codec/job.ts';
import {
  deadLineName,
  dueLineName,
  finishedLineName,
  instantRank,
  latestFirstRank,
} from '../table/schema.ts';

/** How many writes run at once; the SDK's client opens 50 connections at most. */
export const PARALLEL_MAX = 32;

/** The index of the partition summary in a transaction. */
export const SUMMARY_PART = 0;

/** Returns the values of states for an expression: `:pending` stands for the state `pending`. */
export const stateValues = (...states: readonly JobState[]): Item =>
  Object.fromEntries(states.map((state) => [`:${state}`, state]));

export const versionValues = (version: number): Item => ({ ':version': version, ':next': version + 1 });

export const standingValues = (standing: Standing): Item => ({
  ':line': standing.line,
  ':rank': standing.rank,
});

export const dueStanding = (job: JobHead, runAtMs: number): Standing => ({
  line: dueLineName(job.partition),
  rank: instantRank(runAtMs, job.id),
});

/** Returns the clause that sets a job's history; empty if the job has none. */
export const notedHistory = (
  history: History | undefined,
): { readonly set: string; readonly values: Item } =>
  history === undefined
    ? { set: '', values: {} }
    : { set: ', #history = :history', values: { ':history': encodeHistory(history) } };

/** Returns the clauses that set when a job is ready, and when it first was. */
export const readyChange = ({
  readyAtMs,
  firstReadyAtMs,
}: Pick<Job, 'readyAtMs' | 'firstReadyAtMs'>): {
  readonly set: string;
  readonly remove: string;
  readonly values: Item;
} =>
  firstReadyAtMs === undefined
    ? {
        set: '#readyAtMs = :readyAt',
        remove: 'REMOVE #firstReadyAtMs',
        values: { ':readyAt': readyAtMs },
      }
    : {
        set: '#readyAtMs = :readyAt, #firstReadyAtMs = :firstReadyAt',
        remove: '',
        values: { ':readyAt': readyAtMs, ':firstReadyAt': firstReadyAtMs },
      };

export const deadStanding = (job: JobHead, failedAtMs: number): Standing => ({
  line: deadLineName(job.partition),
  rank: latestFirstRank(failedAtMs, job.id),
});

/** Returns the clauses that put a finished job into its list, if its type has one. */
export const finishedClause = (
  job: MovingJob,
  state: FinishedState,
  finishedAtMs: number,
): { readonly set: string; readonly values: Item } =>
  job.listFinished === true
    ? {
        set: ', #line = :line, #rank = :rank',
        values: standingValues({
          line: finishedLineName(job.partition, state, job.type),
          rank: latestFirstRank(finishedAtMs, job.id),
        }),
      }
    : { set: '', values: {} };

/**
 * Returns the parts of an update that changes a control. It requires that the named parts have the revisions in `seen`,
 * and completes a missing item. Each part of a control has its own revision and its own list of changes, so changes of
 * different parts do not conflict.
 *
 * @param changes - the changes of each part that the control has afterwards
 */
export function controlUpdate(
  change: ControlChange,
  seen: Item,
  changes: readonly ControlEntry[],
): {
  readonly sets: readonly string[];
  readonly removes: readonly string[];
  readonly conditions: readonly string[];
  readonly values: Item;
} {
  const sets = [
    '#scope = :scope',
    '#callId = :callId',
    `#paused = ${change.paused === undefined ? 'if_not_exists(#paused, :paused)' : ':paused'}`,
  ];
  const removes: string[] = [];
  const conditions: string[] = [];
  const values: Record<string, unknown> = { ':paused': change.paused ?? false };
  for (const field of CONTROL_FIELDS) {
    if (change[field] === undefined) continue;
    const revision = `${field}Revision` as const;
    const was = seen[ATTRIBUTE[revision]];
    conditions.push(was === undefined ? `attribute_not_exists(#${revision})` : `#${revision} = :${revision}`);
    if (was !== undefined) values[`:${revision}`] = was;
    sets.push(`#${revision} = :${revision}Next`);
    values[`:${revision}Next`] = typeof was === 'number' ? was + 1 : 1;
    const packed = encodeChanges(changes, field);
    if (packed === undefined) continue;
    sets.push(`#${field}Changes = :${field}Changes`);
    values[`:${field}Changes`] = packed;
  }
  for (const name of ['maxConcurrency', 'weight'] as const) {
    const to = change[name];
    if (to === null) removes.push(`#${name}`);
    else if (to !== undefined) {
      sets.push(`#${name} = :${name}`);
      values[`:${name}`] = to;
    }
  }
  return { sets, removes, conditions, values };
}
