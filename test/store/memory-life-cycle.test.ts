/** The memory store spells its transitions as writes; they are the life cycle's. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import * as lifeCycle from '../../lib/core/life-cycle.ts';
import type { FinishVerdict } from '../../lib/store/contract.ts';
import { claimed, ended, promoted, started } from '../../lib/store/memory/transitions.ts';
import { aClaimRequest } from '../fixtures/factories/claim-request.ts';
import { aJob, aScheduledJob, NOW_MS } from '../fixtures/factories/job.ts';

const WORKER = { workerId: 'w', incarnation: 'i' };

/** Fields that are undefined are not there. */
const present = (job: Job): object => JSON.parse(JSON.stringify(job)) as object;

function moved(transition: lifeCycle.Transition): object {
  if (transition.kind === 'refused') throw new Error(JSON.stringify(transition.refusal));
  return present(transition.job);
}

const pending = aJob();
const request = aClaimRequest(pending);
const won = claimed(pending, request);
const running = started(won, { ...WORKER, jobId: won.id, claimId: request.claimId, nowMs: NOW_MS });
const retry: FinishVerdict = { kind: 'retry', error: { name: 'E', message: 'no' }, runAtMs: NOW_MS + 9 };
const VERDICTS: readonly FinishVerdict[] = [
  { kind: 'succeeded', result: { n: 1 } },
  { kind: 'failed', error: { name: 'E', message: 'no' } },
  { kind: 'cancelled' },
  retry,
];

describe('the memory store', () => {
  it('promotes as the life cycle does', () => {
    const due = aScheduledJob(NOW_MS);
    expect(present(promoted(due))).toEqual(moved(lifeCycle.promote(due, NOW_MS)));
  });

  it('claims as the life cycle does, a job that was tried before too', () => {
    const { jobId: _, version: __, ...claim } = request;
    const again = { ...ended(running, retry, NOW_MS, false), state: 'pending' as const, version: 1 };
    for (const job of [pending, again]) {
      expect(present(claimed(job, request))).toEqual(moved(lifeCycle.claim(job, claim, job.version)));
    }
  });

  it('starts as the life cycle does', () => {
    expect(present(running)).toEqual(moved(lifeCycle.start(won, request.claimId, WORKER, NOW_MS)));
  });

  it.each(VERDICTS)('ends an attempt as the life cycle does: $kind', (verdict) => {
    expect(present(ended(running, verdict, NOW_MS, false))).toEqual(
      moved(lifeCycle.finish(running, request.claimId, WORKER, verdict, NOW_MS)),
    );
  });

  it.each(VERDICTS)('takes an attempt from a lost worker as the life cycle does: $kind', (verdict) => {
    expect(present(ended(running, verdict, NOW_MS, true))).toEqual(
      moved(lifeCycle.loseWorker(running, request.claimId, verdict, NOW_MS)),
    );
  });
});
