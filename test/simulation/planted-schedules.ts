/** Bugs of schedules that are planted as changes of the sources. */
import type { Planted } from './planted-bug.ts';

const FIRING = 'test/dispatch/firing.test.ts';
const WORLD = { test: 'test/simulation/schedules.test.ts', name: 'schedules lose no firing' } as const;
const WIDE_WORLD = { test: 'test/simulation/schedules.test.ts', name: 'schedules beside jobs' } as const;

export const SCHEDULE_CHANGES: Readonly<Record<string, Planted>> = {
  'next-from-now': {
    removes: 'the last firing as what the next one follows: it is computed from the moment of the look',
    foundBy: WORLD,
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: 'dealtMs: due.dealtMs,\n    nextMs: fires.next(due.dealtMs),',
        to: 'dealtMs: nowMs,\n    nextMs: fires.next(nowMs),',
      },
    ],
  },
  'unfenced-firing': {
    removes: 'the revision that fences a firing: jobs are made by whoever lost the race, too',
    foundBy: WORLD,
    changes: [
      {
        file: 'lib/dispatch/firing.ts',
        from: "return outcome === 'applied' ? { spec, state } : undefined;",
        to: 'return outcome ? { spec, state } : undefined;',
      },
    ],
  },
  'unmoved-entry': {
    removes: "the move of a schedule's entry in the due line",
    foundBy: { test: FIRING, name: 'wakes its partition for its next firing' },
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: '{ ...rest, dueMs: Math.min(...looks) }',
        to: '{ ...rest, dueMs: state.dueMs ?? Math.min(...looks) }',
      },
    ],
  },
  'misfires-one-more': {
    removes: 'one from the bound on what is made up for',
    foundBy: { test: FIRING, name: 'firings that were missed' },
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: 'firingsIn(fires, afterMs, lastMs, misfireMax)',
        to: 'firingsIn(fires, afterMs, lastMs, misfireMax + 1)',
      },
    ],
  },
  'wrong-job-runs': {
    removes: "which of a schedule's jobs it is that still runs",
    foundBy: WIDE_WORLD,
    changes: [
      {
        file: 'lib/dispatch/firing.ts',
        from: '[[firingKey(firing), jobs[at]] as const]',
        to: '[[firingKey(firing), jobs[0]] as const]',
      },
    ],
  },
  'paused-fires': {
    removes: 'the pause: a paused schedule keeps its place in the line, and is looked at',
    foundBy: { test: FIRING, name: 'fires nothing while it is paused' },
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: 'const { dueMs: _, queuedMs, ...rest } = record.state;',
        to: 'const { queuedMs, ...rest } = record.state;',
      },
      {
        file: 'lib/core/recurring.ts',
        from: 'if (state.stopped !== undefined || state.making !== undefined)',
        to: 'if (state.making !== undefined)',
      },
      {
        file: 'lib/dispatch/firing.ts',
        from: 'if (read.state.stopped !== undefined) return { jobs: [], record: read };',
        to: '',
      },
    ],
  },
  'declared-takes-all': {
    removes: 'who owns a schedule: a deployment removes one that was made at run time',
    foundBy: { test: FIRING, name: 'is not another owner' },
    changes: [
      {
        file: 'lib/dispatch/schedules.ts',
        from: "if (read.state.isDeclared !== isDeclared) return { answer: 'owned' };",
        to: '',
      },
    ],
  },
  'gap-swapped': {
    removes: 'what is asked for of a local time that is skipped: the policies are swapped',
    foundBy: { test: 'test/core/schedule.test.ts', name: 'where the clock is set forward' },
    changes: [
      {
        file: 'lib/core/schedule.ts',
        from: "if (gap === 'next' && startMs",
        to: "if (gap === 'skip' && startMs",
      },
    ],
  },
  'random-jitter': {
    removes: 'the determinism of jitter',
    foundBy: { test: FIRING, name: 'is later by its jitter' },
    changes: [
      {
        file: 'lib/core/schedule.ts',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the source's own
        from: 'hashText(`jitter/${scheduleId}`) % (jitterMs + 1);',
        to: 'Math.floor(Math.random() * (jitterMs + 1)) + 0 * scheduleId.length;',
      },
    ],
  },
  'run-now-moves': {
    removes: 'the next firing, once somebody has asked for a job: that takes its place',
    foundBy: { test: FIRING, name: 'makes a job at once when somebody asks' },
    changes: [
      {
        file: 'lib/dispatch/schedules.ts',
        from: 'making: [firing],',
        to: 'making: [firing],\n      dealtMs: state.nextMs ?? state.dealtMs,',
      },
    ],
  },
  'new-id-each-try': {
    removes: "the firing's instant as what its job is named by: whoever completes it later makes another job",
    foundBy: { test: FIRING, name: 'any call loses no firing, and doubles none' },
    changes: [
      {
        file: 'lib/dispatch/firing.ts',
        from: '...jobFrom(request, firingJobId(state.id, firing), partition, context.nowMs()),',
        // biome-ignore lint/suspicious/noTemplateCurlyInString: the source's own
        to: '...jobFrom(request, `${firingJobId(state.id, firing)}${context.nowMs()}`, partition, context.nowMs()),',
      },
    ],
  },
  'uncompleted-change': {
    removes: 'the completion of what was decided, by whoever changes the schedule',
    foundBy: { test: FIRING, name: 'a firing takes place exactly if it was decided' },
    changes: [
      {
        file: 'lib/dispatch/schedules.ts',
        from: 'if (read?.state.making !== undefined) {',
        to: 'if (read?.state.making === null) {',
      },
    ],
  },
  'replaced-goes-on': {
    removes: 'the end of the job that is replaced, which `fairlead simulate` shows',
    foundBy: { test: 'test/cli/product.test.ts', name: 'does with fires that overlap as the policy says' },
    changes: [
      {
        file: 'lib/dispatch/firing.ts',
        from: 'for (const firing of replacedBy(state))',
        to: 'for (const firing of replacedBy(state).slice(1))',
      },
    ],
  },
  'forgotten-open': {
    removes: 'firings whose jobs still run, once the history has no room for them',
    foundBy: {
      test: 'test/dispatch/firing-long-jobs.test.ts',
      name: 'has no second job beside it, if it is to skip',
    },
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: 'else all[all.length - 1] = { ...last, untilMs: entry.untilMs ?? entry.atMs };',
        to: 'else all.push(entry);',
      },
      {
        file: 'lib/core/recurring.ts',
        from: 'all.slice(0, cut).filter(isOpen).map(firingOf)',
        to: 'all.slice(cut).filter(isOpen).slice(0, 0).map(firingOf)',
      },
    ],
  },
  'replaced-once-only': {
    removes: 'the note of what is replaced: who completes a decision of a dead process replaces nothing',
    foundBy: {
      test: 'test/dispatch/firing-long-jobs.test.ts',
      name: 'asks for the end of the old one although whoever decided it died before',
    },
    changes: [
      {
        file: 'lib/dispatch/firing.ts',
        from: 'if (read.state.making !== undefined) return complete(context, read);',
        to: 'if (read.state.making !== undefined) return complete(context, { ...read, state: { ...read.state, isReplacing: undefined } });',
      },
    ],
  },
  'unheard-end': {
    removes: 'what waits for the end of a job, which `fairlead simulate` shows',
    foundBy: { test: 'test/cli/product.test.ts', name: 'does with fires that overlap as the policy says' },
    changes: [
      {
        file: 'lib/dispatch/firing.ts',
        from: 'const waits = state.queuedMs !== undefined;',
        to: 'const waits = state.queuedMs === null;',
      },
    ],
  },
  'met-for-ever': {
    removes: 'the way of a schedule that cannot be read out of its line',
    foundBy: { test: FIRING, name: 'is met by one pass' },
    changes: [
      {
        file: 'lib/store/memory/schedules.ts',
        from: 'this.#setAside(entry, entry.damage);',
        to: '',
      },
    ],
  },
};
