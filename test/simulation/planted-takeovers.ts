/** Bugs of slots that are taken over (`lib/dispatch/takeovers.ts`). */
import type { Planted } from './planted-bug.ts';

const TEST = 'test/dispatch/takeovers.test.ts';
const TAKEOVERS = 'lib/dispatch/takeovers.ts';

export const TAKEOVER_CHANGES: Readonly<Record<string, Planted>> = {
  'slot-not-waited-for': {
    removes: 'the wait for the end of the attempt whose slot a job takes over',
    foundBy: { bigWorld: 4 },
    changes: [
      {
        file: 'lib/worker/slot-wait.ts',
        from: 'if (isAttemptOver(takesOver, job)) return',
        to: 'if (isAttemptOver(takesOver, job) || job !== undefined) return',
      },
    ],
  },
  'slot-before-its-attempt': {
    removes: 'the difference between an attempt that has ended and one that has not begun',
    foundBy: { test: 'test/dispatch/recovery.test.ts', name: 'by the job as it was planned' },
    changes: [
      {
        file: 'lib/core/life-cycle.ts',
        from: 'job.version > planned.version || isTerminal',
        to: 'job.version >= planned.version || isTerminal',
      },
    ],
  },
  'told-while-it-waits': {
    removes: 'telling nobody else of a job that waits for a slot',
    foundBy: { test: TEST, name: 'is told of to nobody else, though the time has come' },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'if (this.#isWaiting(place)) return false;',
        to: 'if (this.#isWaiting(place) && this.#waiting.size === 0) return false;',
      },
    ],
  },
  'slot-taken-twice': {
    removes: 'taking a slot over once',
    foundBy: { test: TEST, name: 'is taken over once' },
    changes: [
      {
        file: TAKEOVERS,
        from: 'if (taken.has(claimId) || waiting.has(claimId)) continue;',
        to: 'if (waiting.has(claimId)) continue;',
      },
    ],
  },
  'slot-of-who-waits': {
    removes: 'taking no slot over from who waits for one',
    foundBy: { test: TEST, name: 'are those of which nobody has told' },
    changes: [
      {
        file: TAKEOVERS,
        from: 'if (taken.has(claimId) || waiting.has(claimId)) continue;',
        to: 'if (taken.has(claimId)) continue;',
      },
    ],
  },
  'waits-for-ever': {
    removes: 'counting what has taken a slot over, once that was let go',
    foundBy: { test: TEST, name: 'counts as that of the job that took it over' },
    changes: [
      {
        file: TAKEOVERS,
        from: 'inFlight.has(entry.takesOver)',
        to: 'entry.takesOver !== undefined && inFlight.size > 0',
      },
    ],
  },
  'overfull-fleets': {
    removes: 'letting slots go of a fleet that holds more than it has',
    foundBy: { test: TEST, name: 'is let go where a fleet holds more than it has' },
    changes: [
      {
        file: 'lib/dispatch/pass/plan.ts',
        from: '!overfull.has(fleet) &&',
        to: '(overfull.has(fleet) || fleet !== undefined) &&',
      },
    ],
  },
  'free-slot-unheard': {
    removes: 'planning anew a job whose slot became free after its worker had given up',
    foundBy: { test: TEST, name: 'is planned anew when the slot is free later' },
    changes: [
      {
        file: TAKEOVERS,
        from: 'return freeAtMs >= reservation.reservedAtMs + SEEN_FREE_MS || sinceMs',
        to: 'return freeAtMs < 0 || sinceMs',
      },
    ],
  },
  'stuck-for-ever': {
    removes: 'giving a slot up that does not come free',
    foundBy: { test: TEST, name: 'gives the slot up that does not come free' },
    changes: [{ file: TAKEOVERS, from: 'return slots > 0 || sinceMs >= STUCK_MS;', to: 'return slots > 0;' }],
  },
  'spare-slot-unused': {
    removes: 'giving a job that waits for a slot another one that is free',
    foundBy: { test: TEST, name: 'is given any slot that is free' },
    changes: [
      {
        file: TAKEOVERS,
        from: 'return slots > 0 || sinceMs >= STUCK_MS;',
        to: 'return sinceMs >= STUCK_MS;',
      },
    ],
  },
  'unheard-for-ever': {
    removes: 'looking up a job that should have its slot, and of which nothing was heard',
    foundBy: { test: TEST, name: 'is looked up after two seconds, once' },
    changes: [
      {
        file: TAKEOVERS,
        from: 'reservation.reservedAtMs + SEEN_FREE_MS || sinceMs >= UNHEARD_MS;',
        to: 'reservation.reservedAtMs + SEEN_FREE_MS;',
      },
    ],
  },
  'unheard-by-others': {
    removes: 'the same by a process that has not seen its slot come free',
    foundBy: { test: TEST, name: 'is looked up after two seconds by another process' },
    changes: [
      {
        file: TAKEOVERS,
        from: 'if (!waiting.has(claimId)) return sinceMs >= UNHEARD_MS;',
        to: 'if (!waiting.has(claimId)) return false;',
      },
    ],
  },
  'looked-up-each-time': {
    removes: 'remembering that a job which took a slot over was seen to run',
    foundBy: { test: TEST, name: 'is looked up after two seconds, once' },
    changes: [
      {
        file: 'lib/dispatch/slot-times.ts',
        from: 'this.#started.add(claimId);',
        to: 'this.#started.delete(claimId);',
      },
    ],
  },
  'free-slots-uncounted': {
    removes: 'counting down the slots that are free: several jobs have one',
    foundBy: { test: TEST, name: 'is taken over by who comes after' },
    changes: [
      {
        file: 'lib/dispatch/pass/admit.ts',
        from: 'this.free.set(fleet, free - 1);',
        to: 'this.free.set(fleet, free);',
      },
    ],
  },
  'other-fleets-unused': {
    removes: 'preferring a slot of another fleet that is free',
    foundBy: { test: TEST, name: 'is left to end where another fleet has one that is free' },
    changes: [
      {
        file: 'lib/dispatch/pass/plan.ts',
        from: 'other.fleet !== fleet && other.types',
        to: 'other.fleet !== fleet && other.slots === -1 && other.types',
      },
    ],
  },
  'told-too-early': {
    removes: 'telling ahead only workers of a version that waits',
    foundBy: { test: TEST, name: 'is left to end where workers may be of a version' },
    changes: [
      {
        file: TAKEOVERS,
        from: 'if (aheadMs <= 0 || context.deployed?.tellsAhead === false) return;',
        to: 'if (aheadMs <= 0) return;',
      },
    ],
  },
  'found-free-unheard': {
    removes: 'seeing to jobs whose slots were found to be free by a look',
    foundBy: { test: TEST, name: 'is planned anew where a look, and nobody else' },
    changes: [
      {
        file: 'lib/dispatch/pass/close.ts',
        from: 'hasFoundFree(state.reservations, recovery.settled, cached.slotTimes) ||',
        to: '(hasFoundFree(state.reservations, recovery.settled, cached.slotTimes) && false) ||',
      },
    ],
  },
  'late-unasked': {
    removes: 'asking for a look after jobs that took slots over',
    foundBy: { test: TEST, name: 'holds what it counts against for two seconds' },
    changes: [
      {
        file: 'lib/dispatch/pass/close.ts',
        from: 'if (lateAtMs === Infinity || (cached',
        to: 'if (lateAtMs !== Infinity || (cached',
      },
    ],
  },
  'soon-free-is-free': {
    removes: 'looking for ends where slots are about to be free that nothing may take over',
    foundBy: { test: TEST, name: 'where their type has no room for more' },
    changes: [
      {
        file: 'lib/dispatch/pass/close.ts',
        from: 'pass.planner.room <= 0 || !',
        to: 'pass.planner.room <= 0 && !',
      },
    ],
  },
  'takes-over-unled': {
    removes: 'asking for somebody who leads where slots are taken over',
    foundBy: { test: TEST, name: 'asks for somebody who leads' },
    changes: [
      {
        file: 'lib/dispatch/dispatch.ts',
        from: 'run.hasHeard || run.hasTakenOver,',
        to: 'run.hasHeard,',
      },
    ],
  },
  'taken-ends-looked-up': {
    removes: 'leaving the ends of attempts to those who take their slots over',
    foundBy: { test: TEST, name: 'looks up no end that whoever takes' },
    changes: [
      {
        file: 'lib/dispatch/pass/likely-over.ts',
        from: 'isLookedFor && !taken.has(claimIdOf(batchId, position))) over.push(',
        to: 'isLookedFor) over.push(',
      },
    ],
  },
  'unreadable-keeps-busy': {
    removes: 'leaving a job alone that waits for a slot and cannot be read',
    foundBy: { test: TEST, name: 'and cannot be read keeps nobody busy' },
    changes: [
      {
        file: 'lib/dispatch/settle/recover.ts',
        from: 'this.#noteSlot(place);\n        return [];',
        to: 'return [];',
      },
    ],
  },
  'locks-taken-ahead': {
    removes: 'taking over no slot of a fleet whose jobs may need a lock',
    foundBy: { test: TEST, name: 'are not those of fleets whose jobs may need a lock' },
    changes: [
      {
        file: TAKEOVERS,
        from: '.filter(({ types }) => between === undefined || !types',
        to: '.filter(({ types }) => between !== null || !types',
      },
    ],
  },
  'ends-at-any-time': {
    removes: 'foretelling only ends that mostly come as foretold',
    foundBy: { test: TEST, name: 'is left to end where attempts of its type end at any time' },
    changes: [
      {
        file: 'lib/dispatch/slot-times.ts',
        from: 'seen < seenMin || offMs > offMaxMs',
        to: 'seen < seenMin || offMs < 0',
      },
    ],
  },
};
