/** Bugs of schedules that are planted as changes of the sources. */
import type { Planted } from './planted-bug.ts';

const FIRING = 'test/dispatch/firing.test.ts';
const KEPT = 'test/dispatch/firing-kept.test.ts';
const LONG = 'test/dispatch/firing-long-jobs.test.ts';
const REQUEST = 'test/dispatch/schedule-request.test.ts';
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
  'expired-runs-on': {
    removes: 'the end of a job whose record has expired: it counts as running for ever',
    foundBy: { test: KEPT, name: 'takes a job whose record has expired' },
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: "(entry.jobState !== 'gone' && !isTerminal(entry.jobState))",
        to: "(entry.jobState === 'gone' || !isTerminal(entry.jobState))",
      },
    ],
  },
  'replaces-itself': {
    removes: 'which jobs are new: who completes a decision of a dead process ends the one that it made',
    foundBy: { test: LONG, name: 'leaves the new one alone' },
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: '.filter((firing) => !isMaking.has(firingKey(firing)))',
        to: '',
      },
    ],
  },
  'pause-keeps-waiting': {
    removes: 'the end of what waits, when a schedule is paused: it is made up for when that goes on',
    foundBy: { test: FIRING, name: 'when a pause takes away' },
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: 'const { dueMs: _, queuedMs, ...rest } = record.state;',
        to: 'const { dueMs: _, ...rest } = record.state;\n  const { queuedMs } = rest;',
      },
    ],
  },
  'resumed-unheard': {
    removes: 'the wake of a schedule that was resumed: what is due before the next tick waits for that',
    foundBy: { test: FIRING, name: 'also once it is resumed' },
    changes: [
      {
        file: 'lib/dispatch/schedules.ts',
        from: 'if (steeredTo !== undefined) await wake(context, steeredTo);',
        to: '',
      },
    ],
  },
  'waits-in-every-pass': {
    removes: 'the next look at what waits for the end of a job: every pass looks at it',
    foundBy: { test: FIRING, name: 'is looked at once a minute meanwhile' },
    changes: [
      {
        file: 'lib/dispatch/firing.ts',
        from: 'record: isDue\n          ?',
        to: 'record: isDue && nowMs < 0\n          ?',
      },
    ],
  },
  'waits-for-the-hint': {
    removes: 'the look at what waits for the end of a job, should the hint of that be lost',
    foundBy: { test: FIRING, name: 'is looked at once a minute meanwhile' },
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: '[nowMs + QUEUED_LOOK_MS]',
        to: '[nowMs + 1_000 * QUEUED_LOOK_MS]',
      },
    ],
  },
  'asked-for-nowhere': {
    removes: 'the place of a paused schedule whose job somebody asks for: nobody completes it',
    foundBy: { test: FIRING, name: 'although whoever asks dies on the way' },
    changes: [
      { file: 'lib/dispatch/schedules.ts', from: 'dueMs: state.dueMs ?? atMs,', to: 'dueMs: state.dueMs,' },
    ],
  },
  'jitter-forgotten-by-ends': {
    removes: 'jitter, where the end of a job makes somebody look',
    foundBy: { test: FIRING, name: 'is not decided before it is due' },
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: 'dueFirings(spec, state, fires, nowMs - jitterMs)',
        to: 'dueFirings(spec, state, fires, nowMs)',
      },
    ],
  },
  'rounds-from-the-front': {
    removes: 'where a round of firings goes on: each reads the first ones again',
    foundBy: { test: KEPT, name: 'fire in one pass, although the index' },
    changes: [{ file: 'lib/dispatch/firing.ts', from: '      after: next,\n', to: '' }],
  },
  'late-as-the-last': {
    removes: 'which attempt says how late a job was',
    foundBy: { test: FIRING, name: 'are as late as their first attempt' },
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: "history?.entries.find((entry) => entry.kind === 'attempt')?.startedAtMs ?? startedAtMs",
        to: 'startedAtMs ?? history?.entries.length',
      },
    ],
  },
  'stopped-by-the-old': {
    removes: 'who may stop a schedule whose type it does not know',
    foundBy: { test: FIRING, name: 'stops no schedule whose type is new' },
    changes: [
      {
        file: 'lib/dispatch/firing.ts',
        from: 'if (!isNewest) return { jobs: [], record: read };',
        to: 'if (!isNewest && nowMs < 0) return { jobs: [], record: read };',
      },
    ],
  },
  'outgrown-template': {
    removes: 'the bound on what a template becomes',
    foundBy: { test: REQUEST, name: 'a template that outgrows a payload' },
    changes: [
      {
        file: 'lib/dispatch/schedule-request.ts',
        from: 'if (size <= REQUEST_LIMITS.payloadBytes) return undefined;\n  return refused(\n    field,\n    `has up to',
        to: 'if (size > 0) return undefined;\n  return refused(\n    field,\n    `has up to',
      },
    ],
  },
  'name-taken-unseen': {
    removes: 'the refusal of a name that was taken while the deployment ran',
    foundBy: { test: 'test/dispatch/declared-schedules.test.ts', name: 'fails where somebody takes a name' },
    changes: [
      {
        file: 'lib/dispatch/declared-schedules.ts',
        from: 'if (first !== undefined) throw nameTaken(first);',
        to: 'if (first === null) throw nameTaken(first);',
      },
    ],
  },
  'never-fires-in-simulate': {
    removes: 'the refusal of 30 February in a scenario',
    foundBy: { test: 'test/cli/simulate-schedules.test.ts', name: '30 February' },
    changes: [
      {
        file: 'lib/simulate/product.ts',
        from: 'if (fires.next(this.#startsAtMs - 1) === undefined)',
        to: 'if (fires.next(this.#startsAtMs - 1) === null)',
      },
    ],
  },
  'home-unwoken': {
    removes: 'the wake of the partition in which a schedule made a job that lives elsewhere',
    foundBy: { test: KEPT, name: 'makes its job there, and wakes it' },
    changes: [
      {
        file: 'lib/dispatch/firing.ts',
        from: 'await Promise.all([...elsewhere].map((home) => context.queue.sendWake(home, 0)));',
        to: '',
      },
    ],
  },
  'counts-from-its-making': {
    removes: 'the start as what an interval counts from',
    foundBy: { test: FIRING, name: 'counts an interval from its start' },
    changes: [
      {
        file: 'lib/core/recurring.ts',
        from: 'anchorMs: spec.startMs ?? anchorMs',
        to: 'anchorMs',
      },
    ],
  },
};
