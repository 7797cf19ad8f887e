/** Bugs that are planted as changes of the sources: about what starts next, and whether anything does. */
import { always, at, becomes, change, compared, dropped, never, within } from './mutation.ts';
import type { Planted } from './planted-bug.ts';
import { COMMIT_CHANGES } from './planted-commits.ts';
import { SCHEDULE_CHANGES } from './planted-schedules.ts';
import { SMALL_PRINT_CHANGES } from './planted-small-print.ts';

/** Of `small-runs.ts`. */
const REDEPLOYED =
  'another conflict group, another fleet and another timeout, while jobs run, wait and are parked';

export const CHANGED: Readonly<Record<string, Planted>> = {
  ...COMMIT_CHANGES,
  ...SCHEDULE_CHANGES,
  ...SMALL_PRINT_CHANGES,
  'dropped-hint': {
    removes: 'what a hint told from what is cached, where its job does not start in the pass that heard it',
    foundBy: { differential: 9, kind: 'order' },
    changes: [
      {
        file: 'lib/dispatch/line-images.ts',
        from: 'lines.heads.set(name, withChanges(known, changed, coming, compare));',
        to: '',
      },
      {
        file: 'lib/dispatch/candidates.ts',
        from: 'const { heads, recent } = this.#input.cached;',
        to: 'const { heads, recent } = this.#input.cached; recent.clear();',
      },
    ],
  },
  'changed-since-told': {
    removes:
      'the new place of a job in its line, where a read shows that it has changed since a hint told of it',
    foundBy: {
      test: 'test/dispatch/hints.test.ts',
      name: 'has a job where it stands now, if a read shows that it has changed since it was told of',
    },
    changes: [change(at('changed-since-told'), dropped)],
  },
  'ends-taken-for-others': {
    removes:
      'the version of an end that went straight from what was admitted: a job that waits again stays after its end',
    foundBy: {
      test: 'test/dispatch/hints.test.ts',
      name: 'forgets a job with its end, also where it waited anew after it was admitted',
    },
    changes: [change(at('ends-taken-for-others'), compared('>='), 'BinaryExpression', 2)],
  },
  'read-beside-admission': {
    removes:
      'the look at all that was read while jobs were admitted: what shows them still is remembered as waiting',
    foundBy: { simulation: 7137 },
    changes: [
      {
        file: 'lib/dispatch/candidates.ts',
        from: 'const kept = this.#read.has(name) ? rest.filter(({ id }) => !this.#forgotten.has(id)) : rest;',
        to: 'const kept = rest;',
      },
    ],
  },
  'known-from-its-admission': {
    removes: 'the time from its end for which it is known of a job that it does not wait',
    foundBy: {
      test: 'test/dispatch/hints.test.ts',
      name: 'knows for a minute from its end that a job does not wait any more',
    },
    changes: [change(at('known-from-its-admission'), becomes('[]'), 'Identifier', 8)],
  },
  'held-and-forgotten': {
    removes: 'the place of a job that is held still, and that a read shows to wait anew',
    foundBy: {
      test: 'test/dispatch/hints.test.ts',
      name: 'stands in its place once its attempt is settled',
    },
    changes: [
      {
        file: 'lib/dispatch/candidates.ts',
        from: 'rest.filter(({ id }) => !this.#forgotten.has(id))',
        to: 'rest.filter((job) => !this.#isOver(job))',
      },
    ],
  },
  'front-again': {
    removes: 'the way past what a bound left unseen: each plan begins at the front again',
    foundBy: { differential: 4, kind: 'walls' },
    changes: [
      change(at('front-again'), always, 'LogicalExpression'),
      change(at('front-again-2'), never, 'LogicalExpression'),
      change(
        at('front-again-3'),
        becomes('{ ...$, blockedMax: Math.min(BLOCKED_MIN, $.blockedMax), blockedPerConflict: 0 }'),
        'ObjectExpression',
      ),
    ],
  },
  'first-page-of-keys': {
    removes: 'what is behind the first page of a keys line',
    foundBy: {
      test: 'test/dispatch/blocked.test.ts',
      name: 'because each is at its cap keep no other key waiting',
    },
    changes: [change(at('first-page-of-keys'), becomes('undefined'))],
  },
  'untold-losses': {
    removes: 'losses of workers from the histories of jobs',
    foundBy: { simulation: 1 },
    changes: [change(at('untold-losses'), becomes('$1 || !$2'), 'LogicalExpression')],
  },
  'unbounded-marker': {
    removes: 'the bound on what the page says of reservations',
    foundBy: {
      test: 'test/store/bounds.test.ts',
      name: 'stays as small, however many reservations there are',
    },
    changes: [change(at('unbounded-marker'), always)],
  },
  'tiers-in-one-batch': {
    removes: 'the order of tiers in all but the first batch of a pass',
    foundBy: { differential: 1, kind: 'order' },
    changes: [
      change(
        at('tiers-in-one-batch'),
        becomes('this.#gone.size < 2 ? $ : this.#scheduler.index.tiers.length - 1 - $'),
        'Identifier',
        2,
      ),
    ],
  },
  'on-demand-behind': {
    removes: 'the head start of jobs on demand',
    foundBy: { differential: 1, kind: 'order' },
    changes: [change(at('on-demand-behind'), dropped, 'BinaryExpression', 7)],
  },
  'age-of-lost': {
    removes: 'the age of a job that lost its worker',
    foundBy: { simulation: 15 },
    changes: [change(at('age-of-lost'), becomes('readyAgain($, runAtMs)'), 'Identifier', 3)],
  },
  'lines-trusted-for-ever': {
    removes: 'reading again what was found empty: a returning key is seen only if a hint tells of it',
    foundBy: { differential: 15, kind: 'unheard' },
    changes: [
      {
        file: 'lib/dispatch/partition-cache.ts',
        from: 'export const NOTHING_TRUSTED_MS = 5_000;',
        to: 'export const NOTHING_TRUSTED_MS = Infinity;',
      },
      {
        file: 'lib/dispatch/candidates.ts',
        from: 'if (types.length + lines.length === 0) return false;',
        to: 'if (types.length + lines.length >= 0) return false;',
      },
      {
        file: 'lib/dispatch/pass/load.ts',
        from: 'if (input.hasMissed) forgetMissed(cached.lines);',
        to: 'if (input.hasMissed) ;',
      },
    ],
  },
  'quiet-for-ever': {
    removes:
      'looking again where nothing waited: a job whose hint was lost waits until another one of its key comes',
    foundBy: {
      test: 'test/dispatch/quiet.test.ts',
      name: 'is looked at as a whole once a minute, so a job whose hint was lost starts with the first pass after that',
    },
    changes: [
      {
        file: 'lib/dispatch/partition-cache.ts',
        from: 'export const QUIET_TRUSTED_MS = 60_000;',
        to: 'export const QUIET_TRUSTED_MS = 6_000_000;',
      },
    ],
  },
  'quiet-not-taken-back': {
    removes: 'the word of a pass that leaves a job waiting, where it has nothing else to write',
    foundBy: {
      test: 'test/dispatch/quiet.test.ts',
      name: 'says so no more when a pass leaves a job waiting, though that pass has nothing else to write',
    },
    changes: [change(at('quiet-not-taken-back'), never, 'BinaryExpression', 2)],
  },
  'quiet-though-missed': {
    removes: 'the doubt of who finds that word was left, and does not know of what',
    foundBy: {
      test: 'test/dispatch/quiet.test.ts',
      name: 'is looked at once word was left by somebody who was told of a job and had to go',
    },
    changes: [change(at('quiet-though-missed'), dropped, 'UnaryExpression')],
  },
  'quiet-though-the-line-goes-on': {
    removes:
      'the doubt about a line of which more stands behind what was read, where all that was read starts',
    foundBy: {
      test: 'test/dispatch/quiet.test.ts',
      name: 'does not say so when a line goes on behind what was read of it, though all of that starts',
    },
    changes: [change(at('quiet-though-the-line-goes-on'), dropped, 'BinaryExpression', 2)],
  },
  'watched-though-missed': {
    removes:
      'the end of an unbroken watch where something was missed: what is read early then seems to have shown all',
    foundBy: {
      test: 'test/dispatch/quiet.test.ts',
      name: 'is looked at again soon by who missed something, however long it had missed nothing before',
    },
    changes: [
      {
        file: 'lib/dispatch/partition-cache.ts',
        from: `  lines.sinceMs = undefined;
  lines.watchedSinceMs = undefined;
  lines.wholeFromMs = undefined;`,
        to: '  lines.sinceMs = undefined;',
      },
    ],
  },
  'word-of-due-work-unheard': {
    removes: 'what word says that was left because something has become due',
    foundBy: {
      test: 'test/dispatch/lease.test.ts',
      name: 'promotes what is due when word was left of that, and looks up nothing else',
    },
    changes: [
      {
        file: 'lib/dispatch/lease.ts',
        from: 'isOfDueWork: jobs.length < names.length',
        to: 'isOfDueWork: false',
      },
    ],
  },
  'due-work-left-for-good': {
    removes: 'that whoever leaves due work to others is woken again',
    foundBy: {
      test: 'test/dispatch/word-of-due-work.test.ts',
      name: 'is woken again a second later, and finds it done',
    },
    changes: [
      {
        file: 'lib/dispatch/timers.ts',
        from: 'await queue.sendWake(partition, LEFT_FOR_MS, dueAtMs);',
        to: '',
      },
    ],
  },
  'looks-noted-first': {
    removes:
      'the message of a look before its note: one that is noted and was not sent keeps the present one from coming again',
    foundBy: {
      test: 'test/dispatch/worker-looks.test.ts',
      name: 'go on with the message that comes again, where sendLook fails',
    },
    changes: [change(at('looks-noted-first'), becomes('$.catch(() => {})'), 'CallExpression')],
  },
  'looks-of-others-too': {
    removes:
      'what a look at the workers was noted for: each copy of its message goes on by itself, and so do the copies of those',
    foundBy: {
      test: 'test/dispatch/worker-looks.test.ts',
      name: 'do not multiply where each message comes three times, 4000 ms apart',
    },
    changes: [change(at('looks-of-others-too'), becomes('state.lookout === undefined'), 'BinaryExpression')],
  },
  'early-looks-for-ever': {
    removes: 'the second look of who has hints to go by, two seconds after another one has looked early',
    foundBy: {
      test: 'test/dispatch/quiet.test.ts',
      name: 'is not looked at again within two seconds after an early look, and then by who has hints to go by, too',
    },
    changes: [
      {
        file: 'lib/dispatch/partition-cache.ts',
        from: 'return known.isTold !== true || nowMs - known.readAtMs >= EARLY_TRUSTED_MS;',
        to: 'return known.isTold !== true;',
      },
    ],
  },
  'announcements-of-others-last': {
    removes: 'the time of another one’s announcement: whoever meets it trusts it as if it had made it then',
    foundBy: {
      test: 'test/dispatch/submit.test.ts',
      name: 'that somebody else has announced is only looked at, for as long as that announcement holds',
    },
    changes: [change(at('announcements-of-others-last'), becomes('$2'), 'CallExpression', 4)],
  },
  'moved-without-a-mark': {
    removes:
      'what the page says of a reservation that has moved from it to an item: what was settled there counts again',
    foundBy: {
      test: 'test/store/page.test.ts',
      name: 'means what every ledger and every reservation would, each in an item of its own',
    },
    changes: [change(at('moved-without-a-mark'), dropped)],
  },
  guarantees: {
    removes: 'the turn of tiers below their guarantee before all others',
    foundBy: { differential: 11, kind: 'order' },
    changes: [change(at('guarantees'), becomes('[false]'), 'ArrayExpression')],
  },
  'one-page-of-due': {
    removes: 'due work beyond the first page: it is left to the next tick',
    foundBy: { differential: 4, kind: 'time' },
    changes: [change(at('one-page-of-due'), becomes('1')), change(at('one-page-of-due-2'), never)],
  },
  'stale-controls': {
    removes: 'reading caps and pauses again: those of the first pass stay in force',
    foundBy: { differential: 1, kind: 'controls' },
    changes: [change(at('stale-controls'), becomes('(context.caches.controls ??= $)'), 'Property', 2)],
  },
  'parked-by-another': {
    removes: 'looking for jobs that another dispatcher has parked',
    foundBy: { differential: 2, kind: 'conflicts' },
    changes: [change(at('parked-by-another'), becomes('$ || cached.marked.size === 0'))],
  },
  'parked-not-freed': {
    removes: 'the look at what is parked behind a conflict key that a settlement lets go',
    foundBy: { differential: 1, kind: 'conflicts' },
    changes: [change(at('parked-not-freed'), dropped), change(at('parked-not-freed-2'), dropped)],
  },
  'weight-of-flight': {
    removes: 'the weight from what is in flight',
    foundBy: { differential: 12, kind: 'keys' },
    changes: [
      change(at('weight-of-flight'), becomes('$ * this.ledgers.weightOf(key)'), 'MemberExpression', 3),
    ],
  },
  'flight-uncounted': {
    removes: 'what is in flight from the cost of its key',
    foundBy: { differential: 1, kind: 'order' },
    changes: [change(at('weight-of-flight'), becomes('0'), 'MemberExpression', 3)],
  },
  'gone-forgotten': {
    removes: 'a key that has left the page is none of its base',
    foundBy: { test: 'test/store/page.test.ts', name: 'that have left it are not what its base says' },
    changes: [change(at('gone-forgotten'), dropped, 'BinaryExpression')],
  },
  'base-of-a-refused-commit': {
    removes: 'only the base of a commit that was written is known',
    foundBy: {
      test: 'test/integration/ledger-base.test.ts',
      name: 'are those of the commit that counts',
      onEmulator: true,
    },
    changes: [
      change(
        within(
          () => import('../../lib/store/dynamodb/partition.ts'),
          (m) => m.DynamoPartitionStore.prototype.commit,
        ),
        becomes('(turn.base !== undefined && this.#items.knowBase(partition, turn.base), $)'),
        'ConditionalExpression',
      ),
    ],
  },
  'hints-gone': {
    removes: 'the look at everything where hints that word named are gone',
    foundBy: {
      test: 'test/dispatch/left-hints.test.ts',
      name: 'looks everything up where what was left is gone',
    },
    changes: [
      {
        file: 'lib/dispatch/lease.ts',
        from: '? { ...news, isBlank: true, hints: [] }',
        to: '? { ...news, hints: [] }',
      },
    ],
  },
  'no-room-for-names': {
    removes: 'the wait for room for the names of a word',
    foundBy: { test: 'test/dispatch/left-hints.test.ts', name: 'waits until there is room for its names' },
    changes: [
      {
        file: 'lib/dispatch/lease.ts',
        from: 'isToldElsewhere || clock.monotonicMs() < untilMonotonicMs',
        to: 'isToldElsewhere',
      },
    ],
  },
  'given-back-while-it-waits': {
    removes: 'the look at the lease while somebody waits for room for names',
    foundBy: {
      test: 'test/dispatch/left-hints.test.ts',
      name: 'makes the pass itself where the lease is given back',
    },
    changes: [
      {
        file: 'lib/dispatch/lease.ts',
        from: '    const lease = await tryLease(context, partition);\n    if (lease !== undefined) return { ...lease, waited: true };\n',
        to: '',
      },
    ],
  },
  'moved-back': {
    removes: 'keys that move to the front of their line while it is being read: no later page shows them',
    foundBy: { test: 'test/dispatch/moved-back.test.ts', name: 'is read by its name' },
    changes: [change(at('moved-back'), always)],
  },
  'fractions-of-cost': {
    removes: 'whole units of cost: ties on paper are decided by rounding',
    foundBy: { differential: 34, kind: 'order' },
    changes: [
      change(
        within(
          () => import('../../lib/core/fairness.ts'),
          (m) => m.wholeUnits,
        ),
        becomes('costMs'),
      ),
    ],
  },
  'old-images': {
    removes: 'the versions of images: an old one takes the place of what is known',
    foundBy: { differential: 40, kind: 'time' },
    changes: [change(at('old-images'), dropped)],
  },
  'books-after-takeover': {
    removes: 'forgetting the books when another dispatcher held the partition in between',
    foundBy: { differential: 2, kind: 'order' },
    changes: [
      {
        file: 'lib/dispatch/partition-cache.ts',
        from: '(known.epoch === epoch || (!isOpen && known.epoch === epoch - 1));',
        to: 'known.epoch >= 0;',
      },
      {
        file: 'lib/dispatch/partition-cache.ts',
        from: 'if (cache.turn === undefined || cache.turn === turn) return;',
        to: 'if (cache.turn === undefined || turn >= 0) return;',
      },
    ],
  },
  'raises-forgotten': {
    removes: 'raised ledgers from the commit of the pass that raises them',
    foundBy: { differential: 1, kind: 'lifts' },
    changes: [
      {
        file: 'lib/dispatch/pass/admit.ts',
        from: 'ledgerCache.raise(planner.takeRaised(), starts))',
        to: 'ledgerCache.raise(planner.takeRaised(), starts).slice(0, 0))',
      },
    ],
  },
  'lead-unseen': {
    removes: 'the pass that is asked for when a function leads no more, and nobody has come to lead next',
    foundBy: {
      test: 'test/dispatch/lead-for-a-while.test.ts',
      name: 'hears what was left while it gave the lease back',
    },
    changes: [
      {
        file: 'lib/dispatch/lead-for-a-while.ts',
        from: 'if (!(await isSucceeded(context, term, leading.lease))) await queue.sendWake(partition, 0);',
        to: 'await isSucceeded(context, term, leading.lease);',
      },
    ],
  },
  'call-unanswered': {
    removes: 'the pass of whoever a function that has led sends for: that one leaves it to the next, too',
    foundBy: {
      test: 'test/dispatch/lead-for-a-while.test.ts',
      name: 'is followed by a pass of whoever answers its call',
    },
    changes: [
      {
        file: 'lib/dispatch/lease.ts',
        from: 'if (waitsForNext && wasLed',
        to: 'if (wasLed',
      },
    ],
  },
  'pace-owed': {
    removes:
      'the bound of what passes owe that did not keep the pace: the next one waits for all of it, whatever comes',
    foundBy: {
      test: 'test/dispatch/lead-for-a-while.test.ts',
      name: 'uses a slot that is free after a time without as soon as a job comes',
    },
    changes: [
      {
        file: 'lib/dispatch/pace.ts',
        from: 'Math.min(earliestMs, nowMonotonicMs) + PACE_MS',
        to: 'earliestMs + PACE_MS',
      },
    ],
  },
  'lead-alone': {
    removes: 'the competition from what makes a function ask for one that leads: much that goes on is enough',
    foundBy: {
      test: 'test/dispatch/lead-for-a-while.test.ts',
      name: 'nobody where one process makes all passes',
    },
    changes: [
      {
        file: 'lib/dispatch/lead-for-a-while.ts',
        from: 'contended >= Math.max(COUNT_LEASES, CONTENDED_SHARE * own) &&',
        to: '',
      },
    ],
  },
  'trust-from-answer': {
    removes: "the instant of the request from a worker's trust: it counts from the answer",
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'counts from before its first heartbeat was sent',
    },
    changes: [change(at('trust-from-answer'), becomes('instantOf(clock)'), 'Identifier', 4)],
  },
  'trust-before-it-is-written': {
    removes:
      'the wait for the heartbeat that asks for a longer lease: the worker trusts it as soon as it knows',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'counts from before its first heartbeat was sent',
    },
    changes: [
      change(at('trust-from-answer'), becomes('leaseExtensionMs(leaseMs, lease.slowMs)'), 'Identifier', 5),
    ],
  },
  'lease-taken-back': {
    removes:
      'the end that a longer lease was given from the heartbeats that follow: the store does not write them',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'writes what a heartbeat says also while it becomes shorter',
    },
    changes: [change(at('lease-taken-back'), becomes('$3'), 'CallExpression')],
  },
  'open-unfenced': {
    removes: 'the fence before a lease is taken that was given back open',
    foundBy: { test: 'test/contract/memory.test.ts', name: 'before it was taken' },
    changes: [
      {
        file: 'lib/store/memory/lease.ts',
        from: '(present !== undefined || isWriting || isOpen)',
        to: '(present !== undefined || isWriting)',
      },
    ],
  },
  'open-in-parts': {
    removes: 'the rule that a commit without the lease has no reservation beside the page',
    foundBy: { test: 'test/contract/memory.test.ts', name: 'more than the page' },
    changes: [
      {
        file: 'lib/store/memory/partition.ts',
        from: 'commit.isWithoutLease === true && !isSafeInParts(turn, commit)',
        to: 'commit.isWithoutLease === true && turn.reserved.length < 0',
      },
    ],
  },
  'open-memory': {
    removes: 'forgetting what a process remembers when another one made a pass without the lease',
    foundBy: { test: 'test/dispatch/open.test.ts', name: 'what their resource costs' },
    changes: [
      {
        file: 'lib/dispatch/partition-cache.ts',
        from: 'if (cache.turn === undefined || cache.turn === turn) return;',
        to: 'if (turn >= 0) return;',
      },
    ],
  },
  'open-though-waiting': {
    removes: 'the lease from passes that may leave something waiting without telling',
    foundBy: { test: 'test/dispatch/open.test.ts', name: 'takes the lease' },
    changes: [
      {
        file: 'lib/dispatch/pass/load.ts',
        from: 'state.quiet === undefined ||',
        to: '',
      },
      {
        file: 'lib/dispatch/pass/load.ts',
        from: 'state.quiet.declared !== deployed?.version ||',
        to: 'state.quiet?.declared !== deployed?.version ||',
      },
    ],
  },
  'lease-for-a-renewal': {
    removes: 'room for a pass from the lease of a partition while the store is slow: it lasts for a renewal',
    foundBy: { test: 'test/dispatch/slow-store.test.ts', name: 'lets all jobs end: 4000 ms' },
    changes: [
      {
        file: 'lib/core/lease.ts',
        from: 'Math.min(2 * leaseMs, ANSWERS_OF_A_PASS * slowMs)',
        to: 'Math.min(leaseMs, 2 * slowMs)',
      },
    ],
  },
  'credit-unbounded': {
    removes: 'the bound on how far a key may stay below the others',
    foundBy: { test: 'test/core/presence.test.ts', name: 'starves the others for seconds' },
    changes: [
      {
        file: 'lib/core/fairness.ts',
        from: 'const owes = mayOwe &&',
        to: 'const owes = mayOwe && firstMs < 0 &&',
      },
    ],
  },
  'level-with-the-least': {
    removes: 'the place of keys that arrive behind the key with the least share',
    foundBy: { test: 'test/core/presence.test.ts', name: 'holds nobody back' },
    changes: [
      {
        file: 'lib/core/fairness.ts',
        from: 'wholeUnits(leastMs * weight) + UNIT_MS',
        to: 'wholeUnits(leastMs * weight)',
      },
    ],
  },
  'away-by-its-head': {
    removes: 'jobs behind the first of a line from those that show that a key was there',
    foundBy: { test: 'test/dispatch/lifts.test.ts', name: 'while another of its jobs waits' },
    changes: [
      {
        file: 'lib/core/raises.ts',
        from: 'this.#jobsOf.set(line, jobs);',
        to: 'this.#jobsOf.set(line, jobs.slice(0, 1));',
      },
    ],
  },
  'explained-without-raises': {
    removes: 'raised shares from what explain says of the next pass',
    foundBy: { test: 'test/dispatch/explain.test.ts', name: 'is started by' },
    changes: [
      {
        file: 'lib/core/explain.ts',
        from: 'raises.raise(tier, ASK_NOTHING,',
        to: 'void ((..._: unknown[]) => {})(tier, ASK_NOTHING,',
      },
    ],
  },
  'explained-without-due': {
    removes: 'what has become due from what explain says of the next pass',
    foundBy: { test: 'test/dispatch/explain.test.ts', name: 'is started by' },
    changes: [change(at('explained-without-due'), dropped, 'SpreadElement')],
  },
  'explained-without-locks': {
    removes: 'locks of other partitions from what explain says of the next pass',
    foundBy: { test: 'test/dispatch/explain.test.ts', name: 'is started by' },
    changes: [
      change(at('explained-without-locks'), becomes('state.keptBack !== undefined'), 'BinaryExpression', 2),
    ],
  },
  'unknown-claims-lent': {
    removes: 'claims that were not answered from what is held when capacity is lent',
    foundBy: { test: 'test/dispatch/loans.test.ts', name: 'has just filled, be its claims unknown' },
    changes: [
      change(
        at('unknown-claims-lent'),
        becomes("outcome === 'unknown' ? this.#pass.planner.confirm(decision) : $"),
      ),
    ],
  },
  'marks-not-renewed': {
    removes: 'renewing the mark of a blocked line',
    foundBy: { test: 'test/dispatch/parked-lines.test.ts', name: 'their mark outlives a look' },
    changes: [change(at('marks-not-renewed'), becomes('$1 === Infinity'), 'BinaryExpression')],
  },
  'retired-while-parked': {
    removes: 'announcing the lines of jobs that come back from blocked lines',
    foundBy: { test: 'test/dispatch/parked-lines.test.ts', name: 'a line that is retired meanwhile' },
    changes: [change(at('retired-while-parked'), becomes('$4()'), 'CallExpression')],
  },
  'loss-by-own-clock': {
    removes: 'the instant of a loss as its item has it: it is charged by the own clock',
    foundBy: {
      test: 'test/dispatch/recovery.test.ts',
      name: 'whose loss another dispatcher has noted a little earlier',
    },
    changes: [change(at('loss-by-own-clock'), becomes('$2'), 'LogicalExpression')],
  },
  'commit-turn': {
    removes: 'the turn that a commit follows from its condition, in the memory store',
    foundBy: { test: 'test/contract/memory.test.ts', name: 'follows the turn that it knows, once' },
    changes: [change(at('commit-turn'), never)],
  },
  'commit-sequence': {
    removes: 'the turn that a commit follows from its condition, in the table',
    foundBy: {
      test: 'test/integration/commit-sequence.test.ts',
      name: 'is refused, and takes nothing back: a later one, by its turn',
      onEmulator: true,
    },
    changes: [change(at('commit-sequence'), becomes("'(attribute_not_exists(#pk) OR #turn >= :turn)'"))],
  },
  'retired-in-between': {
    removes:
      'an announcement between the two writes that retire one of several lines from the condition of the second',
    foundBy: {
      test: 'test/integration/retire-line.test.ts',
      name: 'is lost to an announcement of queued that comes between',
      onEmulator: true,
    },
    changes: [
      change(
        at('retired-in-between'),
        becomes("$.replace(' AND size(#lines)', ' OR size(#lines)')"),
        'TemplateLiteral',
      ),
    ],
  },
  'retired-with-others': {
    removes: 'that a line is the only one of its key from the condition of the write that takes the key away',
    foundBy: {
      test: 'test/integration/retire-line.test.ts',
      name: 'takes two requests, and leaves the others when nobody comes between',
      onEmulator: true,
    },
    changes: [
      change(at('retired-with-others'), becomes("$.replace('= :one', '>= :one')"), 'TemplateLiteral'),
    ],
  },
  'no-wake-for-due': {
    removes: 'the wakes for work that becomes due before the next tick',
    foundBy: { simulation: 182 },
    changes: [
      {
        file: 'lib/dispatch/dispatch.ts',
        from: `const look =
        trigger.reason === 'tick'
          ? wakeForDueWork(context, partition)
          : trigger.dueAtMs === undefined
            ? wakeFor(context, partition, jobs)
            : wakeAgain(context, partition, trigger.dueAtMs);`,
        to: 'const look = undefined;',
      },
    ],
  },
  'parked-not-moved-back': {
    removes: 'moving the first parked jobs of a free conflict key back into their lines',
    foundBy: {
      test: 'test/dispatch/loans.test.ts',
      name: 'asks for jobs that are parked, once their conflict key is free',
    },
    changes: [
      change(
        within(
          () => import('../../lib/dispatch/parking.ts'),
          (m) => m.moveBack,
        ),
        always,
        'IfStatement',
      ),
    ],
  },
  'former-life': {
    removes: "the time that a worker's former life may still run",
    foundBy: { test: 'test/dispatch/recovery.test.ts', name: 'has what its former one runs taken from it' },
    changes: [change(at('former-life'), dropped, 'BinaryExpression', 2)],
  },
  'outage-guard': {
    removes: 'the time that workers have after an outage',
    foundBy: {
      test: 'test/dispatch/recovery.test.ts',
      name: 'nothing is declared lost until the partition has been read for a lease',
    },
    changes: [
      change(
        within(
          () => import('../../lib/dispatch/settle/silence.ts'),
          (m) => m.mayDeclareLost,
        ),
        always,
        'IfStatement',
      ),
    ],
  },
  'checkpoint-claim': {
    removes: 'claim, worker and incarnation in the condition of a checkpoint',
    foundBy: { test: 'test/contract/memory.test.ts', name: 'are refused from another life of the worker' },
    changes: [
      change(
        within(
          () => import('../../lib/store/memory/worker.ts'),
          (m) => m.MemoryWorkerStore.prototype.saveCheckpoint,
        ),
        dropped,
        'UnaryExpression',
      ),
    ],
  },
  'no-looks': {
    removes: 'the looks at workers between passes: whoever passes anyway may find that one is gone',
    foundBy: { crashWorld: 4 },
    changes: [change(at('no-looks'), never, 'LogicalExpression')],
  },
  'last-look': {
    removes: 'the look that follows a look',
    foundBy: { crashWorld: 4 },
    changes: [change(at('looks-of-others-too'), becomes('$1 || !$2'))],
  },
  'patient-checks': {
    removes: 'the look-up of what ran under a lease that has ended, before its reservation is checked',
    foundBy: { crashWorld: 1 },
    changes: [
      change(at('patient-checks'), never, 'LogicalExpression'),
      change(at('patient-checks-2'), always),
    ],
  },
  'unwitnessed-looks': {
    removes: 'what looks tell of the store: only commits of passes show that there was no outage',
    foundBy: { crashWorld: 13 },
    changes: [change(at('unwitnessed-looks'), becomes('page !== undefined || $'))],
  },
  'former-lives': {
    removes: 'the end of the lease of a life whose name has begun another one',
    foundBy: { crashWorld: 37 },
    changes: [change(at('former-lives'), always, 'ConditionalExpression')],
  },
  'former-group': {
    removes: 'the conflict key of the group that the type of a job in flight has by now',
    foundBy: { smallRun: REDEPLOYED },
    changes: [change(at('former-group'), dropped)],
  },
  'older-declaration': {
    removes: 'the end of a pass whose partition knows of a newer declaration',
    foundBy: { simulation: 4 },
    changes: [change(at('older-declaration'), dropped)],
  },
  'untold-declaration': {
    removes: 'the word that a partition has of what is declared',
    foundBy: { simulation: 4 },
    changes: [change(at('untold-declaration'), dropped), change(at('untold-declaration-2'), dropped)],
  },
  'claims-of-gone-fleets': {
    removes: 'giving claims back whose fleet is gone',
    foundBy: {
      test: 'test/dispatch/redeploy.test.ts',
      name: 'with a lock, for a fleet that is gone, wait again at once',
    },
    changes: [change(at('claims-of-gone-fleets'), never, 'UnaryExpression')],
  },
  'carry-one-step': {
    removes: 'all but the first step of moving jobs to where a declaration wants them',
    foundBy: { smallRun: REDEPLOYED },
    changes: [change(at('carry-one-step'), always)],
  },
  'no-carry': {
    removes: 'moving jobs to where a declaration wants them',
    foundBy: { smallRun: REDEPLOYED },
    changes: [change(at('no-carry'), never)],
  },
  'newest-terms': {
    removes: 'the terms of its claim from an attempt: those that its worker knows hold',
    foundBy: { simulation: 6 },
    changes: [change(at('newest-terms'), becomes('$2'), 'LogicalExpression')],
  },
  'terms-of-the-lost': {
    removes: 'the terms of its claim from an attempt that is taken away: what is declared by then holds',
    foundBy: { simulation: 6 },
    changes: [change(at('terms-of-the-lost'), becomes('$2'), 'LogicalExpression')],
  },
  'terms-of-the-dead': {
    removes: 'the terms of its claim from an attempt whose function died',
    foundBy: {
      test: 'test/dispatch/redeploy.test.ts',
      name: 'also when the message of their function says that it died',
    },
    changes: [
      change(
        at('terms-of-the-dead'),
        becomes('{ type: context.configuration.types.find((each) => each.type === job.type) }'),
        'AwaitExpression',
      ),
    ],
  },
  'told-before-reserved': {
    removes: 'the wait for the commit before a fleet is told',
    foundBy: { simulation: 1 },
    changes: [
      change(
        at('told-before-reserved'),
        becomes(
          'await (async () => { const reserved = this.#reserve(decisions); reserved.catch(() => {}); const places = this.#placesFor(decisions); if (decisions.length > 0) await this.#hand(places); await reserved; decisions = []; return places; })()',
        ),
        'AwaitExpression',
      ),
    ],
  },
  'told-places-are-free': {
    removes: 'places whose jobs nobody has started from what a pass takes as held',
    foundBy: { simulation: 1 },
    changes: [change(at('told-places-are-free'), becomes("{ kind: 'gone' }"), 'ObjectExpression')],
  },
  'overtaken-unseen': {
    removes:
      'the look at chosen jobs that an index shows, and that other dispatchers may have started before',
    foundBy: { test: 'test/dispatch/overtaken.test.ts', name: 'tells of none that has ended' },
    changes: [
      change(
        within(
          () => import('../../lib/dispatch/hinted-jobs.ts'),
          (m) => m.Overtaken.prototype.among,
        ),
        always,
        'IfStatement',
      ),
    ],
  },
  'outdated-heads': {
    removes: 'what a process knows not to wait from what it reads of an index that lags',
    foundBy: { test: 'test/dispatch/overtaken.test.ts', name: 'reads none of them again' },
    changes: [
      {
        file: 'lib/dispatch/candidates.ts',
        from: 'const shown = read.jobs.filter((job) => !isOutdated(this.#input.cached, job));',
        to: 'const shown = read.jobs;',
      },
    ],
  },
  'told-heads-hide-others': {
    removes: 'the look behind parked jobs that have a place',
    foundBy: { test: 'test/dispatch/resource-caps.test.ts', name: '12 of 12 end at once' },
    changes: [change(at('told-heads-hide-others'), dropped, 'Property', 4)],
  },
  'locks-are-forgotten': {
    removes: 'that a place which was reserved under another declaration may have needed a lock',
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: 'does not start beside one of its conflict key',
    },
    changes: [change(at('locks-are-forgotten'), becomes('$1 === undefined'), 'BinaryExpression')],
  },
  'planned-for-ever': {
    removes: 'the time for which a start may claim what was planned',
    foundBy: { test: 'test/contract/memory.test.ts', name: 'planned a day ago' },
    changes: [
      change(
        within(
          () => import('../../lib/core/life-cycle.ts'),
          (m) => m.isPlanned,
        ),
        always,
      ),
    ],
  },
  'claims-without-terms': {
    removes: 'the version under which a claim was planned',
    foundBy: { simulation: 4 },
    changes: [change(at('claims-without-terms'), becomes('undefined'), 'MemberExpression')],
  },
  'former-types': {
    removes: 'types that are not declared any more from what is remembered of them',
    foundBy: { simulation: 6 },
    changes: [change(at('former-types'), never, 'ArrowFunctionExpression')],
  },
  'declared-twice': {
    removes:
      'the look whether a deployment has declared before: one that comes late takes back what others declared',
    foundBy: { simulation: 9 },
    changes: [change(at('declared-twice'), never)],
  },
  'handlers-of-tomorrow': {
    removes: 'another try of a job that met a worker of another deployment, without its handler',
    foundBy: { simulation: 6 },
    changes: [change(at('handlers-of-tomorrow'), never, 'ReturnStatement')],
  },
  'guard-in-the-thread': {
    removes: 'the guard beside the thread of the handlers: a busy one keeps it from its heartbeats',
    foundBy: { simulation: 22 },
    changes: [change(at('guard-in-the-thread'), becomes('$2'), 'LogicalExpression')],
  },
  'short-records': {
    removes: 'the time for which a process that stands still may trust its lease from its record',
    foundBy: { simulation: 22 },
    changes: [change(at('short-records'), compared('-'), 'BinaryExpression')],
  },
  'short-functions': {
    removes: "the rest of a function's time after the timeouts of its types from the lease of what it runs",
    foundBy: { simulation: 45 },
    changes: [
      change(at('short-functions'), becomes('life.since.wallMs + life.lastsMs / 2'), 'BinaryExpression', 2),
    ],
  },
  'fleet-limits-alone': {
    removes: "what other partitions have in flight above an operator's cap of a fleet",
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: "counts together towards an operator's cap of a fleet, and explain names each that has a part in it",
    },
    changes: [change(at('fleet-limits-alone'), dropped)],
  },
  'fleet-limits-whole': {
    removes: "what others have in flight from an operator's cap of a fleet here",
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: "counts together towards an operator's cap of a fleet, and explain names each that has a part in it",
    },
    changes: [change(at('fleet-limits-whole'), never, 'LogicalExpression')],
  },
  'stale-looks': {
    removes: 'the look at what was declared of whoever lists and redrives jobs',
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: 'sees, and puts into the queue again, what is in all partitions a second after it',
    },
    changes: [change(at('stale-looks'), dropped, 'Identifier', 2)],
  },
  'early-reads-believed': {
    removes: 'the doubt about lines that were read before the index had to show what others were told of',
    foundBy: {
      test: 'test/dispatch/hints.test.ts',
      name: 'starts in its turn once the index shows it, though the line was read before that',
    },
    changes: [
      {
        file: 'lib/dispatch/candidates.ts',
        from: 'return readAtMs >= sinceMs + this.#context.budget.seenWithinMs;',
        to: 'return readAtMs >= 0 || sinceMs > 0;',
      },
    ],
  },
  'lost-not-shown': {
    removes:
      'the images of jobs that wait again after their worker was lost, from the pass that takes them away',
    foundBy: {
      test: 'test/dispatch/recovery.test.ts',
      name: 'whose worker is gone starts again in the pass that finds it, whether or not the index shows it',
    },
    changes: [change(at('lost-not-shown'), becomes('($, [])'), 'AwaitExpression')],
  },
  'never-asks': {
    removes: 'what a partition that asks for capacity lacks, from its request',
    foundBy: { test: 'test/dispatch/loans.test.ts', name: 'each time that it asks' },
    changes: [change(at('never-asks'), becomes('[]'), 'Property', 2)],
  },
  'boundless-loans': {
    removes: 'the bound on what one commit lends and gives back',
    foundBy: { test: 'test/dispatch/loans.test.ts', name: 'is one of very many' },
    changes: [change(at('boundless-loans'), becomes('Infinity'))],
  },
  'let-go-unheard': {
    removes: 'the pass that follows a lost claim of a job behind which others are parked',
    foundBy: {
      test: 'test/dispatch/parking.test.ts',
      name: 'keeps nothing parked behind jobs whose claim was lost, though no hint tells that they are gone',
    },
    changes: [change(at('let-go-unheard'), dropped)],
  },
  'let-go-forgotten': {
    removes: 'the conflict key of a job whose claim was lost from what may have been let go',
    foundBy: {
      test: 'test/dispatch/parking.test.ts',
      name: 'keeps nothing parked behind jobs whose claim was lost, though no hint tells that they are gone',
    },
    changes: [change(at('let-go-forgotten'), dropped, 'ExpressionStatement')],
  },
  'charged-twice-in-a-page': {
    removes: 'the bytes of a ledger from those of a page, once it is charged again',
    foundBy: {
      test: 'test/store/page-ledgers.test.ts',
      name: 'however they were charged: keys of which a base is written',
    },
    changes: [change(at('charged-twice-in-a-page'), becomes('$1'), 'BinaryExpression')],
  },
  'hints-behind-holes': {
    removes: 'the end of what is known of a line: a hint stands behind jobs that were not read',
    foundBy: { differential: 109, kind: 'order' },
    changes: [change(at('hints-behind-holes'), never, 'BinaryExpression', 2)],
  },
  'own-end-unchecked': {
    removes: "the look at a function's attempt when its own time ends",
    foundBy: { test: 'test/dispatch/recovery.test.ts', name: 'is looked at again when its own time ends' },
    changes: [
      change(at('own-end-unchecked'), becomes('$2'), 'LogicalExpression'),
      change(at('own-end-unchecked-2'), dropped),
    ],
  },
  'end-by-own-clock': {
    removes: "what clocks differ from the time that a function's attempt may run",
    foundBy: {
      test: 'test/dispatch/recovery.test.ts',
      name: 'as long as a function may be running it by any clock',
    },
    changes: [change(at('end-by-own-clock'), becomes('$1'), 'BinaryExpression', 3)],
  },
  'just-registered': {
    removes: 'what clocks differ from whether a worker may have come after the workers were read',
    foundBy: {
      test: 'test/dispatch/recovery.test.ts',
      name: 'if its worker came after the workers were read',
    },
    changes: [change(at('just-registered'), becomes('$1'), 'BinaryExpression', 2)],
  },
  'looks-up-in-turn': {
    removes: 'looking up all that is in flight for whoever left word',
    foundBy: {
      test: 'test/dispatch/recovery.test.ts',
      name: 'settles all that has ended, however little one pass checks of itself',
    },
    changes: [change(at('looks-up-in-turn'), never, 'ConditionalExpression')],
  },
  'late-hints-believed': {
    removes: 'reading what a late hint shows before it is claimed',
    foundBy: {
      test: 'test/dispatch/hints.test.ts',
      name: 'of a job that does not wait any more costs no place',
    },
    changes: [change(at('late-hints-believed'), always)],
  },
  'late-hints-dropped': {
    removes: 'the read of lines where late hints are too many to be looked up',
    foundBy: { test: 'test/dispatch/confirmed.test.ts', name: 'starts them also where nothing had waited' },
    changes: [
      change(
        within(
          () => import('../../lib/dispatch/pass/late-hints.ts'),
          (m) => m.withFewLooks,
        ),
        always,
        'ConditionalExpression',
      ),
      change(at('late-hints-dropped'), dropped, 'MemberExpression'),
    ],
  },
  'newest-partition': {
    removes: 'the partition that has answered least lately from what the monotonic clock says of a lease',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'ends with the partition that has answered least lately',
    },
    changes: [change(at('newest-partition'), becomes('Math.max($2)'), 'CallExpression')],
  },
  'newest-partition-by-wall': {
    removes: 'the partition that has answered least lately from what the wall clock says of a lease',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'ends with the partition that has answered least lately',
    },
    changes: [change(at('newest-partition-by-wall'), becomes('Math.max($2)'), 'CallExpression')],
  },
  'repeated-registration': {
    removes: 'the heartbeat after a registration that was repeated',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'is not taken from a registration that was repeated',
    },
    changes: [change(at('repeated-registration'), dropped, 'BinaryExpression', 2)],
  },
  'in-flight-unseen': {
    removes: 'that a ledger does not expire while a job of its key runs',
    foundBy: {
      test: 'test/dispatch/expired-ledger.test.ts',
      name: 'a ledger is kept while a job of its key runs',
    },
    changes: [
      { file: 'lib/dispatch/pass/settle.ts', from: 'ledgerCache.noteInFlight(state.reservations);', to: '' },
    ],
  },
  'started-after-lease': {
    removes: 'the look at the lease when a start is answered',
    foundBy: {
      test: 'test/worker/process.test.ts',
      name: 'begins no handler whose start is answered after its lease is over',
    },
    changes: [change(at('started-after-lease'), dropped)],
  },
  'shares-alone': {
    removes: 'what runs in other partitions above their shares: each counts its own share alone',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'holds for all partitions together' },
    changes: [change(at('shares-alone'), dropped)],
  },
  'key-twice': {
    removes: 'jobs of a key that run where it lived before, for its cap',
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: 'has its jobs in flight counted towards its cap',
    },
    changes: [change(at('key-twice'), never)],
  },
  'lockless-neighbour': {
    removes: 'the conflict keys of jobs that others have claimed by a former declaration',
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: 'exclude those that began in the only partition',
    },
    changes: [change(at('lockless-neighbour'), dropped)],
  },
  'first-to-come': {
    removes: 'the wait for partitions that have not come to the declaration',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'start nothing, say so' },
    changes: [change(at('first-to-come'), never)],
  },
  'read-too-early': {
    removes: 'the read of a partition after its note was seen: what stood before may be taken for all',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'believe only a read' },
    changes: [change(at('read-too-early'), dropped)],
  },
  'stranger-claimed': {
    removes: 'the partition of a key: jobs start wherever they stand',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'has its waiting jobs there' },
    changes: [change(at('stranger-claimed'), always, 'ArrowFunctionExpression')],
  },
  'announced-late': {
    removes: 'the announcement of a line in the new partition before a job is moved there',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'loses no job to a dispatcher that dies' },
    changes: [
      change(
        at('announced-late'),
        becomes('$4().then((moved) => $1($2, $3, async () => undefined).then(() => moved))'),
        'CallExpression',
      ),
    ],
  },
  'moved-late': {
    removes: 'the end of moving jobs to other partitions once the lease is not trusted',
    foundBy: { test: 'test/dispatch/rehome.test.ts', name: 'are none once the lease has ended' },
    changes: [change(at('moved-late'), dropped)],
  },
  'deaf-resident': {
    removes: 'the look at the declaration of a dispatcher that runs on',
    foundBy: { test: 'test/dispatch/resident.test.ts', name: 'comes to a newer declaration' },
    changes: [change(at('deaf-resident'), dropped)],
  },
  'unheard-end': {
    removes: 'the wait for the end of a function whose fleet is gone, after its reservation would be checked',
    foundBy: { simulation: 16_000_199 },
    changes: [change(at('unheard-end'), never, 'IfStatement', 2)],
  },
  'blank-word': {
    removes: 'the difference between word that names its jobs and word that does not',
    foundBy: {
      test: 'test/dispatch/quiet.test.ts',
      name: 'is looked at once word was left by somebody',
    },
    changes: [
      {
        file: 'lib/dispatch/lease.ts',
        from: 'const isBlank = wakes - named > seen.wakes - seen.named ||',
        to: 'const isBlank =',
      },
    ],
  },
  'unheard-names': {
    removes: 'the names of jobs that word was left of',
    foundBy: { test: 'test/dispatch/resident.test.ts', name: 'reads what word names, and nothing else' },
    changes: [
      {
        file: 'lib/dispatch/lease.ts',
        from: 'names: jobs.slice(Math.max(0, seen.names - dropped))',
        to: 'names: jobs.slice(jobs.length)',
      },
    ],
  },
  'dropped-unseen': {
    removes: 'the names that came while those before them were taken away',
    foundBy: { test: 'test/contract/memory.test.ts', name: 'drops names that were looked at' },
    changes: [
      {
        file: 'lib/store/memory/lease.ts',
        from: 'jobs: wakes.jobs.slice(seen.jobs.length)',
        to: 'jobs: []',
      },
    ],
  },
  'moved-uncharged': {
    removes: 'the wait of an attempt that is over for its charge, before its job is moved',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'keeps an attempt that is over where it ran' },
    changes: [change(at('moved-uncharged'), always, 'ArrowFunctionExpression')],
  },
  'lock-of-before': {
    removes: 'locks of what was claimed when there were more partitions, once there is one',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'their lock is given back' },
    changes: [change(at('lock-of-before'), becomes('[]'), 'CallExpression', 2)],
  },
  'controls-left': {
    removes: 'controls of keys, which stay where the keys lived',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'has its pauses there' },
    changes: [change(at('controls-left'), dropped)],
  },
  'borrowed-and-above': {
    removes:
      'what a partition has borrowed from what it may have in flight, once the loan has ended and was not given back',
    foundBy: {
      test: 'test/dispatch/looks.test.ts',
      name: 'is not what runs on capacity that was lent to its partition',
    },
    changes: [change(at('borrowed-and-above'), becomes('Infinity'), 'MemberExpression', 2)],
  },
  'comes-and-plans-on': {
    removes: 'the difference between what was planned before a partition came and what it plans from then on',
    foundBy: {
      test: 'test/dispatch/looks.test.ts',
      name: 'is nothing where a partition runs what is its own',
    },
    changes: [change(at('comes-and-plans-on'), compared('<='), 'BinaryExpression')],
  },
  'come-to-any': {
    removes: 'the version of the declaration that a partition has come to',
    foundBy: {
      test: 'test/dispatch/looks.test.ts',
      name: 'is one that has come to this declaration, not to an earlier one',
    },
    changes: [change(at('come-to-any'), dropped, 'BinaryExpression', 2)],
  },
  'let-go-of-all': {
    removes: 'conflict keys that others hold still: all are taken to be free',
    foundBy: {
      test: 'test/dispatch/looks.test.ts',
      name: 'are conflict keys that were claimed before it came',
    },
    changes: [change(at('let-go-of-all'), always, 'IfStatement')],
  },
  'cut-looks': {
    removes: 'the soon look at those that were not read so far',
    foundBy: {
      test: 'test/dispatch/looks.test.ts',
      name: 'read so many at once, and the others within moments',
    },
    changes: [change(at('cut-looks'), dropped)],
  },
  'cut-line-left': {
    removes: 'the return to a line of which a part was moved, unless it is the last that was read',
    foundBy: {
      test: 'test/dispatch/rehome.test.ts',
      name: 'also where that is not the last one that it read',
    },
    changes: [change(at('cut-line-left'), becomes('$1 = $2'))],
  },
  'retired-with-jobs': {
    removes: 'the look whether a line is empty before it is retired',
    foundBy: {
      test: 'test/dispatch/rehome.test.ts',
      name: 'are no lines to retire in which a job stands',
    },
    changes: [change(at('retired-with-jobs'), dropped, 'BinaryExpression')],
  },
  'steps-from-the-front': {
    removes: 'the place at which a step of a declaration ended',
    foundBy: {
      test: 'test/dispatch/carry.test.ts',
      name: 'go on where the last one stood',
    },
    changes: [change(at('steps-from-the-front'), dropped)],
  },
  'handover-again': {
    removes: 'what is known of a handover when the next declaration comes',
    foundBy: {
      test: 'test/dispatch/carry.test.ts',
      name: 'is the one of its step alone where partitions',
    },
    changes: [change(at('handover-again'), becomes('$1 > 0'), 'BinaryExpression', 2)],
  },
  'held-and-moved': {
    removes: 'the wait of a parked job for the charge of its earlier attempt, before it is moved',
    foundBy: {
      test: 'test/dispatch/carry.test.ts',
      name: 'stay while an attempt of theirs counts here',
    },
    changes: [change(at('held-and-moved'), dropped, 'UnaryExpression', 2)],
  },
  'raised-twice': {
    removes:
      'what was given to one partition from what is left for the others, when slots of a worker are raised',
    foundBy: {
      test: 'test/worker/division.test.ts',
      name: 'are raised by no more than what is free',
    },
    changes: [change(at('raised-twice'), dropped)],
  },
  'let-go-at-work': {
    removes: 'the look whether a job of a partition runs before its lease is let go',
    foundBy: {
      test: 'test/worker/process.test.ts',
      name: 'keeps its lease in a partition that is gone while a job of it runs',
    },
    changes: [change(at('let-go-at-work'), dropped, 'CallExpression', 2)],
  },
  'served-by-an-old-record': {
    removes: 'the heartbeat after a registration where a record may be',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'it is served again by a record that counts',
    },
    changes: [change(at('repeated-registration'), dropped, 'Identifier', 3)],
  },
};
