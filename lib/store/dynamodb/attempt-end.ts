/** The update that ends an attempt. */

import { type JobError, type JobState, type MovingJob, withoutStack } from '../../core/job.ts';
import { type Verdict, withReadyAt } from '../../core/life-cycle.ts';
import type { Item } from '../table/codec/attributes.ts';
import { encodeJson, ttlSec } from '../table/codec/cells.ts';
import { encodeError } from '../table/codec/job.ts';
import type { Update } from './connection.ts';
import {
  deadStanding,
  dueStanding,
  finishedClause,
  readyChange,
  standingValues,
  stateValues,
} from './expressions.ts';

/** A verdict as it is written. If a cancellation was requested, it replaces a retry, and keeps the retry's error. */
export type WrittenVerdict =
  | Exclude<Verdict, { readonly kind: 'cancelled' }>
  | { readonly kind: 'cancelled'; readonly error?: JobError | undefined };

export const stateAfter = (verdict: WrittenVerdict): JobState =>
  verdict.kind === 'retry' ? 'scheduled' : verdict.kind;

/** Returns the update of a running job for a verdict. */
export function endOf(
  running: MovingJob,
  verdict: WrittenVerdict,
  countClause: string,
  values: Item,
  attempt: number,
  nowMs: number,
  expiresAtMs: number,
): Pick<Update, 'update' | 'values'> {
  const state = stateAfter(verdict);
  const common = { ...values, ...stateValues(state), ':now': nowMs };
  const terminal = { ...common, ':ttl': ttlSec(expiresAtMs) };
  switch (verdict.kind) {
    case 'succeeded': {
      const listed = finishedClause(running, 'succeeded', nowMs);
      return {
        update: `SET #state = :succeeded, ${countClause}, #finishedAtMs = :now, #ttl = :ttl, #result = :result${listed.set}
          REMOVE #error, #hung`,
        values: { ...terminal, ':result': encodeJson(verdict.result), ...listed.values },
      };
    }
    case 'failed':
      return {
        update: `SET #state = :failed, ${countClause}, #finishedAtMs = :now, #ttl = :ttl, #error = :error,
          #line = :line, #rank = :rank REMOVE #hung`,
        values: {
          ...terminal,
          ':error': encodeError(verdict.error),
          ...standingValues(deadStanding(running, nowMs)),
        },
      };
    case 'cancelled': {
      const listed = finishedClause(running, 'cancelled', nowMs);
      const update = `SET #state = :cancelled, ${countClause}, #finishedAtMs = :now, #ttl = :ttl${listed.set}`;
      const values = { ...terminal, ...listed.values };
      if (verdict.error === undefined) return { update: `${update} REMOVE #hung`, values };
      return {
        update: `${update}, #error = :error REMOVE #hung`,
        values: { ...values, ':error': encodeError(withoutStack(verdict.error)) },
      };
    }
    // The claim stays until the next one: settlement needs it to know which attempt ended, and when.
    case 'retry':
      return again(running, verdict, countClause, { ...common, ':attempt': attempt });
  }
}

/** Returns the update of a running job that runs again. */
function again(
  running: MovingJob,
  verdict: Extract<WrittenVerdict, { readonly kind: 'retry' }>,
  countClause: string,
  values: Item,
): Pick<Update, 'update' | 'values'> {
  const isLost = values[':attempt'] === running.attempt;
  const ready = isLost ? undefined : readyChange(withReadyAt(running, verdict.runAtMs));
  const removed = [
    '#hung',
    ...(ready === undefined || ready.remove === '' ? [] : ['#firstReadyAtMs']),
    ...(verdict.isFromStart === true ? ['#checkpoint'] : []),
    ...(verdict.error === undefined ? ['#error'] : []),
  ];
  const sets = [
    ...(ready === undefined ? [] : [ready.set]),
    ...(verdict.error === undefined ? [] : ['#error = :error']),
    ...(verdict.parkedState === undefined ? [] : ['#parkedState = :parkedState']),
  ];
  return {
    update: `SET #state = :scheduled, ${countClause}, #attempt = :attempt, #runAtMs = :runAt, #finishedAtMs = :now,
      ${['#line = :line, #rank = :rank', ...sets].join(', ')} REMOVE ${removed.join(', ')}`,
    values: {
      ...values,
      ...ready?.values,
      ':runAt': verdict.runAtMs,
      // The stack is in the history, together with the attempt.
      ...(verdict.error === undefined ? {} : { ':error': encodeError(withoutStack(verdict.error)) }),
      ...(verdict.parkedState === undefined ? {} : { ':parkedState': encodeJson(verdict.parkedState) }),
      ...standingValues(dueStanding(running, verdict.runAtMs)),
    },
  };
}
