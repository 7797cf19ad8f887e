/** Bugs that are planted as changes of the sources: about what starts next, and whether anything does. */
import type { Planted } from './planted-bug.ts';
import { COMMIT_CHANGES } from './planted-commits.ts';
import { SCHEDULE_CHANGES } from './planted-schedules.ts';
import { SMALL_PRINT_CHANGES } from './planted-small-print.ts';
import { TAKEOVER_CHANGES } from './planted-takeovers.ts';

/** Of `small-runs.ts`. */
const REDEPLOYED =
  'another conflict group, another fleet and another timeout, while jobs run, wait and are parked';

export const CHANGED: Readonly<Record<string, Planted>> = {
  ...COMMIT_CHANGES,
  ...SCHEDULE_CHANGES,
  ...SMALL_PRINT_CHANGES,
  ...TAKEOVER_CHANGES,
  'dropped-hint': {
    removes: 'what a hint told from what is cached, where its job does not start in the pass that heard it',
    foundBy: { differential: 9, kind: 'order' },
    changes: [
      {
        file: 'lib/dispatch/line-images.ts',
        from: 'else lines.heads.set(name, withChanges(known, changed, coming, compare));',
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
    changes: [
      {
        file: 'lib/dispatch/hinted-jobs.ts',
        from: 'if (job.version > told.version) noteImages(this.#cached, [job], this.#places, this.#nowMs);',
        to: '',
      },
    ],
  },
  'ends-taken-for-others': {
    removes:
      'the version of an end that went straight from what was admitted: a job that waits again stays after its end',
    foundBy: {
      test: 'test/dispatch/hints.test.ts',
      name: 'forgets a job with its end, also where it waited anew after it was admitted',
    },
    changes: [
      {
        file: 'lib/core/life-cycle.ts',
        from: "job.state === 'succeeded' && job.version === version + ATTEMPT_STEPS;",
        to: "job.state === 'succeeded' && job.version >= version + ATTEMPT_STEPS;",
      },
    ],
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
  'ended-read-ahead': {
    removes: 'the look at what was read ahead of a line, where a job has ended straight from its admission',
    foundBy: {
      test: 'test/dispatch/hints.test.ts',
      name: 'forgets a job with its end, also what was read ahead of it',
    },
    changes: [
      {
        file: 'lib/dispatch/line-images.ts',
        from: 'return next.every(({ ahead }) => ahead.length === 0);',
        to: 'return next.length >= 0;',
      },
    ],
  },
  'known-from-its-admission': {
    removes: 'the time from its end for which it is known of a job that it does not wait',
    foundBy: {
      test: 'test/dispatch/hints.test.ts',
      name: 'knows for a minute from its end that a job does not wait any more',
    },
    changes: [
      {
        file: 'lib/dispatch/line-images.ts',
        from: '(isEndOfOutdated(lines, job, places.nameOf) ? others : told).push(job)',
        to: 'if (!isEndOfOutdated(lines, job, places.nameOf)) told.push(job)',
      },
    ],
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
  'told-of-a-part-left-to-another': {
    removes: 'the part of a job that a hint tells of, where what it tells is left to the index',
    foundBy: {
      test: 'test/dispatch/line-parts.test.ts',
      name: 'is kept for the part that was read to its end, though another goes on',
    },
    changes: [
      {
        file: 'lib/dispatch/line-parts.ts',
        from: 'each.sub === sub && each.rank > untilRank',
        to: 'each.rank > untilRank',
      },
    ],
  },
  'read-beyond-left-to-index': {
    removes: 'the rank to which a part was read, where what a hint tells is left to the index',
    foundBy: {
      test: 'test/dispatch/line-parts.test.ts',
      name: 'is kept where it ranks before what was read of its part',
    },
    changes: [
      {
        file: 'lib/dispatch/line-parts.ts',
        from: 'each.sub === sub && each.rank > untilRank',
        to: 'each.sub === sub',
      },
    ],
  },
  'unread-part': {
    removes: 'the read of a line, once a hint tells of a part of it that was not read',
    foundBy: {
      test: 'test/dispatch/hints.test.ts',
      name: 'is nothing more once a hint tells of a part of it that was not read',
    },
    changes: [
      {
        file: 'lib/dispatch/line-images.ts',
        from: 'if (coming.some(({ sub }) => !known.subs.includes(sub))) lines.heads.delete(name);\n  else ',
        to: '',
      },
    ],
  },
  'front-again': {
    removes: 'the way past what a bound left unseen: each plan begins at the front again',
    foundBy: { differential: 4, kind: 'walls' },
    changes: [
      { file: 'lib/dispatch/pass/close.ts', from: 'if (groups.size === 0 ||', to: 'if (groups.size >= 0 ||' },
      { file: 'lib/dispatch/pass/close.ts', from: '(isTruncated && (admitted', to: '(false && (admitted' },
      {
        file: 'lib/dispatch/pass/plan.ts',
        from: 'return { blockedMax, blockedPerConflict };',
        to: 'return { blockedMax: Math.min(BLOCKED_MIN, blockedMax), blockedPerConflict: 0 };',
      },
    ],
  },
  'first-page-of-keys': {
    removes: 'what is behind the first page of a keys line',
    foundBy: {
      test: 'test/dispatch/blocked.test.ts',
      name: 'because each is at its cap keep no other key waiting',
    },
    changes: [
      {
        file: 'lib/dispatch/backlogged-keys.ts',
        from: 'told: known?.told,\n      next: read.next,',
        to: 'told: known?.told,\n      next: undefined,',
      },
    ],
  },
  'untold-losses': {
    removes: 'losses of workers from the histories of jobs',
    foundBy: { simulation: 1 },
    changes: [
      {
        file: 'lib/core/life-cycle.ts',
        from: "if (verdict.kind !== 'retry' && lost === 0) return undefined;",
        to: "if (verdict.kind !== 'retry' || lost === 1) return undefined;",
      },
    ],
  },
  'unbounded-marker': {
    removes: 'the bound on what the page says of reservations',
    foundBy: {
      test: 'test/store/bounds.test.ts',
      name: 'stays as small, however many reservations there are',
    },
    changes: [{ file: 'lib/store/page.ts', from: 'if (bytes <= MARKS_BYTES_MAX || ', to: 'if (true || ' }],
  },
  'tiers-in-one-batch': {
    removes: 'the order of tiers in all but the first batch of a pass',
    foundBy: { differential: 1, kind: 'order' },
    changes: [
      {
        file: 'lib/core/planner.ts',
        from: `for (let tier = 0; tier < this.#scheduler.index.tiers.length; tier += 1) {
        if (belowGuarantee`,
        to: `for (let nth = 0; nth < this.#scheduler.index.tiers.length; nth += 1) {
        const tier = this.#gone.size < 2 ? nth : this.#scheduler.index.tiers.length - 1 - nth;
        if (belowGuarantee`,
      },
    ],
  },
  'on-demand-behind': {
    removes: 'the head start of jobs on demand',
    foundBy: { differential: 1, kind: 'order' },
    changes: [
      {
        file: 'lib/core/best-line.ts',
        from: '(ageSec + onDemandAgeSec) * nowMs + onDemand * 1000;',
        to: '(ageSec + onDemandAgeSec) * nowMs;',
      },
    ],
  },
  'age-of-lost': {
    removes: 'the age of a job that lost its worker',
    foundBy: { simulation: 15 },
    changes: [
      {
        file: 'lib/core/life-cycle.ts',
        from: 'const again = lost === 1 ? kept :',
        to: 'const again = lost === 1 ? readyAgain(kept, runAtMs) :',
      },
    ],
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
    changes: [
      {
        file: 'lib/dispatch/pass/admit.ts',
        from: 'if (quiet === null) return this.#quiet !== undefined;',
        to: 'if (quiet === null) return false;',
      },
    ],
  },
  'quiet-though-missed': {
    removes: 'the doubt of who finds that word was left, and does not know of what',
    foundBy: {
      test: 'test/dispatch/quiet.test.ts',
      name: 'is looked at once word was left by somebody who was told of a job and had to go',
    },
    changes: [
      {
        file: 'lib/dispatch/pass/load.ts',
        from: '!input.hasMissed &&',
        to: '',
      },
    ],
  },
  'quiet-though-the-line-goes-on': {
    removes:
      'the doubt about a line of which more stands behind what was read, where all that was read starts',
    foundBy: {
      test: 'test/dispatch/quiet.test.ts',
      name: 'does not say so when a line goes on behind what was read of it, though all of that starts',
    },
    changes: [
      {
        file: 'lib/dispatch/quiet.ts',
        from: `if (known === undefined || known.next !== undefined) return undefined;
    if (subLinesOf`,
        to: `if (known === undefined) return undefined;
    if (subLinesOf`,
      },
    ],
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
    changes: [
      {
        file: 'lib/dispatch/settle/silence.ts',
        from: 'await queue.sendLook(partition, Math.max(0, next.nextAtMs - clock.nowMs()), next.nextAtMs);',
        to: 'if ((await store.keepLookout({ partition, seen, next })) === "superseded") return "superseded"; await queue.sendLook(partition, Math.max(0, next.nextAtMs - clock.nowMs()), next.nextAtMs); return "applied";',
      },
    ],
  },
  'looks-of-others-too': {
    removes:
      'what a look at the workers was noted for: each copy of its message goes on by itself, and so do the copies of those',
    foundBy: {
      test: 'test/dispatch/worker-looks.test.ts',
      name: 'do not multiply where each message comes three times, 4000 ms apart',
    },
    changes: [
      {
        file: 'lib/dispatch/settle/look.ts',
        from: 'state.lookout?.nextAtMs !== atMs',
        to: 'state.lookout === undefined',
      },
    ],
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
    changes: [
      {
        file: 'lib/dispatch/submit.ts',
        from: 'Math.min(nowMs, atMs[at] ?? -Infinity)',
        to: 'nowMs',
      },
    ],
  },
  'moved-without-a-mark': {
    removes:
      'what the page says of a reservation that has moved from it to an item: what was settled there counts again',
    foundBy: {
      test: 'test/store/page.test.ts',
      name: 'means what every ledger and every reservation would, each in an item of its own',
    },
    changes: [
      {
        file: 'lib/store/page.ts',
        from: 'if (item !== undefined) batches.set(batchId, markOf(item, left.get(batchId)));',
        to: '',
      },
    ],
  },
  guarantees: {
    removes: 'the turn of tiers below their guarantee before all others',
    foundBy: { differential: 11, kind: 'order' },
    changes: [
      {
        file: 'lib/core/planner.ts',
        from: 'for (const belowGuarantee of [true, false]) {',
        to: 'for (const belowGuarantee of [false]) {',
      },
    ],
  },
  'one-page-of-due': {
    removes: 'due work beyond the first page: it is left to the next tick',
    foundBy: { differential: 4, kind: 'time' },
    changes: [
      {
        file: 'lib/dispatch/pass/promote.ts',
        from: 'const PROMOTE_ROUNDS_MAX = 10;',
        to: 'const PROMOTE_ROUNDS_MAX = 1;',
      },
      {
        file: 'lib/dispatch/pass/promote.ts',
        from: 'more: due.some(({ jobs, next }) => jobs.length > 0 || next !== undefined)',
        to: 'more: false',
      },
    ],
  },
  'stale-controls': {
    removes: 'reading caps and pauses again: those of the first pass stay in force',
    foundBy: { differential: 1, kind: 'controls' },
    changes: [
      {
        file: 'lib/dispatch/pass/plan.ts',
        from: 'return { share: configuration, ...slots, overrides: state.controls };',
        to: `return {
          share: configuration,
          ...slots,
          overrides: ((context.caches as unknown as { controls: typeof state.controls }).controls ??= state.controls),
        };`,
      },
    ],
  },
  'parked-by-another': {
    removes: 'looking for jobs that another dispatcher has parked',
    foundBy: { differential: 2, kind: 'conflicts' },
    changes: [
      {
        file: 'lib/dispatch/pass/settle.ts',
        from: 'if (!state.parks) return NOTHING_PARKED;',
        to: 'if (!state.parks || cached.marked.size === 0) return NOTHING_PARKED;',
      },
    ],
  },
  'parked-not-freed': {
    removes: 'the look at what is parked behind a conflict key that a settlement lets go',
    foundBy: { differential: 1, kind: 'conflicts' },
    changes: [
      {
        file: 'lib/dispatch/pass/settle.ts',
        from: '...settled.flatMap(({ entry }) => keysHeldBy(types, entry)),',
        to: '',
      },
      {
        file: 'lib/dispatch/pass/settle.ts',
        from: '...[...seen.values()].flatMap((job: JobHead) => keyLetGo(context, job) ?? []),',
        to: '',
      },
    ],
  },
  'weight-of-flight': {
    removes: 'the weight from what is in flight',
    foundBy: { differential: 12, kind: 'keys' },
    changes: [
      {
        file: 'lib/core/scheduler.ts',
        from: 'this.ledgers.hold(key, reserved.estimatedCostMs, nowMs);',
        to: 'this.ledgers.hold(key, reserved.estimatedCostMs * this.ledgers.weightOf(key), nowMs);',
      },
    ],
  },
  'flight-uncounted': {
    removes: 'what is in flight from the cost of its key',
    foundBy: { differential: 1, kind: 'order' },
    changes: [
      {
        file: 'lib/core/scheduler.ts',
        from: 'this.ledgers.hold(key, reserved.estimatedCostMs, nowMs);',
        to: 'this.ledgers.hold(key, 0, nowMs);',
      },
    ],
  },
  'gone-forgotten': {
    removes: 'a key that has left the page is none of its base',
    foundBy: { test: 'test/store/page.test.ts', name: 'that have left it are not what its base says' },
    changes: [
      {
        file: 'lib/store/dynamodb/codec/page.ts',
        from: '!since.has(key) && gone?.has(key) !== true',
        to: '!since.has(key)',
      },
    ],
  },
  'base-of-a-refused-commit': {
    removes: 'only the base of a commit that was written is known',
    foundBy: {
      test: 'test/integration/ledger-base.test.ts',
      name: 'are those of the commit that counts',
      onEmulator: true,
    },
    changes: [
      {
        file: 'lib/store/dynamodb/partition.ts',
        from: '    const written = isPageAlone(turn, commit)',
        to: '    if (turn.base !== undefined) this.#items.knowBase(partition, turn.base);\n    const written = isPageAlone(turn, commit)',
      },
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
  'looked-up-for-ever': {
    removes: 'the end of the time in which an end is looked for of which the stream tells',
    foundBy: {
      test: 'test/dispatch/likely-over.test.ts',
      name: 'is not looked for where the stream has told',
    },
    changes: [
      {
        file: 'lib/dispatch/pass/likely-over.ts',
        from: 'forMs < UNTOLD_MS && ',
        to: '',
      },
    ],
  },
  'moved-back': {
    removes: 'keys that move to the front of their line while it is being read: no later page shows them',
    foundBy: { test: 'test/dispatch/moved-back.test.ts', name: 'is read by its name' },
    changes: [
      {
        file: 'lib/dispatch/backlogged-keys.ts',
        from: 'known === undefined ? [] : this.#movedBack(type, known),',
        to: '[] as KeyBacklog[],',
      },
    ],
  },
  'fractions-of-cost': {
    removes: 'whole units of cost: ties on paper are decided by rounding',
    foundBy: { differential: 34, kind: 'order' },
    changes: [
      {
        file: 'lib/core/fairness.ts',
        from: 'costOf(unitsOf(costMs));',
        to: 'costMs;',
      },
    ],
  },
  'old-images': {
    removes: 'the versions of images: an old one takes the place of what is known',
    foundBy: { differential: 40, kind: 'time' },
    changes: [
      {
        file: 'lib/dispatch/line-images.ts',
        from: 'if (isOutdated(lines, job) || knownVersion(told, read, job) > job.version) continue;',
        to: '',
      },
    ],
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
        from: 'if (cache.loaded === undefined || cache.loaded.turn === turn) return;',
        to: 'if (cache.loaded === undefined || turn >= 0) return;',
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
    changes: [
      {
        file: 'lib/worker/membership.ts',
        from: 'lease.renewed = laterBy(asked, extensionMs);',
        to: 'lease.renewed = laterBy(instantOf(clock), extensionMs);',
      },
    ],
  },
  'trust-before-it-is-written': {
    removes:
      'the wait for the heartbeat that asks for a longer lease: the worker trusts it as soon as it knows',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'counts from before its first heartbeat was sent',
    },
    changes: [
      {
        file: 'lib/worker/membership.ts',
        from: 'lease.renewed = laterBy(asked, extensionMs);',
        to: 'lease.renewed = laterBy(asked, leaseExtensionMs(leaseMs, lease.slowMs));',
      },
    ],
  },
  'lease-taken-back': {
    removes:
      'the end that a longer lease was given from the heartbeats that follow: the store does not write them',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'writes what a heartbeat says also while it becomes shorter',
    },
    changes: [
      {
        file: 'lib/worker/membership.ts',
        from: 'lease.expiresAtMs = Math.max(lease.expiresAtMs, expiresAtMs);',
        to: 'lease.expiresAtMs = expiresAtMs;',
      },
    ],
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
        from: 'if (cache.loaded === undefined || cache.loaded.turn === turn) return;',
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
    changes: [
      {
        file: 'lib/dispatch/explain.ts',
        from: 'const seen = [...due.jobs, ...line.jobs,',
        to: 'const seen = [...line.jobs,',
      },
    ],
  },
  'explained-without-locks': {
    removes: 'locks of other partitions from what explain says of the next pass',
    foundBy: { test: 'test/dispatch/explain.test.ts', name: 'is started by' },
    changes: [
      {
        file: 'lib/core/explain.ts',
        from: 'state.keptBack?.has(id) !== true',
        to: 'state.keptBack !== undefined',
      },
    ],
  },
  'unknown-claims-lent': {
    removes: 'claims that were not answered from what is held when capacity is lent',
    foundBy: { test: 'test/dispatch/loans.test.ts', name: 'has just filled, be its claims unknown' },
    changes: [
      {
        file: 'lib/dispatch/pass/admit.ts',
        from: `} else {
      this.#hold(decision);`,
        to: `} else if (outcome === 'unknown') {
      this.#pass.planner.confirm(decision);
    } else {
      this.#hold(decision);`,
      },
    ],
  },
  'marks-not-renewed': {
    removes: 'renewing the mark of a blocked line',
    foundBy: { test: 'test/dispatch/parked-lines.test.ts', name: 'their mark outlives a look' },
    changes: [
      {
        file: 'lib/dispatch/parking.ts',
        from: '(conflictKey) => nowMs - (marked.get(conflictKey) ?? -Infinity) > RENEW_AFTER_MS,',
        to: '(conflictKey) => !marked.has(conflictKey),',
      },
    ],
  },
  'retired-while-parked': {
    removes: 'announcing the lines of jobs that come back from blocked lines',
    foundBy: { test: 'test/dispatch/parked-lines.test.ts', name: 'a line that is retired meanwhile' },
    changes: [
      {
        file: 'lib/dispatch/parking.ts',
        from: `const outcomes = await putAnnounced(asSubmitter(context), waiting, () =>
        context.store.unpark({ jobs: waiting, conflictKey }),
      );`,
        to: 'const outcomes = await context.store.unpark({ jobs: waiting, conflictKey });',
      },
    ],
  },
  'loss-by-own-clock': {
    removes: 'the instant of a loss as its item has it: it is charged by the own clock',
    foundBy: {
      test: 'test/dispatch/recovery.test.ts',
      name: 'whose loss another dispatcher has noted a little earlier',
    },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: '(outcome.job.finishedAtMs ?? nowMs) - startedAtMs',
        to: 'nowMs - startedAtMs',
      },
    ],
  },
  'commit-turn': {
    removes: 'the turn that a commit follows from its condition, in the memory store',
    foundBy: { test: 'test/contract/memory.test.ts', name: 'follows the turn that it knows, once' },
    changes: [
      {
        file: 'lib/store/memory/partition.ts',
        from: 'if (commit.turn !== undefined && commit.turn !== present.page.turn) {',
        to: 'if (commit.turn === -1) {',
      },
    ],
  },
  'commit-sequence': {
    removes: 'the turn that a commit follows from its condition, in the table',
    foundBy: {
      test: 'test/integration/commit-sequence.test.ts',
      name: 'is refused, and takes nothing back: a later one, by its turn',
      onEmulator: true,
    },
    changes: [
      {
        file: 'lib/store/dynamodb/partition.ts',
        from: "const follows = before.turn === 0 ? '(attribute_not_exists(#pk) OR #turn = :turn)' : '#turn = :turn';",
        to: "const follows = '(attribute_not_exists(#pk) OR #turn >= :turn)';",
      },
    ],
  },
  'front-of-every-age': {
    removes: 'the age beyond which a pass does not take what the look ahead shows of a due line',
    foundBy: {
      test: 'test/dispatch/due-fronts.test.ts',
      name: 'was frozen for more than a second after its look reads the due lines itself',
    },
    changes: [
      {
        file: 'lib/dispatch/timers.ts',
        from: 'if (nowMs > readAtMs + FRONT_TRUSTED_MS) return false;',
        to: '',
      },
      {
        file: 'lib/dispatch/timers.ts',
        from: 'const { instants, isCut, readAtMs } =',
        to: 'const { instants, isCut } =',
      },
    ],
  },
  'front-after-word': {
    removes: 'that word which was left makes a pass read the due lines itself, whatever the look ahead shows',
    foundBy: {
      test: 'test/dispatch/due-fronts.test.ts',
      name: 'is told of something that came after its look reads the due lines itself',
    },
    changes: [
      {
        file: 'lib/dispatch/dispatch.ts',
        from: `// What became due since the look ahead has its wake left as word.
    this.#fronts = undefined;`,
        to: '',
      },
    ],
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
      {
        file: 'lib/store/dynamodb/lines.ts',
        from: ' AND size(#lines) > :one`',
        to: ' OR size(#lines) > :one`',
      },
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
      {
        file: 'lib/store/dynamodb/lines.ts',
        from: ' AND size(#lines) = :one`',
        to: ' AND size(#lines) >= :one`',
      },
    ],
  },
  'no-wake-for-due': {
    removes: 'the wakes for work that becomes due before the next tick',
    foundBy: { simulation: 182 },
    changes: [
      {
        file: 'lib/dispatch/dispatch.ts',
        from: `const look = fronts
        ? wakeForDueWork(context, partition, fronts)
        : trigger.dueAtMs === undefined
          ? wakeFor(context, partition, jobs)
          : wakeAgain(context, partition, trigger.dueAtMs);`,
        to: 'const look = fronts && Promise.all([...fronts.jobs.values(), fronts.schedules]);',
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
      {
        file: 'lib/dispatch/parking.ts',
        from: 'if (waiting.length === 0) return [];',
        to: 'if (waiting.length >= 0) return [];',
      },
    ],
  },
  'former-life': {
    removes: "the time that a worker's former life may still run",
    foundBy: { test: 'test/dispatch/recovery.test.ts', name: 'has what its former one runs taken from it' },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: ' || nowMs < (record.formerUntilMs ?? 0)',
        to: '',
      },
    ],
  },
  'outage-guard': {
    removes: 'the time that workers have after an outage',
    foundBy: {
      test: 'test/dispatch/recovery.test.ts',
      name: 'nothing is declared lost until the partition has been read for a lease',
    },
    changes: [
      {
        file: 'lib/dispatch/settle/silence.ts',
        from: 'if (nowMs - sinceMs >= ATTENDED_MS) return true;',
        to: 'if (nowMs >= sinceMs) return true;',
      },
    ],
  },
  'checkpoint-claim': {
    removes: 'claim, worker and incarnation in the condition of a checkpoint',
    foundBy: { test: 'test/contract/memory.test.ts', name: 'are refused from another life of the worker' },
    changes: [
      {
        file: 'lib/store/memory/worker.ts',
        from: `if (item?.value.state !== 'running' || !isSameAttempt(item.value, { ...job, worker }))
        return 'superseded';
      const kept = { ...item.value, checkpoint };`,
        to: `if (item?.value.state !== 'running') return 'superseded';
      const kept = { ...item.value, checkpoint };`,
      },
    ],
  },
  'no-looks': {
    removes: 'the looks at workers between passes: whoever passes anyway may find that one is gone',
    foundBy: { crashWorld: 4 },
    changes: [
      {
        file: 'lib/dispatch/settle/silence.ts',
        from: 'runsOnWorkers(state, held) &&',
        to: 'held.length < 0 &&',
      },
    ],
  },
  'last-look': {
    removes: 'the look that follows a look',
    foundBy: { crashWorld: 4 },
    changes: [
      {
        file: 'lib/dispatch/settle/look.ts',
        from: 'if (state.lookout?.nextAtMs !== atMs || !runsOnWorkers(state, places))',
        to: 'if (places.length > 0)',
      },
    ],
  },
  'patient-checks': {
    removes: 'the look-up of what ran under a lease that has ended, before its reservation is checked',
    foundBy: { crashWorld: 1 },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'return this.#suspicion?.isSuspect(reservation, position, entry) ?? false;',
        to: 'return false;',
      },
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'if (suspicion === undefined) return { checked, others: [], late, hasMoreDue };',
        to: 'if (suspicion !== null) return { checked, others: [], late, hasMoreDue };',
      },
    ],
  },
  'unwitnessed-looks': {
    removes: 'what looks tell of the store: only commits of passes show that there was no outage',
    foundBy: { crashWorld: 13 },
    changes: [
      {
        file: 'lib/dispatch/settle/silence.ts',
        from: 'if (lookout === undefined) return page;',
        to: 'if (page !== undefined || lookout === undefined) return page;',
      },
    ],
  },
  'former-lives': {
    removes: 'the end of the lease of a life whose name has begun another one',
    foundBy: { crashWorld: 37 },
    changes: [
      {
        file: 'lib/dispatch/settle/silence.ts',
        from: '...(formerUntilMs === undefined ? []',
        to: '...(workers.length > 0 ? []',
      },
    ],
  },
  'former-group': {
    removes: 'the conflict key of the group that the type of a job in flight has by now',
    foundBy: { smallRun: REDEPLOYED },
    changes: [
      {
        file: 'lib/dispatch/pass/plan.ts',
        from: 'for (const each of others) planner.holdConflict(each, roomUnder(types.get(entry.type), each));',
        to: '',
      },
    ],
  },
  'older-declaration': {
    removes: 'the end of a pass whose partition knows of a newer declaration',
    foundBy: { simulation: 4 },
    changes: [
      {
        file: 'lib/dispatch/pass/load.ts',
        from: 'if (declared > deployed.version) return declared;',
        to: '',
      },
    ],
  },
  'untold-declaration': {
    removes: 'the word that a partition has of what is declared',
    foundBy: { simulation: 4 },
    changes: [
      {
        file: 'lib/dispatch/pass/load.ts',
        from: 'if (declared < deployed.version) await store.announceDeclaration({ partition, version: deployed.version });',
        to: '',
      },
      {
        file: 'lib/dispatch/declare.ts',
        from: 'await store.announceDeclaration({ partition, version });',
        to: '',
      },
    ],
  },
  'claims-of-gone-fleets': {
    removes: 'giving claims back whose fleet is gone',
    foundBy: {
      test: 'test/dispatch/redeploy.test.ts',
      name: 'with a lock, for a fleet that is gone, wait again at once',
    },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'if (job !== undefined && !this.#fleets.has(place.entry.fleet))',
        to: 'if (job !== undefined && this.#fleets.size === 0)',
      },
    ],
  },
  'carry-one-step': {
    removes: 'all but the first step of moving jobs to where a declaration wants them',
    foundBy: { smallRun: REDEPLOYED },
    changes: [{ file: 'lib/dispatch/carry.ts', from: 'isDone: step.isDone,', to: 'isDone: true,' }],
  },
  'no-carry': {
    removes: 'moving jobs to where a declaration wants them',
    foundBy: { smallRun: REDEPLOYED },
    changes: [
      {
        file: 'lib/dispatch/carry.ts',
        from: 'if (!isWalk && parks) {',
        to: 'if (!isWalk && parks === undefined) {',
      },
    ],
  },
  'newest-terms': {
    removes: 'the terms of its claim from an attempt: those that its worker knows hold',
    foundBy: { simulation: 6 },
    changes: [
      {
        file: 'lib/worker/run-job.ts',
        from: 'return { type: (await context.typeUnder(declared, job.type)) ?? known.type };',
        to: 'return known;',
      },
    ],
  },
  'terms-of-the-lost': {
    removes: 'the terms of its claim from an attempt that is taken away: what is declared by then holds',
    foundBy: { simulation: 6 },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'return (await deployed.typeUnder(declared, job.type)) ?? present;',
        to: 'return present;',
      },
    ],
  },
  'terms-of-the-dead': {
    removes: 'the terms of its claim from an attempt whose function died',
    foundBy: {
      test: 'test/dispatch/redeploy.test.ts',
      name: 'also when the message of their function says that it died',
    },
    changes: [
      {
        file: 'lib/worker/dead-function.ts',
        from: 'await termsOf(context, job)',
        to: '{ type: context.configuration.types.find((each) => each.type === job.type) }',
      },
    ],
  },
  'told-before-reserved': {
    removes: 'the wait for the commit before a fleet is told',
    foundBy: { simulation: 1 },
    changes: [
      {
        file: 'lib/dispatch/pass/admit.ts',
        from: 'const places = await this.#reserve(decisions);',
        to: 'const reserved = this.#reserve(decisions); reserved.catch(() => {}); const places = this.#placesFor(decisions); if (decisions.length > 0) await this.#hand(places); await reserved; decisions = [];',
      },
    ],
  },
  'told-places-are-free': {
    removes: 'places whose jobs nobody has started from what a pass takes as held',
    foundBy: { simulation: 1 },
    changes: [
      {
        file: 'lib/core/life-cycle.ts',
        from: "return { kind: 'mayCome' };",
        to: "return { kind: 'gone' };",
      },
    ],
  },
  'overtaken-unseen': {
    removes:
      'the look at chosen jobs that an index shows, and that other dispatchers may have started before',
    foundBy: { test: 'test/dispatch/overtaken.test.ts', name: 'tells of none that has ended' },
    changes: [
      {
        file: 'lib/dispatch/hinted-jobs.ts',
        from: 'if (doubted.length === 0) return [];',
        to: 'if (doubted.length >= 0) return [];',
      },
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
    changes: [
      {
        file: 'lib/dispatch/parking.ts',
        from: 'const asked = { partition, conflictKey, groups: budget.blockedGroups, butFor };',
        to: 'const asked = { partition, conflictKey, groups: budget.blockedGroups };',
      },
    ],
  },
  'locks-are-forgotten': {
    removes: 'that a place which was reserved under another declaration may have needed a lock',
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: 'does not start beside one of its conflict key',
    },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'return isExcluded && reservation.declared !== deployed?.version;',
        to: 'return isExcluded && reservation.declared === undefined;',
      },
    ],
  },
  'planned-for-ever': {
    removes: 'the time for which a start may claim what was planned',
    foundBy: { test: 'test/contract/memory.test.ts', name: 'planned a day ago' },
    changes: [
      {
        file: 'lib/core/life-cycle.ts',
        from: 'nowMs - claimedAtMs < PLANNED_FOR_MS;',
        to: 'nowMs >= 0;',
      },
    ],
  },
  'claims-without-terms': {
    removes: 'the version under which a claim was planned',
    foundBy: { simulation: 4 },
    changes: [
      {
        file: 'lib/dispatch/pass/admit.ts',
        from: 'const declared = context.deployed?.version;',
        to: 'const declared = undefined;',
      },
    ],
  },
  'former-types': {
    removes: 'types that are not declared any more from what is remembered of them',
    foundBy: { simulation: 6 },
    changes: [
      {
        file: 'lib/dispatch/declare.ts',
        from: 'return latest.filter((type) => !declared.has(type)).slice(-FORMER_TYPES_MAX);',
        to: 'return latest.filter(() => false);',
      },
    ],
  },
  'declared-twice': {
    removes:
      'the look whether a deployment has declared before: one that comes late takes back what others declared',
    foundBy: { simulation: 9 },
    changes: [
      {
        file: 'lib/dispatch/declare.ts',
        from: 'if (earlier !== undefined) {',
        to: 'if (earlier === -1) {',
      },
    ],
  },
  'handlers-of-tomorrow': {
    removes: 'another try of a job that met a worker of another deployment, without its handler',
    foundBy: { simulation: 6 },
    changes: [
      {
        file: 'lib/worker/run-job.ts',
        from: 'if ((job.claim?.declared ?? declared) !== declared) return true;',
        to: 'if ((job.claim?.declared ?? declared) !== declared) return false;',
      },
    ],
  },
  'guard-in-the-thread': {
    removes: 'the guard beside the thread of the handlers: a busy one keeps it from its heartbeats',
    foundBy: { simulation: 22 },
    changes: [
      {
        file: 'lib/worker/process/process.ts',
        from: 'const makeGuard = options.guard ?? guardHere(',
        to: 'const makeGuard = guardHere(',
      },
    ],
  },
  'short-records': {
    removes: 'the time for which a process that stands still may trust its lease from its record',
    foundBy: { simulation: 22 },
    changes: [
      {
        file: 'lib/worker/membership.ts',
        from: 'asked.wallMs + leaseMs + extensionMs + CLOCK_SKEW_MAX_MS;',
        to: 'asked.wallMs + leaseMs + extensionMs - CLOCK_SKEW_MAX_MS;',
      },
    ],
  },
  'short-functions': {
    removes: "the rest of a function's time after the timeouts of its types from the lease of what it runs",
    foundBy: { simulation: 45 },
    changes: [
      {
        file: 'lib/worker/run-job.ts',
        from: 'life.since.wallMs + life.lastsMs + FUNCTION_END_MS;',
        to: 'life.since.wallMs + life.lastsMs / 2;',
      },
    ],
  },
  'fleet-limits-alone': {
    removes: "what other partitions have in flight above an operator's cap of a fleet",
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: "counts together towards an operator's cap of a fleet, and explain names each that has a part in it",
    },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: 'if (count > maxConcurrency) above.set(limitOf(scope), count - maxConcurrency);',
        to: '',
      },
    ],
  },
  'fleet-limits-whole': {
    removes: "what others have in flight from an operator's cap of a fleet here",
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: "counts together towards an operator's cap of a fleet, and explain names each that has a part in it",
    },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: 'if (taken > 0 && maxConcurrency !== undefined)',
        to: 'if (taken < 0 && maxConcurrency !== undefined)',
      },
    ],
  },
  'stale-looks': {
    removes: 'the look at what was declared of whoever lists and redrives jobs',
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: 'sees, and puts into the queue again, what is in all partitions a second after it',
    },
    changes: [
      {
        file: 'lib/client/contexts.ts',
        from: 'return this.current(DECLARATION_AGAIN_MS);',
        to: 'return this.current();',
      },
    ],
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
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'this.#images.push(...(await waitAgain(this.#context, this.#taken, this.#nowMs)));',
        to: 'await waitAgain(this.#context, this.#taken, this.#nowMs);',
      },
    ],
  },
  'never-asks': {
    removes: 'what a partition that asks for capacity lacks, from its request',
    foundBy: { test: 'test/dispatch/loans.test.ts', name: 'each time that it asks' },
    changes: [
      {
        file: 'lib/dispatch/loans.ts',
        from: 'ask(context, { partition, wants, askedAtMs',
        to: 'ask(context, { partition, wants: [], askedAtMs',
      },
    ],
  },
  'boundless-loans': {
    removes: 'the bound on what one commit lends and gives back',
    foundBy: { test: 'test/dispatch/loans.test.ts', name: 'is one of very many' },
    changes: [
      { file: 'lib/dispatch/loans.ts', from: 'const MOVED_MAX = 20;', to: 'const MOVED_MAX = Infinity;' },
    ],
  },
  'let-go-unheard': {
    removes: 'the pass that follows a lost claim of a job behind which others are parked',
    foundBy: {
      test: 'test/dispatch/parking.test.ts',
      name: 'keeps nothing parked behind jobs whose claim was lost, though no hint tells that they are gone',
    },
    changes: [
      {
        file: 'lib/dispatch/pass/close.ts',
        from: ` ||
    cached.letGo.size > 0`,
        to: '',
      },
    ],
  },
  'let-go-forgotten': {
    removes: 'the conflict key of a job whose claim was lost from what may have been let go',
    foundBy: {
      test: 'test/dispatch/parking.test.ts',
      name: 'keeps nothing parked behind jobs whose claim was lost, though no hint tells that they are gone',
    },
    changes: [
      {
        file: 'lib/dispatch/pass/admit.ts',
        from: 'cached.letGo.add(conflictKey);',
        to: 'cached.letGo.size;',
      },
    ],
  },
  'charged-twice-in-a-page': {
    removes: 'the bytes of a ledger from those of a page, once it is charged again',
    foundBy: {
      test: 'test/store/page-ledgers.test.ts',
      name: 'however they were charged: keys of which a base is written',
    },
    changes: [
      {
        file: 'lib/store/page-ledgers.ts',
        from: 'sinceBytes += ledgerBytes(ledger) - bytesIn(since, key);',
        to: 'sinceBytes += ledgerBytes(ledger);',
      },
    ],
  },
  'hints-behind-holes': {
    removes: 'the end of what is known of a line: a hint stands behind jobs that were not read',
    foundBy: { differential: 109, kind: 'order' },
    changes: [
      {
        file: 'lib/dispatch/line-images.ts',
        from: "if (next !== undefined && each.rank > (known.untilRank ?? '')) behind.push(each);",
        to: "if (next !== undefined && each.rank > '~') behind.push(each);",
      },
    ],
  },
  'read-ahead-unheard': {
    removes: 'what hints tell of a part of a line that was read ahead',
    foundBy: {
      test: 'test/dispatch/line-parts.test.ts',
      name: 'is not forgotten: a job that comes after the line was read',
    },
    changes: [
      {
        file: 'lib/dispatch/line-images.ts',
        from: 'next: next === undefined ? undefined : withComing(next, behind, compare)',
        to: 'next',
      },
    ],
  },
  'own-end-unchecked': {
    removes: "the look at a function's attempt when its own time ends",
    foundBy: { test: 'test/dispatch/recovery.test.ts', name: 'is looked at again when its own time ends' },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'return this.#endsAtMs.get(batchId) ?? nowMs + budget.checkAfterMs;',
        to: 'return nowMs + budget.checkAfterMs;',
      },
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: '        ...this.#endsAtMs.values(),\n',
        to: '',
      },
    ],
  },
  'end-by-own-clock': {
    removes: "what clocks differ from the time that a function's attempt may run",
    foundBy: {
      test: 'test/dispatch/recovery.test.ts',
      name: 'as long as a function may be running it by any clock',
    },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'return nowMs < job.runUntilMs + CLOCK_SKEW_MAX_MS;',
        to: 'return nowMs < job.runUntilMs;',
      },
    ],
  },
  'just-registered': {
    removes: 'what clocks differ from whether a worker may have come after the workers were read',
    foundBy: {
      test: 'test/dispatch/recovery.test.ts',
      name: 'if its worker came after the workers were read',
    },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: '>= loadedAtMs - CLOCK_SKEW_MAX_MS) return true;',
        to: '>= loadedAtMs) return true;',
      },
    ],
  },
  'looks-up-in-turn': {
    removes: 'looking up all that is in flight for whoever left word',
    foundBy: {
      test: 'test/dispatch/recovery.test.ts',
      name: 'settles all that has ended, however little one pass checks of itself',
    },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'checksAll ? undefined : budget.checkMax',
        to: 'budget.checkMax',
      },
    ],
  },
  'late-hints-believed': {
    removes: 'reading what a late hint shows before it is claimed',
    foundBy: {
      test: 'test/dispatch/hints.test.ts',
      name: 'of a job that does not wait any more costs no place',
    },
    changes: [
      {
        file: 'lib/dispatch/pass/late-hints.ts',
        from: 'if (late.length === 0) return shown;',
        to: 'if (late.length >= 0) return shown;',
      },
    ],
  },
  'late-hints-dropped': {
    removes: 'the read of lines where late hints are too many to be looked up',
    foundBy: { test: 'test/dispatch/confirmed.test.ts', name: 'starts them also where nothing had waited' },
    changes: [
      {
        file: 'lib/dispatch/pass/late-hints.ts',
        from: 'return length <= LATE_MAX ? input : { ...input, hasMissed: true };',
        to: 'return length < 0 ? { ...input, hasMissed: true } : input;',
      },
      {
        file: 'lib/dispatch/pass/late-hints.ts',
        from: 'if (input.hasMissed && late.length > LATE_MAX) {',
        to: 'if (late.length > LATE_MAX) {',
      },
    ],
  },
  'newest-partition': {
    removes: 'the partition that has answered least lately from what the monotonic clock says of a lease',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'ends with the partition that has answered least lately',
    },
    changes: [
      {
        file: 'lib/worker/membership.ts',
        from: 'monotonicMs: Math.min(...all',
        to: 'monotonicMs: Math.max(...all',
      },
    ],
  },
  'newest-partition-by-wall': {
    removes: 'the partition that has answered least lately from what the wall clock says of a lease',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'ends with the partition that has answered least lately',
    },
    changes: [
      { file: 'lib/worker/membership.ts', from: 'wallMs: Math.min(...all', to: 'wallMs: Math.max(...all' },
    ],
  },
  'repeated-registration': {
    removes: 'the heartbeat after a registration that was repeated',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'is not taken from a registration that was repeated',
    },
    changes: [
      {
        file: 'lib/worker/membership.ts',
        from: "applied === 'applied' && (tries > 1 || mayBeThere)",
        to: "applied === 'applied' && mayBeThere",
      },
    ],
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
    changes: [
      {
        file: 'lib/worker/process/attempts.ts',
        from: "if (!guard.isTrusted()) throw new WorkerStoppedError('the lease ended during the start');",
        to: '',
      },
    ],
  },
  'shares-alone': {
    removes: 'what runs in other partitions above their shares: each counts its own share alone',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'holds for all partitions together' },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: 'for (const [scope, count] of blocking.above) above.set(scope, (above.get(scope) ?? 0) + count);',
        to: '',
      },
    ],
  },
  'key-twice': {
    removes: 'jobs of a key that run where it lived before, for its cap',
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: 'has its jobs in flight counted towards its cap',
    },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: 'if (cap !== null) byScope.set',
        to: 'if (cap === -1) byScope.set',
      },
    ],
  },
  'lockless-neighbour': {
    removes: 'the conflict keys of jobs that others have claimed by a former declaration',
    foundBy: {
      test: 'test/dispatch/handover.test.ts',
      name: 'exclude those that began in the only partition',
    },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: 'for (const conflictKey of blocking.conflictKeys) conflictKeys.add(conflictKey);',
        to: '',
      },
    ],
  },
  'first-to-come': {
    removes: 'the wait for partitions that have not come to the declaration',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'start nothing, say so' },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: 'if (behind.length > 0) {',
        to: 'if (behind.length < 0) {',
      },
    ],
  },
  'read-too-early': {
    removes: 'the read of a partition after its note was seen: what stood before may be taken for all',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'believe only a read' },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: `state = await store.loadPartition({ partition: other, nowMs });
      }`,
        to: '}',
      },
    ],
  },
  'stranger-claimed': {
    removes: 'the partition of a key: jobs start wherever they stand',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'has its waiting jobs there' },
    changes: [
      {
        file: 'lib/dispatch/rehome.ts',
        from: 'return ({ fairnessKey }) => partitionOf(fairnessKey, partitions) === partition;',
        to: 'return () => true;',
      },
    ],
  },
  'announced-late': {
    removes: 'the announcement of a line in the new partition before a job is moved there',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'loses no job to a dispatcher that dies' },
    changes: [
      {
        file: 'lib/dispatch/rehome.ts',
        from: `const moved = await putAnnounced(asSubmitter(context), there, () =>
      store.rehome({ jobs: ofHome, partition, nowMs: clock.nowMs() }),
    );`,
        to: `const moved = await store.rehome({ jobs: ofHome, partition, nowMs: clock.nowMs() });
    await putAnnounced(asSubmitter(context), there, async () => undefined);`,
      },
    ],
  },
  'moved-late': {
    removes: 'the end of moving jobs to other partitions once the lease is not trusted',
    foundBy: { test: 'test/dispatch/rehome.test.ts', name: 'are none once the lease has ended' },
    changes: [{ file: 'lib/dispatch/rehome.ts', from: 'if (!isInTime()) return 0;', to: '' }],
  },
  'deaf-resident': {
    removes: 'the look at the declaration of a dispatcher that runs on',
    foundBy: { test: 'test/dispatch/resident.test.ts', name: 'comes to a newer declaration' },
    changes: [{ file: 'lib/dispatch/resident/resident.ts', from: 'await shared.keepUp();', to: '' }],
  },
  'unheard-end': {
    removes: 'the wait for the end of a function whose fleet is gone, after its reservation would be checked',
    foundBy: { simulation: 16_000_199 },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'else if (isUnheard) this.#unheardEndsMs',
        to: 'else if (isUnheard && false) this.#unheardEndsMs',
      },
    ],
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
    changes: [
      {
        file: 'lib/dispatch/rehome.ts',
        from: 'const met = jobs.filter(({ id }) => !inFlight.held.has(id));',
        to: 'const met = jobs;',
      },
    ],
  },
  'lock-of-before': {
    removes: 'locks of what was claimed when there were more partitions, once there is one',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'their lock is given back' },
    changes: [
      {
        file: 'lib/dispatch/locks.ts',
        from: ': settled.filter(({ reservation }) => reservation.epoch < sinceEpoch);',
        to: ': [];',
      },
    ],
  },
  'controls-left': {
    removes: 'controls of keys, which stay where the keys lived',
    foundBy: { test: 'test/dispatch/handover.test.ts', name: 'has its pauses there' },
    changes: [
      {
        file: 'lib/dispatch/carry.ts',
        from: 'if (home !== partition) await store.adoptControl({ partition: home, control });',
        to: '',
      },
    ],
  },
  'borrowed-and-above': {
    removes:
      'what a partition has borrowed from what it may have in flight, once the loan has ended and was not given back',
    foundBy: {
      test: 'test/dispatch/looks.test.ts',
      name: 'is not what runs on capacity that was lent to its partition',
    },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: 'movedBy(state.loans, other, Number.NEGATIVE_INFINITY)',
        to: 'movedBy(state.loans, other, Number.POSITIVE_INFINITY)',
      },
    ],
  },
  'comes-and-plans-on': {
    removes: 'the difference between what was planned before a partition came and what it plans from then on',
    foundBy: {
      test: 'test/dispatch/looks.test.ts',
      name: 'is nothing where a partition runs what is its own',
    },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: 'if (epoch < sinceEpoch)',
        to: 'if (epoch <= sinceEpoch)',
      },
    ],
  },
  'come-to-any': {
    removes: 'the version of the declaration that a partition has come to',
    foundBy: {
      test: 'test/dispatch/looks.test.ts',
      name: 'is one that has come to this declaration, not to an earlier one',
    },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: 'carried !== undefined && carried.version >= since',
        to: 'carried !== undefined',
      },
    ],
  },
  'let-go-of-all': {
    removes: 'conflict keys that others hold still: all are taken to be free',
    foundBy: {
      test: 'test/dispatch/looks.test.ts',
      name: 'are conflict keys that were claimed before it came',
    },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: 'if (!after.conflictKeys.has(conflictKey)) input.letGo',
        to: 'input.letGo',
      },
    ],
  },
  'cut-looks': {
    removes: 'the soon look at those that were not read so far',
    foundBy: {
      test: 'test/dispatch/looks.test.ts',
      name: 'read so many at once, and the others within moments',
    },
    changes: [
      {
        file: 'lib/dispatch/handover.ts',
        from: 'if (states.size + over.size < partitionsEver - 1) return LOOK_LEAST_MS;',
        to: '',
      },
    ],
  },
  'cut-line-left': {
    removes: 'the return to a line of which a part was moved, unless it is the last that was read',
    foundBy: {
      test: 'test/dispatch/rehome.test.ts',
      name: 'also where that is not the last one that it read',
    },
    changes: [
      {
        file: 'lib/dispatch/rehome.ts',
        from: 'isCut ||= page.next !== undefined;',
        to: 'isCut = page.next !== undefined;',
      },
    ],
  },
  'retired-with-jobs': {
    removes: 'the look whether a line is empty before it is retired',
    foundBy: {
      test: 'test/dispatch/rehome.test.ts',
      name: 'are no lines to retire in which a job stands',
    },
    changes: [
      {
        file: 'lib/dispatch/rehome.ts',
        from: 'if (page.jobs.length === 0 && line',
        to: 'if (line',
      },
    ],
  },
  'steps-from-the-front': {
    removes: 'the place at which a step of a declaration ended',
    foundBy: {
      test: 'test/dispatch/carry.test.ts',
      name: 'go on where the last one stood',
    },
    changes: [
      {
        file: 'lib/dispatch/carry.ts',
        from: `after: step.after,
  };`,
        to: '};',
      },
    ],
  },
  'handover-again': {
    removes: 'what is known of a handover when the next declaration comes',
    foundBy: {
      test: 'test/dispatch/carry.test.ts',
      name: 'is the one of its step alone where partitions',
    },
    changes: [
      {
        file: 'lib/dispatch/carry.ts',
        from: 'carried === undefined || carried.version < sharedSince',
        to: 'carried === undefined || carried.version > 0',
      },
    ],
  },
  'held-and-moved': {
    removes: 'the wait of a parked job for the charge of its earlier attempt, before it is moved',
    foundBy: {
      test: 'test/dispatch/carry.test.ts',
      name: 'stay while an attempt of theirs counts here',
    },
    changes: [
      {
        file: 'lib/dispatch/carry.ts',
        from: '!lives(job) && !inFlight.held.has(job.id)',
        to: '!lives(job)',
      },
    ],
  },
  'raised-twice': {
    removes:
      'what was given to one partition from what is left for the others, when slots of a worker are raised',
    foundBy: {
      test: 'test/worker/division.test.ts',
      name: 'are raised by no more than what is free',
    },
    changes: [
      {
        file: 'lib/worker/division.ts',
        from: `      left -= more;
`,
        to: '',
      },
    ],
  },
  'let-go-at-work': {
    removes: 'the look whether a job of a partition runs before its lease is let go',
    foundBy: {
      test: 'test/worker/process.test.ts',
      name: 'keeps its lease in a partition that is gone while a job of it runs',
    },
    changes: [
      {
        file: 'lib/worker/process/partitions.ts',
        from: 'if (!isGone(partition) || this.#isAtWork(partition)) continue;',
        to: 'if (!isGone(partition)) continue;',
      },
    ],
  },
  'served-by-an-old-record': {
    removes: 'the heartbeat after a registration where a record may be',
    foundBy: {
      test: 'test/worker/membership.test.ts',
      name: 'it is served again by a record that counts',
    },
    changes: [
      {
        file: 'lib/worker/membership.ts',
        from: '(tries > 1 || mayBeThere)',
        to: 'tries > 1',
      },
    ],
  },
};
