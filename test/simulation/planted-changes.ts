/** Bugs that are planted as changes of the sources: about what starts next, and whether anything does. */
import { always, at, becomes, change, compared, dropped, never, within } from './mutation.ts';
import { byTest, type Planted } from './planted-bug.ts';
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
    foundBy: { differential: 16, kind: 'order' },
    changes: [
      change(at('dropped-hint'), dropped),
      change(at('dropped-hint-2'), becomes('($.reported.clear(), $)')),
    ],
  },
  'changed-since-told': {
    removes: 'what a read tells of a job that hints told of: its new place, and that it waits no more',
    foundBy: { test: 'test/dispatch/view/view.test.ts', name: 'is offered as it is now' },
    changes: [change(at('changed-since-told'), dropped)],
  },
  'read-beside-admission': {
    removes:
      'the look at all that is known of a line for jobs that were reserved since: what shows them still is offered as waiting',
    foundBy: { bigWorld: 1 },
    changes: [change(at('read-beside-admission'), becomes('line.jobs'), 'CallExpression')],
  },
  'known-from-its-admission': {
    removes: 'the time from its end for which it is known of a job that it does not wait',
    foundBy: {
      test: 'test/dispatch/view/view.test.ts',
      name: 'that a job waits no more count for a minute after the last of them',
    },
    changes: [
      change(at('known-from-its-admission'), becomes('this.versionOf(id) === -Infinity'), 'BinaryExpression'),
    ],
  },
  'held-and-forgotten': {
    removes: 'the place of a job that is held still, and that a read shows to wait anew',
    foundBy: {
      test: 'test/dispatch/view/hints.test.ts',
      name: 'stands in its place once its attempt is settled',
    },
    changes: [
      change(at('held-and-forgotten'), becomes('view.noteGone({ ...place.entry, version: Infinity })')),
    ],
  },
  'front-again': {
    removes: 'the way past what a bound left unseen: each plan begins at the front again',
    foundBy: { differential: 4, kind: 'walls' },
    changes: [
      change(at('front-again'), always),
      change(at('front-again-2'), never, 'LogicalExpression'),
      change(
        at('front-again-3'),
        becomes('{ ...$, blockedMax: Math.min(LOOKS_MIN, $.blockedMax), blockedPerConflict: 0 }'),
        'ObjectExpression',
      ),
    ],
  },
  'first-page-of-keys': {
    removes: 'what is behind the first page of a keys line',
    foundBy: byTest('dispatch/pass/blocked', 'because each is at its cap keep no other key waiting'),
    changes: [change(at('first-page-of-keys'), becomes('{ next: undefined }'), 'Identifier', 3)],
  },
  'charged-after-a-reset': {
    removes: 'the mercy of a reset for what is in flight: its end is charged again',
    foundBy: { differential: 8, kind: 'books' },
    changes: [change(at('charged-after-a-reset'), becomes('false'), 'BinaryExpression')],
  },
  'starts-after-expiry': {
    removes: 'the look of a start at the time that its job had for it',
    foundBy: byTest('core/life-cycle', 'neither starts from then on, nor ends before'),
    changes: [change(at('starts-after-expiry'), dropped)],
  },
  'merged-again': {
    removes: 'the look at the requests for which a waiting job stands: a repeated one changes it again',
    foundBy: { simulation: 6 },
    changes: [change(at('merged-again'), dropped)],
  },
  'tenants-meet': {
    removes: 'the fairness key from what requests of one dedupe key must have in common',
    foundBy: { simulation: 1 },
    changes: [change(at('tenants-meet'), dropped)],
  },
  'drops-nothing': {
    removes: 'the look at a running job for requests that ask for no other beside it',
    foundBy: { simulation: 1 },
    changes: [change(at('drops-nothing'), never)],
  },
  'one-waits-beside': {
    removes: 'the resource by which one job of a dedupe key waits for the end of the other',
    foundBy: { simulation: 3 },
    changes: [change(at('one-waits-beside'), becomes('$1'))],
  },
  'races-at-once': {
    removes: 'the wait before a request that lost a race tries again',
    foundBy: byTest('submit/dedupe', 'of forty processes at the same time, none fails'),
    changes: [change(at('races-at-once'), dropped)],
  },
  'bound-forgotten': {
    removes: 'the refusal of a job that is one too many',
    foundBy: { simulation: 65 },
    changes: [change(at('bound-forgotten'), always)],
  },
  'untold-losses': {
    removes: 'losses of workers from the histories of jobs',
    foundBy: { simulation: 1 },
    changes: [change(at('untold-losses'), becomes('$1 || !$2'), 'LogicalExpression')],
  },
  'unbounded-marker': {
    removes: 'the bound on what the page says of reservations',
    foundBy: byTest(
      'store/contract/bounds',
      'stays as small, however many reservations there are, and means the same',
    ),
    changes: [change(at('unbounded-marker'), never)],
  },
  'tiers-in-one-batch': {
    removes: 'the order of tiers in all but the first batch of a pass',
    foundBy: { differential: 9, kind: 'order' },
    changes: [
      change(
        at('tiers-in-one-batch'),
        becomes('this.#inFlightIds.size < 2 ? $ : this.#scheduler.index.tiers.length - 1 - $'),
        'Identifier',
        2,
      ),
    ],
  },
  'on-demand-behind': {
    removes: 'the head start of jobs on demand',
    foundBy: { differential: 2, kind: 'order' },
    changes: [change(at('on-demand-behind'), dropped, 'BinaryExpression', 7)],
  },
  'age-of-lost': {
    removes: 'the age of a job that lost its worker',
    foundBy: { simulation: 1 },
    changes: [change(at('age-of-lost'), becomes('withReadyAt($, runAtMs)'), 'Identifier', 9)],
  },
  'quiet-for-ever': {
    removes:
      'looking again where nothing waited: a job whose every hint was lost waits until another one of its key comes',
    foundBy: {
      test: 'test/dispatch/pass/quiet.test.ts',
      name: 'is looked at as a whole once a minute, so a job whose hint was lost starts with the first pass after that',
    },
    changes: [
      change(
        within(
          () => import('../../lib/dispatch/tuning.ts'),
          (m) => m.LOOK_AROUND_MS,
        ),
        becomes('Infinity'),
      ),
    ],
  },
  'quiet-not-taken-back': {
    removes:
      'the end of what a partition says, once a pass leaves a job waiting: it goes on to say that nothing waits',
    foundBy: {
      test: 'test/dispatch/pass/quiet.test.ts',
      name: 'says so no more when a pass leaves a job waiting, though that pass has nothing else to write',
    },
    changes: [change(at('quiet-not-taken-back'), becomes('$ ?? undefined'))],
  },
  'quiet-though-the-line-goes-on': {
    removes:
      'the doubt about a line of which more stands behind what was read, where all that was read starts',
    foundBy: {
      test: 'test/dispatch/pass/quiet.test.ts',
      name: 'does not say so when a line goes on behind what was read of it, though all of that starts',
    },
    changes: [change(at('quiet-though-the-line-goes-on'), dropped, 'BinaryExpression', 2)],
  },
  'looks-noted-first': {
    removes:
      'the message of a look before its note: one that is noted and was not sent keeps the present one from coming again',
    foundBy: byTest(
      'dispatch/look-at-workers',
      'go on with the message that comes again, where sendLook fails',
    ),
    changes: [change(at('looks-noted-first'), becomes('$.catch(() => {})'), 'CallExpression')],
  },
  'looks-of-others-too': {
    removes:
      'what a look at the workers was noted for: each copy of its message goes on by itself, and so do the copies of those',
    foundBy: byTest('dispatch/look-at-workers', 'do not multiply where each message comes three times, 4000'),
    changes: [change(at('looks-of-others-too'), becomes('state.lookout === undefined'), 'BinaryExpression')],
  },
  'announcements-of-others-last': {
    removes: 'the time of another one’s announcement: whoever meets it trusts it as if it had made it then',
    foundBy: byTest('submit/submit', 'that somebody else has announced is only looked at, for as long as'),
    changes: [change(at('announcements-of-others-last'), becomes('$2'), 'CallExpression', 4)],
  },
  guarantees: {
    removes: 'the turn of tiers below their guarantee before all others',
    foundBy: { differential: 11, kind: 'order' },
    changes: [change(at('guarantees'), becomes('[false]'), 'ArrayExpression')],
  },
  'one-page-of-due': {
    removes: 'due work beyond the first page: it is left to the next tick',
    foundBy: { differential: 113, kind: 'time' },
    changes: [
      change(
        within(
          () => import('../../lib/dispatch/tuning.ts'),
          (m) => m.PROMOTE_ROUNDS_MAX,
        ),
        becomes('1'),
      ),
      change(at('one-page-of-due-2'), never),
    ],
  },
  'stale-controls': {
    removes: 'reading caps and pauses again: those of the first pass stay in force',
    foundBy: { differential: 2, kind: 'controls' },
    changes: [change(at('stale-controls'), becomes('(context.caches.controls ??= $)'), 'Property', 2)],
  },
  'parked-by-another': {
    removes: 'looking for jobs that another dispatcher has parked',
    foundBy: { differential: 4, kind: 'conflicts' },
    changes: [change(at('parked-by-another'), becomes('$ || cached.marked.size === 0'))],
  },
  'parked-not-freed': {
    removes: 'the look at what is parked behind a conflict key that a settlement lets go',
    foundBy: { differential: 2, kind: 'conflicts' },
    changes: [change(at('parked-not-freed'), dropped), change(at('parked-not-freed-2'), dropped)],
  },
  'weight-of-flight': {
    removes: 'the weight from what is in flight',
    foundBy: { differential: 14, kind: 'keys' },
    changes: [
      change(at('weight-of-flight'), becomes('$ * this.ledgers.weightOf(key)'), 'MemberExpression', 3),
    ],
  },
  'flight-uncounted': {
    removes: 'what is in flight from the cost of its key',
    foundBy: { differential: 2, kind: 'order' },
    changes: [change(at('weight-of-flight'), becomes('0'), 'MemberExpression', 3)],
  },
  'gone-forgotten': {
    removes: 'a key that has left the page is none of its base',
    foundBy: byTest('store/table/summary', 'that have left it are not what its base says'),
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
        becomes('(change.base !== undefined && this.#items.knowBase(partition, change.base), $)'),
        'ConditionalExpression',
      ),
    ],
  },
  'moved-back': {
    removes: 'keys that move to the front of their line while it is being read: no later page shows them',
    foundBy: byTest('dispatch/view/moved-back', 'is read by its name'),
    changes: [change(at('moved-back'), always, 'BinaryExpression')],
  },
  'fractions-of-cost': {
    removes: 'whole units of cost: ties on paper are decided by rounding',
    foundBy: { differential: 50, kind: 'order' },
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
    foundBy: {
      test: 'test/dispatch/view/view.test.ts',
      name: 'change nothing where they are older: told of',
    },
    changes: [change(at('old-images'), dropped)],
  },
  'view-of-another-version': {
    removes:
      'the version of what a leader remembers: it believes that also where another dispatcher has committed since',
    foundBy: byTest('dispatch/view/memory', 'what a pass leaves is there for the next one, or not'),
    changes: [change(at('view-of-another-version'), always)],
  },
  'raises-forgotten': {
    removes: 'raised ledgers from the commit of the pass that raises them',
    foundBy: { differential: 1, kind: 'lifts' },
    changes: [change(at('raises-forgotten'), becomes('$.slice(0, 0)'), 'CallExpression')],
  },
  'raises-of-dropped': {
    removes: 'that raises which assumed a start are taken back when that start is dropped',
    foundBy: byTest('core/planner', 'takes back what it raised beside a start that was dropped'),
    changes: [change(at('raises-of-dropped'), dropped)],
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
  'credit-unbounded': {
    removes: 'the bound on how far a key may stay below the others',
    foundBy: byTest('core/presence', 'starves the others for seconds'),
    changes: [change(at('credit-unbounded'), never)],
  },
  'level-with-the-least': {
    removes: 'the place of keys that arrive behind the key with the least share',
    foundBy: byTest('core/presence', 'holds nobody back'),
    changes: [change(at('level-with-the-least'), becomes('$1'), 'BinaryExpression')],
  },
  'away-by-its-head': {
    removes: 'jobs behind the first of a line from those that show that a key was there',
    foundBy: { differential: 5, kind: 'lifts' },
    changes: [
      change(
        within(
          () => import('../../lib/core/raises.ts'),
          (m) => m.Raises.prototype.noteJobs,
        ),
        becomes('this.#jobsOf.set(line, jobs.slice(0, 1))'),
        'CallExpression',
      ),
    ],
  },
  'explained-without-raises': {
    removes: 'raised shares from what explain says of the next pass',
    foundBy: byTest('operate/explain', 'is started by'),
    changes: [change(at('explained-without-raises'), dropped)],
  },
  'held-back-on-demand': {
    removes: 'the condition of on-demand jobs of the same key from the latest start that explain promises',
    foundBy: byTest('simulation/big', 'is promised no bound where not'),
    changes: [change(at('held-back-on-demand'), never)],
  },
  'explained-without-due': {
    removes: 'what has become due from what explain says of the next pass',
    foundBy: byTest('operate/explain', 'is started by'),
    changes: [change(at('explained-without-due'), dropped, 'SpreadElement')],
  },
  'explained-without-locks': {
    removes: 'locks of other partitions from what explain says of the next pass',
    foundBy: byTest('operate/explain', 'is started by'),
    changes: [
      change(at('explained-without-locks'), becomes('state.keptBack !== undefined'), 'BinaryExpression', 2),
    ],
  },
  'unknown-claims-lent': {
    removes: 'claims that were not answered from what is held when capacity is lent',
    foundBy: byTest('dispatch/partitions/loans', 'has just filled, be its claims unknown'),
    changes: [
      change(
        at('unknown-claims-lent'),
        becomes("outcome === 'unknown' ? this.#pass.planner.kept(decision) : $"),
      ),
    ],
  },
  'marks-not-renewed': {
    removes: 'renewing the mark of a blocked line',
    foundBy: byTest('operate/parked-lines', 'their mark outlives a look'),
    changes: [change(at('marks-not-renewed'), becomes('$1 === Infinity'), 'BinaryExpression')],
  },
  'retired-while-parked': {
    removes: 'announcing the lines of jobs that come back from blocked lines',
    foundBy: byTest('operate/parked-lines', 'a line that is retired meanwhile'),
    changes: [change(at('retired-while-parked'), becomes('$4()'), 'CallExpression')],
  },
  'loss-by-own-clock': {
    removes: 'the instant of a loss as its item has it: it is charged by the own clock',
    foundBy: byTest('dispatch/recovery/recovery', 'whose loss another dispatcher has noted a little earlier'),
    changes: [change(at('loss-by-own-clock'), becomes('$2'), 'LogicalExpression')],
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
    foundBy: { simulation: 190 },
    changes: [change(at('no-wake-for-due'), becomes('undefined'))],
  },
  'parked-not-moved-back': {
    removes: 'moving the first parked jobs of a free conflict key back into their lines',
    foundBy: byTest(
      'dispatch/partitions/loans',
      'asks for jobs that are parked, once their conflict key is free',
    ),
    changes: [
      change(
        within(
          () => import('../../lib/dispatch/pass/parking.ts'),
          (m) => m.moveBack,
        ),
        always,
        'IfStatement',
      ),
    ],
  },
  'former-life': {
    removes: "the time that a worker's former life may still run",
    foundBy: byTest('dispatch/recovery/recovery', 'has what its former one runs taken from it'),
    changes: [change(at('former-life'), dropped, 'BinaryExpression', 2)],
  },
  'outage-guard': {
    removes: 'the time that workers have after an outage',
    foundBy: byTest(
      'dispatch/recovery/recovery',
      'nothing is declared lost until the partition has been read for a',
    ),
    changes: [
      change(
        within(
          () => import('../../lib/dispatch/recovery/silence.ts'),
          (m) => m.mayDeclareLost,
        ),
        always,
        'IfStatement',
      ),
    ],
  },
  'checkpoint-claim': {
    removes: 'claim, worker and incarnation in the condition of a checkpoint',
    foundBy: byTest('contract/memory', 'are refused from another life of the worker'),
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
  'steps-of-one-attempt': {
    removes: 'the steps of earlier attempts: each attempt runs all of them',
    foundBy: { smallRun: 'steps of a function that fails, and of a process that is killed' },
    changes: [change(at('steps-of-one-attempt'), becomes('{}'), 'LogicalExpression')],
  },
  'late-steps': {
    removes: 'the look at how many steps are stored: a request that comes late takes later ones away',
    foundBy: { simulation: 67 },
    changes: [change(at('late-steps'), never)],
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
    foundBy: { crashWorld: 4 },
    changes: [
      change(at('patient-checks'), never, 'LogicalExpression'),
      change(at('patient-checks-2'), always),
    ],
  },
  'unwitnessed-looks': {
    removes: 'what looks tell of the store: only commits of passes show that there was no outage',
    foundBy: { crashWorld: 4 },
    changes: [change(at('unwitnessed-looks'), becomes('summary !== undefined || $'))],
  },
  'former-lives': {
    removes: 'the end of the lease of a life whose name has begun another one',
    foundBy: { crashWorld: 4 },
    changes: [change(at('former-lives'), always, 'ConditionalExpression')],
  },
  'former-group': {
    removes: 'the conflict key of the group that the type of a job in flight has by now',
    foundBy: { simulation: 238 },
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
    foundBy: byTest(
      'dispatch/partitions/redeploy',
      'with a lock, for a fleet that is gone, wait again at once',
    ),
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
    foundBy: { simulation: 158 },
    changes: [change(at('terms-of-the-lost'), becomes('$2'), 'LogicalExpression')],
  },
  'terms-of-the-dead': {
    removes: 'the terms of its claim from an attempt whose function died',
    foundBy: byTest(
      'dispatch/partitions/redeploy',
      'also when the message of their function says that it died',
    ),
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
          'await (async () => { const reserved = this.#reserve(decisions); reserved.catch(() => {}); const places = this.#entriesFor(decisions); if (decisions.length > 0) await this.#sendReserved(places); await reserved; decisions = []; return places; })()',
        ),
        'AwaitExpression',
      ),
    ],
  },
  'told-places-are-free': {
    removes: 'places whose jobs nobody has started from what a pass takes as held',
    foundBy: { simulation: 1 },
    changes: [change(at('told-places-are-free'), becomes("{ kind: 'neverClaimed' }"), 'ObjectExpression')],
  },
  'overtaken-unseen': {
    removes:
      'the look at chosen jobs that an index shows, and that other dispatchers may have started before',
    foundBy: byTest('dispatch/pass/overtaken', 'tells of none that has ended'),
    changes: [
      change(
        within(
          () => import('../../lib/dispatch/pass/candidates.ts'),
          (m) => m.Candidates.prototype.outdated,
        ),
        always,
        'IfStatement',
      ),
    ],
  },
  'outdated-heads': {
    removes: 'what a process knows not to wait from what it reads of an index that lags',
    foundBy: byTest('dispatch/pass/overtaken', 'reads none of them again'),
    changes: [change(at('outdated-heads'), becomes('read.jobs'))],
  },
  'told-heads-hide-others': {
    removes: 'the look behind parked jobs that have a place',
    foundBy: byTest('dispatch/pass/resource-caps', '12 of 12 end at once'),
    changes: [change(at('told-heads-hide-others'), dropped, 'Property', 4)],
  },
  'locks-are-forgotten': {
    removes: 'that a place which was reserved under another declaration may have needed a lock',
    foundBy: byTest('dispatch/partitions/handover', 'does not start beside one of its conflict key'),
    changes: [change(at('locks-are-forgotten'), becomes('$1 === undefined'), 'BinaryExpression')],
  },
  'planned-for-ever': {
    removes: 'the time for which a start may claim what was planned',
    foundBy: byTest('contract/memory', 'planned a day ago'),
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
    foundBy: { simulation: 5 },
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
    foundBy: { simulation: 39 },
    changes: [change(at('handlers-of-tomorrow'), never, 'ReturnStatement')],
  },
  'guard-in-the-thread': {
    removes: 'the guard beside the thread of the handlers: a busy one keeps it from its heartbeats',
    foundBy: { simulation: 97 },
    changes: [change(at('guard-in-the-thread'), becomes('$2'), 'LogicalExpression')],
  },
  'short-records': {
    removes: 'the time for which a process that stands still may trust its lease from its record',
    foundBy: { simulation: 251 },
    changes: [change(at('short-records'), compared('-'), 'BinaryExpression')],
  },
  'short-functions': {
    removes: "the rest of a function's time after the timeouts of its types from the lease of what it runs",
    foundBy: { simulation: 25 },
    changes: [
      change(at('short-functions'), becomes('life.since.wallMs + life.lastsMs / 2'), 'BinaryExpression', 2),
    ],
  },
  'fleet-limits-alone': {
    removes: "what other partitions have in flight above an operator's cap of a fleet",
    foundBy: byTest(
      'dispatch/partitions/handover',
      "counts together towards an operator's cap of a fleet, and",
    ),
    changes: [change(at('fleet-limits-alone'), dropped)],
  },
  'fleet-limits-whole': {
    removes: "what others have in flight from an operator's cap of a fleet here",
    foundBy: byTest(
      'dispatch/partitions/handover',
      "counts together towards an operator's cap of a fleet, and",
    ),
    changes: [change(at('fleet-limits-whole'), never, 'LogicalExpression')],
  },
  'stale-looks': {
    removes: 'the look at what was declared of whoever lists and redrives jobs',
    foundBy: byTest(
      'dispatch/partitions/handover',
      'sees, and puts into the queue again, what is in all partitions a',
    ),
    changes: [change(at('stale-looks'), dropped, 'Identifier', 2)],
  },
  'early-reads-believed': {
    removes: 'the doubt about lines that were read before the index had to show what others were told of',
    foundBy: {
      test: 'test/dispatch/view/hints.test.ts',
      name: 'starts in its turn once the index shows it, though the line was read before that',
    },
    changes: [change(at('early-reads-believed'), dropped)],
  },
  'lost-not-shown': {
    removes:
      'the images of jobs that wait again after their worker was lost, from the pass that takes them away',
    foundBy: byTest(
      'dispatch/recovery/recovery',
      'whose worker is gone starts again in the pass that finds it',
    ),
    changes: [change(at('lost-not-shown'), becomes('($, [])'), 'AwaitExpression')],
  },
  'never-asks': {
    removes: 'what a partition that asks for capacity lacks, from its request',
    foundBy: byTest('dispatch/partitions/loans', 'each time that it asks'),
    changes: [change(at('never-asks'), becomes('[]'), 'Property', 2)],
  },
  'boundless-loans': {
    removes: 'the bound on what one commit lends and gives back',
    foundBy: byTest('dispatch/partitions/loans', 'is one of very many'),
    changes: [
      change(
        within(
          () => import('../../lib/dispatch/tuning.ts'),
          (m) => m.BESIDE_MAX,
        ),
        becomes('Infinity'),
      ),
    ],
  },
  'let-go-unheard': {
    removes: 'the pass that follows a lost claim of a job behind which others are parked',
    foundBy: byTest(
      'dispatch/pass/parking',
      'keeps nothing parked behind jobs whose claim was lost, though no',
    ),
    changes: [change(at('let-go-unheard'), dropped)],
  },
  'let-go-forgotten': {
    removes: 'the conflict key of a job whose claim was lost from what may have been let go',
    foundBy: byTest(
      'dispatch/pass/parking',
      'keeps nothing parked behind jobs whose claim was lost, though no',
    ),
    changes: [change(at('let-go-forgotten'), dropped, 'ExpressionStatement')],
  },
  'charged-twice-in-a-summary': {
    removes: 'the bytes of a ledger from those of a page, once it is charged again',
    foundBy: byTest(
      'store/table/summary-ledgers',
      'however they were charged: keys of which a base is written',
    ),
    changes: [change(at('charged-twice-in-a-summary'), becomes('$1'), 'BinaryExpression')],
  },
  'hints-behind-holes': {
    removes: 'the end of what is known of a line: a hint stands behind jobs that were not read',
    foundBy: {
      test: 'test/dispatch/view/view.test.ts',
      name: 'leave a job behind all that was read of a line',
    },
    changes: [change(at('hints-behind-holes'), never, 'BinaryExpression', 2)],
  },
  'own-end-unchecked': {
    removes: "the look at a function's attempt when its own time ends",
    foundBy: byTest('dispatch/recovery/recovery', 'is looked at again when its own time ends'),
    changes: [
      change(at('own-end-unchecked'), becomes('$2'), 'LogicalExpression'),
      change(at('own-end-unchecked-2'), dropped),
    ],
  },
  'end-by-own-clock': {
    removes: "what clocks differ from the time that a function's attempt may run",
    foundBy: byTest('dispatch/recovery/recovery', 'as long as a function may be running it by any clock'),
    changes: [change(at('end-by-own-clock'), becomes('$1'), 'BinaryExpression', 3)],
  },
  'just-registered': {
    removes: 'what clocks differ from whether a worker may have come after the workers were read',
    foundBy: byTest('dispatch/recovery/recovery', 'if its worker came after the workers were read'),
    changes: [change(at('just-registered'), becomes('$1'), 'BinaryExpression', 2)],
  },
  'looks-up-in-turn': {
    removes: 'looking up all that is in flight for whoever left word',
    foundBy: byTest(
      'dispatch/recovery/recovery',
      'settles all that has ended, however little one pass checks of',
    ),
    changes: [change(at('looks-up-in-turn'), never, 'ConditionalExpression')],
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
    foundBy: byTest('dispatch/view/expired-ledger', 'a ledger is kept while a job of its key runs'),
    changes: [change(at('in-flight-unseen'), dropped)],
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
    foundBy: byTest('dispatch/partitions/handover', 'holds for all partitions together'),
    changes: [change(at('shares-alone'), dropped)],
  },
  'key-twice': {
    removes: 'jobs of a key that run where it lived before, for its cap',
    foundBy: byTest('dispatch/partitions/handover', 'has its jobs in flight counted towards its cap'),
    changes: [change(at('key-twice'), never)],
  },
  'lockless-neighbour': {
    removes: 'the conflict keys of jobs that others have claimed by a former declaration',
    foundBy: byTest('dispatch/partitions/handover', 'exclude those that began in the only partition'),
    changes: [change(at('lockless-neighbour'), dropped)],
  },
  'first-to-come': {
    removes: 'the wait for partitions that have not come to the declaration',
    foundBy: byTest('dispatch/partitions/handover', 'start nothing, say so'),
    changes: [change(at('first-to-come'), never)],
  },
  'read-too-early': {
    removes: 'the read of a partition after its note was seen: what stood before may be taken for all',
    foundBy: byTest('dispatch/partitions/handover', 'believe only a read'),
    changes: [change(at('read-too-early'), dropped)],
  },
  'stranger-claimed': {
    removes: 'the partition of a key: jobs start wherever they stand',
    foundBy: byTest('dispatch/partitions/handover', 'has its waiting jobs there'),
    changes: [change(at('stranger-claimed'), always, 'ArrowFunctionExpression')],
  },
  'announced-late': {
    removes: 'the announcement of a line in the new partition before a job is moved there',
    foundBy: byTest('dispatch/partitions/handover', 'loses no job to a dispatcher that dies'),
    changes: [
      change(
        at('announced-late'),
        becomes('$4().then((moved) => $1($2, $3, async () => undefined).then(() => moved))'),
        'CallExpression',
      ),
    ],
  },
  'deaf-resident': {
    removes: 'the look at the declaration of a dispatcher that runs on',
    foundBy: byTest('dispatch/resident/resident', 'comes to a newer declaration'),
    changes: [change(at('deaf-resident'), dropped)],
  },
  'unheard-end': {
    removes: 'the wait for the end of a function whose fleet is gone, after its reservation would be checked',
    foundBy: byTest('dispatch/partitions/redeploy', 'in functions whose fleet is gone are taken'),
    changes: [change(at('unheard-end'), never, 'IfStatement', 2)],
  },
  'moved-uncharged': {
    removes: 'the wait of an attempt that is over for its charge, before its job is moved',
    foundBy: byTest('dispatch/partitions/handover', 'keeps an attempt that is over where it ran'),
    changes: [change(at('moved-uncharged'), always, 'ArrowFunctionExpression')],
  },
  'lock-of-before': {
    removes: 'locks of what was claimed when there were more partitions, once there is one',
    foundBy: byTest('dispatch/partitions/handover', 'their lock is given back'),
    changes: [change(at('lock-of-before'), becomes('[]'), 'CallExpression', 2)],
  },
  'controls-left': {
    removes: 'controls of keys, which stay where the keys lived',
    foundBy: byTest('dispatch/partitions/handover', 'has its pauses there'),
    changes: [change(at('controls-left'), dropped)],
  },
  'borrowed-and-above': {
    removes:
      'what a partition has borrowed from what it may have in flight, once the loan has ended and was not given back',
    foundBy: byTest('dispatch/recovery/looks', 'is not what runs on capacity that was lent to its partition'),
    changes: [change(at('borrowed-and-above'), becomes('Infinity'), 'MemberExpression', 2)],
  },
  'comes-and-plans-on': {
    removes: 'the difference between what was planned before a partition came and what it plans from then on',
    foundBy: byTest('dispatch/recovery/looks', 'is nothing where a partition runs what is its own'),
    changes: [change(at('comes-and-plans-on'), compared('<='), 'BinaryExpression')],
  },
  'come-to-any': {
    removes: 'the version of the declaration that a partition has come to',
    foundBy: byTest(
      'dispatch/recovery/looks',
      'is one that has come to this declaration, not to an earlier one',
    ),
    changes: [change(at('come-to-any'), dropped, 'BinaryExpression', 2)],
  },
  'let-go-of-all': {
    removes: 'conflict keys that others hold still: all are taken to be free',
    foundBy: byTest('dispatch/recovery/looks', 'are conflict keys that were claimed before it came'),
    changes: [change(at('let-go-of-all'), always, 'IfStatement')],
  },
  'cut-looks': {
    removes: 'the soon look at those that were not read so far',
    foundBy: byTest('dispatch/recovery/looks', 'read so many at once, and the others within moments'),
    changes: [change(at('cut-looks'), dropped)],
  },
  'cut-line-left': {
    removes: 'the return to a line of which a part was moved, unless it is the last that was read',
    foundBy: byTest('dispatch/partitions/rehome', 'also where that is not the last one that it read'),
    changes: [change(at('cut-line-left'), becomes('$1 = $2'))],
  },
  'retired-with-jobs': {
    removes: 'the look whether a line is empty before it is retired',
    foundBy: byTest('dispatch/partitions/rehome', 'are no lines to retire in which a job stands'),
    changes: [change(at('retired-with-jobs'), dropped, 'BinaryExpression')],
  },
  'steps-from-the-front': {
    removes: 'the place at which a step of a declaration ended',
    foundBy: byTest('dispatch/partitions/carry', 'go on where the last one stood'),
    changes: [change(at('steps-from-the-front'), dropped)],
  },
  'handover-again': {
    removes: 'what is known of a handover when the next declaration comes',
    foundBy: byTest('dispatch/partitions/carry', 'is the one of its step alone where partitions'),
    changes: [change(at('handover-again'), becomes('$1 > 0'), 'BinaryExpression', 2)],
  },
  'held-and-moved': {
    removes: 'the wait of a parked job for the charge of its earlier attempt, before it is moved',
    foundBy: byTest('dispatch/partitions/carry', 'stay while an attempt of theirs counts here'),
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
  'suspects-beside-others': {
    removes: 'the wait of a job that has lost a worker until nothing runs beside it',
    foundBy: {
      test: 'test/worker/process.test.ts',
      name: 'takes no neighbour along a second time: it runs apart until it has ended, and is quarantined',
    },
    changes: [change(at('suspects-beside-others'), always)],
  },
  'outdated-waits-alone': {
    removes: 'the look whether a message can still start its job, before it keeps all slots to itself',
    foundBy: {
      test: 'test/worker/process.test.ts',
      name: 'keeps no slot free for a message that comes again once the job has ended',
    },
    changes: [change(at('outdated-waits-alone'), never)],
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
  'before-the-first': {
    removes:
      'whose turn it is of two keys with the same share: whoever arrives goes before one that was raised to it',
    foundBy: { differential: 1, kind: 'lifts' },
    changes: [change(at('before-the-first'), becomes('shareMs < leastMs'), 'LogicalExpression')],
  },
  'arrives-by-any': {
    removes: 'which job of a key is the oldest: the last one that is looked at says when the key came',
    foundBy: { differential: 2, kind: 'lifts' },
    changes: [change(at('arrives-by-any'), dropped, 'BinaryExpression')],
  },
  'left-and-gone': {
    removes: 'the second look of a dispatcher that has left a letter: the leader may have ended meanwhile',
    foundBy: { simulation: 1 },
    changes: [change(at('left-and-gone'), always)],
  },
  'looked-before-release': {
    removes:
      'the look for letters after the lead is released: a letter that comes in between is not acted on',
    foundBy: byTest('dispatch/lead/letters', 'that comes at the stopLeading of a lead'),
    changes: [
      change(at('looked-before-release'), dropped),
      change(
        at('looked-before-release-2'),
        becomes(
          'await $1.then(async (read) => { await store.stopLeading({ partition: this.#partition, holder: this.#name }); return read; })',
        ),
        'AwaitExpression',
      ),
    ],
  },
  'names-unread': {
    removes: 'the jobs that letters name',
    foundBy: byTest('dispatch/lead/lead', 'hears of jobs by letters'),
    changes: [change(at('names-unread'), dropped, 'SpreadElement', 2)],
  },
  'deleted-before-the-commit': {
    removes: 'the wait for the commit before letters are deleted: those of a pass that dies are lost',
    foundBy: { simulation: 158 },
    changes: [
      change(
        at('deleted-before-the-commit'),
        becomes(
          '(await store.deleteLetters({ partition, letterIds: letters.map(({ letterId }) => letterId) }), $)',
        ),
        'AwaitExpression',
      ),
    ],
  },
  'deleted-though-refused': {
    removes:
      'the letters of a pass whose commit was refused: they are deleted, and it forgets what they said',
    foundBy: byTest('dispatch/lead/letters', 'stays if that commit is refused'),
    changes: [
      change(
        at('deleted-though-refused'),
        becomes(
          '(await store.deleteLetters({ partition, letterIds: letters.map(({ letterId }) => letterId) }), $)',
        ),
      ),
    ],
  },
  'deletes-of-others': {
    removes: 'which letters a pass has acted on: it deletes all that are there',
    foundBy: byTest('dispatch/lead/letters', 'that comes at the commit of a lead'),
    changes: [
      change(
        at('deletes-of-others'),
        becomes('(await store.readLetters(partition)).letters.map(({ letterId }) => letterId)'),
      ),
    ],
  },
  'lost-and-gone': {
    removes: 'the letter and the wake of a dispatcher whose commits were refused three times',
    foundBy: byTest('dispatch/lead/letters', 'leaves a letter, then sends a wake'),
    changes: [change(at('lost-and-gone'), dropped)],
  },
  'woken-for-nothing': {
    removes:
      'the commit of a run that was woken, where it has nothing to write: what was planned before is not void',
    foundBy: byTest('dispatch/lead/lead', 'commits though it has nothing to write'),
    changes: [change(at('woken-for-nothing'), never)],
  },
  'unreadable-says-nothing': {
    removes: 'the look at all where a letter cannot be read',
    foundBy: {
      test: 'test/integration/unreadable-items.test.ts',
      name: 'of a letter: everything is to be looked at',
      onEmulator: true,
    },
    changes: [change(at('unreadable-says-nothing'), never, 'Property', 4)],
  },
  'left-unsaid': {
    removes: 'the instant until which a read of the lines may miss a job that is left waiting',
    foundBy: { test: 'test/dispatch/pass/quiet.test.ts', name: 'is not seen by others before an instant' },
    changes: [change(at('left-unsaid'), never)],
  },
  'quiet-before-whole': {
    removes: 'the wait for that instant before anybody says that nothing waits',
    foundBy: { test: 'test/dispatch/pass/quiet.test.ts', name: 'keeps the partition from being quiet until' },
    changes: [change(at('quiet-before-whole'), never, 'BinaryExpression')],
  },
  'unseen-and-unwoken': {
    removes: 'the wake for that instant',
    foundBy: { test: 'test/dispatch/pass/quiet.test.ts', name: 'starts by a wake for that instant' },
    changes: [change(at('unseen-and-unwoken'), dropped)],
  },
  'moved-unconfirmed': {
    removes: 'the commit that proves what is in flight before a job is moved to another partition',
    foundBy: byTest('dispatch/partitions/rehome', 'are none where another commit came first'),
    changes: [change(at('moved-unconfirmed'), dropped)],
  },
  'told-and-believed': {
    removes: 'the look at a job that hints told of, and that nobody has read: it may not wait any more',
    foundBy: byTest('dispatch/pass/overtaken', 'tells of none that has ended'),
    changes: [change(at('told-and-believed'), always, 'BinaryExpression')],
  },
  'claim-version': {
    removes: 'the version in the condition of a claim',
    foundBy: byTest('contract/memory', 'makes every claim fail that was planned before'),
    changes: [
      change(
        at('claim-version'),
        becomes('item === undefined ? undefined : claim(item.value, won, item.value.version)'),
      ),
    ],
  },
  'promote-version': {
    // Either is enough: the version alone, or the time of the job as it is.
    removes: 'the version and the time in the condition of a promotion',
    foundBy: byTest('contract/memory', 'makes what was planned with the older time fail'),
    changes: [
      change(
        at('promote-version'),
        becomes('item === undefined ? undefined : promote(item.value, Number.MAX_SAFE_INTEGER)'),
      ),
    ],
  },
  'rests-ignored': {
    removes: 'the rest of a scope from what a pass obeys',
    foundBy: byTest('worker/rests', 'lets its type rest, and nothing else'),
    changes: [change(at('rests-ignored'), never, 'BinaryExpression')],
  },
  'unwritten-rests': {
    removes: 'writing a rest before its attempt ends',
    foundBy: byTest('worker/rests', 'rests in every partition of its type'),
    changes: [change(at('unwritten-rests'), dropped)],
  },
  'pauses-for-ever': {
    removes: 'the end of a pause that ends by itself',
    foundBy: byTest('contract/memory', 'ends a change by itself, and keeps it in the history'),
    changes: [change(at('pauses-for-ever'), always, 'UnaryExpression')],
  },
  'starts-late': {
    removes: 'the refusal of a start that comes too late for its rate',
    foundBy: byTest('worker/run-job', 'that comes too late runs no handler'),
    changes: [change(at('starts-late'), never)],
  },
  'uses-forgotten': {
    removes: 'what ended attempts have used of limits: only what is in flight counts',
    foundBy: byTest('dispatch/pass/limits', 'and is nearly used: short jobs'),
    changes: [change(at('uses-forgotten'), becomes('{ total: undefined, ofLedgers: new Map() }'))],
  },
  'units-as-starts': {
    removes: 'the units of a start: it counts as one',
    foundBy: { simulation: 25 },
    changes: [change(at('units-as-starts'), becomes('1'))],
  },
  'larger-than-allowed': {
    removes: 'the room for a job that waits with more units than a job may have since a deployment',
    foundBy: byTest('dispatch/pass/limits', 'with more units than a job may have since a deployment'),
    changes: [change(at('larger-than-allowed'), dropped)],
  },
  'limits-by-fairness-key': {
    removes: 'the key by which a limit counts what runs',
    foundBy: byTest('dispatch/pass/limits', 'has a cap for each of its keys'),
    changes: [change(at('limits-by-fairness-key'), becomes('this.#keyGate(at, job.fairnessKey)'))],
  },
  'spent-and-unwatched': {
    removes: 'the jobs in ready lines by which a pass sees when a rate opens',
    foundBy: byTest('dispatch/pass/limits', 'also if all jobs of the key are parked'),
    changes: [change(at('spent-and-unwatched'), always)],
  },
  'woken-and-parked-again': {
    removes: 'the next job that is parked for a key with room, once the one before it is blocked by another',
    foundBy: byTest('core/scheduler', 'let those behind them start once one of the keys has room'),
    changes: [change(at('woken-and-parked-again'), dropped)],
  },
  'limits-as-declared-now': {
    removes: 'the limits under which a job was reserved, once its type is under others',
    foundBy: byTest('dispatch/pass/limits', 'count a job that was reserved under them'),
    changes: [change(at('limits-as-declared-now'), always)],
  },
  'limits-as-reserved': {
    removes: 'the limits of a type now, for a job that was reserved when its type was under others',
    foundBy: byTest('dispatch/pass/limits', 'puts a type of another limit under a rate'),
    changes: [
      change(at('limits-as-reserved'), becomes('this.#numbersIn(reserved.limits)')),
      change(at('limits-as-reserved-2'), becomes('(job.limits ?? $)')),
    ],
  },
  'started-when-reserved': {
    removes: 'the time that a message may take: a start counts from its reservation',
    foundBy: byTest('dispatch/pass/limits', 'however long messages take'),
    changes: [change(at('started-when-reserved'), becomes('latestStartMs(job) - 6_000'), 'CallExpression')],
  },
  'late-without-a-rate': {
    removes: 'the late start of a job that was reserved before its type was under a rate',
    foundBy: byTest('dispatch/pass/limits', 'that adds a rate counts jobs whose messages come late'),
    changes: [change(at('late-without-a-rate'), becomes('startByMs ?? 0'))],
  },
  'redriven-too-large': {
    removes: 'the refusal of a redrive with more units than a job may have since a deployment',
    foundBy: byTest('client/operate', 'is refused if a deployment has lowered what one job may have'),
    changes: [change(at('redriven-too-large'), becomes('undefined'))],
  },
  'fired-too-large': {
    removes: 'the refusal of a firing whose job has more units than a job may have since a deployment',
    foundBy: byTest('schedules/firing', 'makes no job, the history says so, and a request'),
    changes: [change(at('fired-too-large'), becomes('false'))],
  },
  'bound-despite-limits': {
    removes: 'the missing bound of a job that a limit, or a cap of its key, may hold for longer',
    foundBy: byTest('core/explain', 'promises no bound under limits'),
    changes: [change(at('bound-despite-limits'), never)],
  },
  'rests-for-nothing': {
    removes: 'the least time of a rest',
    foundBy: byTest('worker/rests', 'rests for a second at least: 0 ms'),
    changes: [
      change(at('rests-for-nothing'), becomes('Math.min(untilMs, nowMs + REST_MAX_MS)'), 'CallExpression'),
    ],
  },
  'raise-before-give-up': {
    removes: 'raising the version before a place is given up',
    foundBy: byTest('dispatch/recovery/recovery', 'has its version raised before its place is given away'),
    changes: [change(at('raise-before-give-up'), always)],
  },
  'unknown-claims': {
    removes: 'the difference between a claim that was lost and one that was not answered',
    foundBy: byTest('dispatch/pass/pass', 'without an answer goes on counting'),
    changes: [
      change(at('unknown-claims-lent'), becomes("outcome === 'unknown' ? this.#dropEntry(place) : $")),
    ],
  },
};
