/** Bugs of schedules that are planted as changes of the sources. */
import { always, at, becomes, change, dropped, never, within } from './mutation.ts';
import { byTest, type Planted } from './planted-bug.ts';

const FIRING = 'test/schedules/firing.test.ts';
const KEPT = 'test/schedules/firing-kept.test.ts';
const LONG = 'test/schedules/firing-long-jobs.test.ts';
const REQUEST = 'test/schedules/request.test.ts';
const WORLD = { test: 'test/simulation/schedules.test.ts', name: 'schedules lose no firing' } as const;
const WIDE_WORLD = { test: 'test/simulation/schedules.test.ts', name: 'schedules beside jobs' } as const;

export const SCHEDULE_CHANGES: Readonly<Record<string, Planted>> = {
  'next-from-now': {
    removes: 'the last firing as what the next one follows: it is computed from the moment of the look',
    foundBy: WORLD,
    changes: [
      change(at('next-from-now'), becomes('nowMs')),
      change(at('next-from-now-2'), becomes('$1(nowMs)'), 'CallExpression'),
    ],
  },
  'unfenced-firing': {
    removes: 'the revision that fences a firing: jobs are made by whoever lost the race, too',
    foundBy: WORLD,
    changes: [
      change(
        within(
          () => import('../../lib/dispatch/pass/firing.ts'),
          (m) => m.saveState,
        ),
        always,
        'ConditionalExpression',
      ),
    ],
  },
  'unmoved-entry': {
    removes: "the move of a schedule's entry in the due line",
    foundBy: { test: FIRING, name: 'wakes its partition for its next firing' },
    changes: [change(at('unmoved-entry'), becomes('state.dueMs ?? $'), 'Property', 2)],
  },
  'misfires-one-more': {
    removes: 'one from the bound on what is made up for',
    foundBy: { test: FIRING, name: 'firings that were missed' },
    changes: [change(at('misfires-one-more'), becomes('$ + 1'), 'Identifier', 6)],
  },
  'wrong-job-runs': {
    removes: "which of a schedule's jobs it is that still runs",
    foundBy: WIDE_WORLD,
    changes: [change(at('wrong-job-runs'), becomes('$1[0]'), 'MemberExpression', 3)],
  },
  'paused-fires': {
    removes: 'the pause: a paused schedule keeps its place in the line, and is looked at',
    foundBy: { test: FIRING, name: 'fires nothing while it is paused' },
    changes: [
      change(at('paused-fires'), dropped, 'Property'),
      change(at('paused-fires-2'), dropped, 'BinaryExpression'),
      change(at('paused-fires-3'), dropped),
    ],
  },
  'declared-takes-all': {
    removes: 'who owns a schedule: a deployment removes one that was made at run time',
    foundBy: { test: FIRING, name: 'is not another owner' },
    changes: [change(at('declared-takes-all'), dropped)],
  },
  'gap-swapped': {
    removes: 'what is asked for of a local time that is skipped: the policies are swapped',
    foundBy: byTest('core/schedule', 'where the clock is set forward'),
    changes: [change(at('gap-swapped'), becomes("$1 === 'skip'"), 'BinaryExpression')],
  },
  'random-jitter': {
    removes: 'the determinism of jitter',
    foundBy: { test: FIRING, name: 'is later by its jitter' },
    changes: [change(at('random-jitter'), becomes('Math.floor(Math.random() * $2)'), 'BinaryExpression', 2)],
  },
  'run-now-moves': {
    removes: 'the next firing, once somebody has asked for a job: that takes its place',
    foundBy: { test: FIRING, name: 'makes a job at once when somebody asks' },
    changes: [change(at('run-now-moves'), becomes('$, dealtMs: state.nextMs ?? state.dealtMs'))],
  },
  'new-id-each-try': {
    removes: "the firing's instant as what its job is named by: whoever completes it later makes another job",
    foundBy: { test: FIRING, name: 'any call loses no firing, and doubles none' },
    changes: [change(at('new-id-each-try'), becomes('$ + Math.random()'), 'CallExpression', 2)],
  },
  'uncompleted-change': {
    removes: 'the completion of what was decided, by whoever changes the schedule',
    foundBy: { test: FIRING, name: 'a firing takes place exactly if it was decided' },
    changes: [change(at('uncompleted-change'), never)],
  },
  'replaced-goes-on': {
    removes: 'the end of the job that is replaced, which `fairlead simulate` shows',
    foundBy: byTest('cli/product', 'does with fires that overlap as the policy says'),
    changes: [change(at('replaced-goes-on'), becomes('$.slice(1)'), 'CallExpression')],
  },
  'forgotten-open': {
    removes: 'firings whose jobs still run, once the history has no room for them',
    foundBy: byTest('schedules/firing-long-jobs', 'has no second job beside it, if it is to skip'),
    changes: [
      change(
        within(
          () => import('../../lib/core/recurring.ts'),
          (m) => m.withEntries,
        ),
        always,
        'IfStatement',
      ),
      change(at('forgotten-open'), becomes('[]'), 'CallExpression'),
    ],
  },
  'replaced-once-only': {
    removes: 'the note of what is replaced: who completes a decision of a dead process replaces nothing',
    foundBy: byTest('schedules/firing-long-jobs', 'asks for the end of the old one although whoever decided'),
    changes: [
      change(
        at('replaced-once-only'),
        becomes('{ ...$, state: { ...$.state, isReplacing: undefined } }'),
        'Identifier',
        7,
      ),
    ],
  },
  'unheard-by-the-schedule': {
    removes: 'what waits for the end of a job, which `fairlead simulate` shows',
    foundBy: byTest('cli/product', 'does with fires that overlap as the policy says'),
    changes: [change(at('unheard-by-the-schedule'), never)],
  },
  'met-for-ever': {
    removes: 'the way of a schedule that cannot be read out of its line',
    foundBy: { test: FIRING, name: 'is met by one pass' },
    changes: [change(at('met-for-ever'), dropped)],
  },
  'expired-runs-on': {
    removes: 'the end of a job whose record has expired: it counts as running for ever',
    foundBy: { test: KEPT, name: 'takes a job whose record has expired' },
    changes: [change(at('expired-runs-on'), becomes('!$1 || $2'), 'LogicalExpression', 2)],
  },
  'replaces-itself': {
    removes: 'which jobs are new: who completes a decision of a dead process ends the one that it made',
    foundBy: { test: LONG, name: 'leaves the new one alone' },
    changes: [
      change(
        within(
          () => import('../../lib/core/recurring.ts'),
          (m) => m.replacedBy,
        ),
        always,
        'ArrowFunctionExpression',
      ),
    ],
  },
  'pause-keeps-waiting': {
    removes: 'the end of what waits, when a schedule is paused: it is made up for when that goes on',
    foundBy: { test: FIRING, name: 'when a pause takes away' },
    changes: [change(at('pause-keeps-waiting'), becomes('$, queuedMs'), 'SpreadElement')],
  },
  'resumed-unheard': {
    removes: 'the wake of a schedule that was resumed: what is due before the next tick waits for that',
    foundBy: { test: FIRING, name: 'also once it is resumed' },
    changes: [change(at('resumed-unheard'), dropped)],
  },
  'waits-in-every-pass': {
    removes: 'the next look at what waits for the end of a job: every pass looks at it',
    foundBy: { test: FIRING, name: 'is looked at once a minute meanwhile' },
    changes: [change(at('waits-in-every-pass'), never, 'ConditionalExpression')],
  },
  'waits-for-the-hint': {
    removes: 'the look at what waits for the end of a job, should the hint of that be lost',
    foundBy: { test: FIRING, name: 'is looked at once a minute meanwhile' },
    changes: [change(at('waits-for-the-hint'), becomes('$1 + 1_000 * $2'), 'BinaryExpression', 2)],
  },
  'full-as-made': {
    removes: 'what the history says of a firing that maxWaiting refused',
    foundBy: { test: FIRING, name: 'makes no job, and the history says so, until there is room' },
    changes: [change(at('full-as-made'), becomes('[]'))],
  },
  'asked-for-nowhere': {
    removes: 'the place of a paused schedule whose job somebody asks for: nobody completes it',
    foundBy: { test: FIRING, name: 'although whoever asks dies on the way' },
    changes: [change(at('asked-for-nowhere'), becomes('$1'))],
  },
  'jitter-forgotten-by-ends': {
    removes: 'jitter, where the end of a job makes somebody look',
    foundBy: { test: FIRING, name: 'is not decided before it is due' },
    changes: [change(at('jitter-forgotten-by-ends'), becomes('$1'), 'BinaryExpression')],
  },
  'rounds-from-the-front': {
    removes: 'where a round of firings goes on: each reads the first ones again',
    foundBy: { test: KEPT, name: 'fire in one pass, although the index' },
    changes: [change(at('rounds-from-the-front'), dropped)],
  },
  'late-as-the-last': {
    removes: 'which attempt says how late a job was',
    foundBy: { test: FIRING, name: 'are as late as their first attempt' },
    changes: [change(at('late-as-the-last'), becomes('$2'))],
  },
  'stopped-by-the-old': {
    removes: 'who may stop a schedule whose type it does not know',
    foundBy: { test: FIRING, name: 'stops no schedule whose type is new' },
    changes: [change(at('stopped-by-the-old'), never)],
  },
  'outgrown-template': {
    removes: 'the bound on what a template becomes',
    foundBy: { test: REQUEST, name: 'a template that outgrows a payload' },
    changes: [change(at('outgrown-template'), always)],
  },
  'name-taken-unseen': {
    removes: 'the refusal of a name that was taken while the deployment ran',
    foundBy: byTest('deploy/declared-schedules', 'fails where somebody takes a name'),
    changes: [change(at('name-taken-unseen'), dropped)],
  },
  'never-fires-in-simulate': {
    removes: 'the refusal of 30 February in a scenario',
    foundBy: byTest('cli/simulate-schedules', '30 February'),
    changes: [change(at('never-fires-in-simulate'), never)],
  },
  'home-unwoken': {
    removes: 'the wake of the partition in which a schedule made a job that lives elsewhere',
    foundBy: { test: KEPT, name: 'makes its job there, and wakes it' },
    changes: [change(at('home-unwoken'), dropped)],
  },
  'counts-from-its-making': {
    removes: 'the start as what an interval counts from',
    foundBy: { test: FIRING, name: 'counts an interval from its start' },
    changes: [change(at('counts-from-its-making'), becomes('$2'), 'Property', 3)],
  },
};
