/**
 * The numbers by which dispatchers work: how long, how often, how many. Each says its unit, why it is what it is, and
 * what half and twice of it would do. The figures come from `npm run bench:cloud`, a model of the cloud: differences
 * below a tenth mean nothing. No promise depends on one of these numbers unless its comment says so. What a declaration
 * sets is in `lib/core/configuration.ts`, and what AWS bounds in `lib/store/contract/bounds.ts`.
 */

// A run of passes, and leading

/**
 * Bounds of a run of passes. Tests and simulations set smaller ones. At a bound a dispatcher stops cleanly and asks to
 * be woken again.
 */
export const DISPATCH_BUDGET = {
  /**
   * Milliseconds that a lead lasts unless its holder renews it, which it does when half of the time is over. After a
   * leader's death its letters wait for so long. Half of it: one more write every 2.5 s of leading. Twice: news waits
   * up to 20 s after a death.
   */
  leadMs: 10_000,
  /**
   * Milliseconds after the start of a run in which passes may begin. AWS ends the function at twice that. Half of it:
   * twice as many changes of leads. Twice: the last pass may be cut off.
   */
  runMs: 30_000,
  /**
   * Passes in a row of a dispatcher that does not stay. Half of it: it hands over sooner, which costs a message. Twice:
   * only `runMs` bounds it.
   */
  passesMax: 20,
  /**
   * Jobs that start and that end, a second: from so many on a function is asked to lead. Half of it: partitions of five
   * jobs a second are led, each for the price of a function that runs on. Twice: at ten jobs a second several functions
   * make passes, and their commits refuse each other.
   */
  leadFrom: 16,
  /**
   * Jobs that start and that end, a second: a function goes on leading while there are as many. It is less than
   * `leadFrom`, because otherwise leads would begin and end in turn. Half of it and twice: as for `leadFrom`.
   */
  leadWhile: 10,
  /**
   * Jobs of one reservation. So many fit into an item even if their names are the longest. Half of it: one more item
   * for each 25 jobs. Twice: an item may overflow.
   */
  batchJobs: 50,
  /**
   * The most due jobs that one round of a pass promotes; a pass has up to `PROMOTE_ROUNDS_MAX` rounds. Half of it: a pass
   * promotes at most a thousand, and another pass the rest. Twice: a pass takes longer.
   */
  promoteMax: 200,
  /**
   * The most reservations that one pass looks up because their check is due. Half of it: recovery after lost messages
   * takes twice as many passes. Twice: one pass makes 1,000 reads after an outage.
   */
  checkMax: 10,
  /**
   * Jobs of a held conflict key that stay in their ready lines. If there are many more, the others are parked. Half of
   * it: more jobs are parked and moved back. Twice: plans meet more blocked jobs.
   */
  parkKept: 4,
  /**
   * From how many groups one pass reads jobs in one blocked line. The next pass continues behind them. Half of it: a
   * group behind 500 others waits for one pass more. Twice: a read takes longer.
   */
  blockedGroups: 1_000,
  /**
   * When jobs are moved after a redeploy: the most conflict keys whose parked jobs one step looks at. Half of it: twice as
   * many steps. Twice: each step holds up its pass for longer.
   */
  carryMarks: 50,
  /**
   * When jobs are moved after a redeploy: of one blocked line, the most jobs that one step moves. Half of it and twice: as for
   * `carryMarks`.
   */
  carryJobs: 200,
  /**
   * Milliseconds after which a new reservation is looked up, unless it was settled before. Half of it: reads for jobs
   * that only run long. Twice: a lost message costs two minutes.
   */
  checkAfterMs: 60_000,
  /**
   * Part of a resource's learned cost: a new value is written if it differs by more from the written one. Half of it:
   * more writes. Twice: charges that are wrong by a fifth.
   */
  newsShare: 0.1,
  /**
   * Milliseconds after which every read shows a job that became ready: clocks differ by five seconds, a write takes its
   * time, and the index lags. The promise that no job is forgotten needs this number. Half of it: less than clocks and
   * index may differ together. Twice: chosen jobs are read again for longer, and the statement that nothing waits comes
   * later.
   */
  seenWithinMs: 10_000,
};

/**
 * Refused commits in a row after which a dispatcher leaves a letter, or a leader pauses for `PACE_MS`. Half of it: a
 * letter at 14 in 100 conflicts. Twice: wasted passes where several dispatchers compete.
 */
export const LOST_MAX = 3;
/**
 * How many newer declarations one run may meet, and how often one check of workers reads, before it gives up. Half of
 * it: an invocation fails if two deployments follow each other closely. Twice: no effect.
 */
export const TRIES_MAX = 5;
/**
 * Milliseconds after which a process asks again for a function that leads, if its request was refused, because it lacks
 * a permission. Half of it or twice: one log line more or less in 20 minutes.
 */
export const REFUSED_FOR_MS = 10 * 60_000;
/**
 * Milliseconds before the end of its run at which a leader asks for the next one, which then waits up to three times as
 * long for the lead. Half of it: a cold start takes longer, and nothing leads meanwhile. Twice: each function runs for
 * a second more in thirty.
 */
export const SUCCESSOR_MS = 1_000;
/**
 * Milliseconds over which a leader counts jobs before it decides whether to go on leading. Half of it: a pause of a
 * second ends a lead. Twice: an idle lead is paid for longer.
 */
export const CALM_AFTER_MS = 3_000;
/**
 * Milliseconds between two reads of letters by a leader that has nothing to do. Half of it: twice the reads of an idle
 * resident dispatcher. Twice: a job waits for up to half a second.
 */
export const POLL_MS = 250;
/**
 * Milliseconds between two reads of letters by a leader, within `leadMs` after it has last received a letter, started a
 * job or settled one; and between two checks by a function whether it may take the lead. Half of it: twice the reads. Twice: jobs that come at an even rate wait for 14
 * ms more.
 */
export const LIVELY_POLL_MS = 28;

// The pace of a leader

/**
 * Milliseconds between the begins of two passes while slots are free: a pass plans all that has come since the last
 * one, with one commit and one send. Half of it: more commits and reads for each job. Twice: jobs wait for 85 ms more
 * on average. Measured at 100 jobs a second on 4 shards of the stream ($6.10 for a million jobs; half of the jobs start within
 * 187 ms, 99 of 100 within 312 ms): half $6.39, 166 and 302 ms; twice $5.70, 273 and 532 ms.
 */
export const PACE_MS = 170;
/**
 * Passes that may follow each other at once after a time without passes, so that a job starts at once in a partition
 * that has little to do. Half of it or twice: no effect that the benchmark shows.
 */
export const PACES_AHEAD = 3;
/**
 * Lines that a pass may read for each job that it finds in them before the stream reports the job: so many cost six
 * read units. Half of it: lines are read only from twice as many jobs a second on. Twice: reads become a larger part of
 * the bill.
 */
export const LINES_PER_JOB = 12;
/**
 * A pass costs about as much as reading this many lines, besides the lines that it reads (`pace.ts`). If a pass has
 * read this many lines and nothing waits, it commits that statement, which spares other passes the reads (`admit.ts`).
 * Half of it or twice: little effect.
 */
export const LINES_OF_A_PASS = 16;
/**
 * Milliseconds within which the stream reports a job: it is no use to read lines less often than this. Half of it:
 * lines are read only in very busy partitions. Twice: lines are read in vain.
 */
export const READ_WITHIN_MS = 400;
/**
 * Milliseconds until a change of the rate of jobs is believed. Half of it: bursts are taken for a rate. Twice: a burst
 * that lasts is noticed late.
 */
export const RATE_OVER_MS = 2_000;
/**
 * Jobs a second: while fewer start, and fewer than twice as many are reported, a letter for each stored job is worth
 * its write unit if passes do not read the lines for new jobs. Half of it: jobs at 20 to 40 a second wait for the
 * stream. Twice: letters are written for jobs that a pass would have found.
 */
export const LETTER_RATE_MAX = 40;

// One pass

/**
 * The most reservations in one commit. The first commit of a pass has fewer, so that its jobs start soon; the later
 * ones have more, so that more jobs share a commit. Half of it: more commits in a full pass. Twice: the last jobs of a
 * batch wait.
 */
export const RESERVATIONS_MAX = 4;
/**
 * Rounds in which one pass promotes due jobs. If more are due, it plans with those that it has promoted. Half of it:
 * more passes at a full hour. Twice: a longer pass.
 */
export const PROMOTE_ROUNDS_MAX = 10;
/**
 * Schedules that one round fires at the same time. Half of it: half as many a second. Twice: DynamoDB throttles the
 * schedules' line in the index.
 */
export const FIRE_AT_ONCE = 50;
/**
 * Rounds in which one pass fires schedules. Half of it or twice: the pass ends sooner or later, and the next one
 * continues.
 */
export const FIRE_ROUNDS_MAX = 4;
/**
 * Milliseconds from one round of firings to the next. A firing moves its entry within one line of the index, which
 * costs two of the 1,000 write units a second that one key of the index takes. Half of it: DynamoDB throttles. Twice:
 * 200 schedules of the same minute take a second.
 */
export const FIRE_ROUND_MS = 120;
/**
 * The least bound of two numbers of a pass: blocked jobs that it meets although nothing holds them up, and used-up
 * lines that it reads again. Half of it: lesser jobs go first more often after lost hints. Twice: more reads before a
 * commit.
 */
export const LOOKS_MIN = 64;

// Memory between passes

/**
 * Milliseconds after which a dispatcher reads everything that it remembers again, because a hint may have been lost:
 * lines, keys, marks of parked jobs, and which partitions are led. It equals the tick's period. The promise that a job
 * is seen within two minutes needs it. Half of it: twice these reads. Twice: that promise is broken.
 */
export const LOOK_AROUND_MS = 60_000;
/**
 * Milliseconds after which the index certainly shows what was reported or written: it lags by far less. Half of it:
 * hints are forgotten before a late index shows their jobs. Twice: more memory.
 */
export const SHOWN_MS = 15_000;
/**
 * Milliseconds by which the index lags at most, as a rule: a second pass this much later sees what the first has
 * missed. Half of it: it misses it again. Twice: such a job waits longer.
 */
export const INDEX_LAG_MS = 2_000;
/**
 * Milliseconds that a tick looks ahead for due work: the tick's period and a little more, so that these windows
 * overlap. Half of it: work between two windows is late. Twice: each wake is sent twice.
 */
export const LOOK_AHEAD_MS = 75_000;
/**
 * Entries that a process remembers for all its partitions together, of about 350 bytes each. If there are more, lines
 * are read again. Ten thousand keys of three types need 70,000. Half of it: pools of 30,000 keys are read again in each
 * pass. Twice: 280 MB.
 */
export const ENTRIES_MAX = 400_000;
/**
 * Names of keys, marks and reported jobs that a process remembers to spare a read or a write. Half of it: more reads
 * and writes are made twice. Twice: more memory.
 */
export const NAMES_MAX = 10_000;
/**
 * Heads of a line that cost as much to read as one head, because together they fill one read unit. Half of it: the same
 * price for fewer heads. Twice: two units where one job is wanted.
 */
export const HEADS_OF_A_UNIT = 12;
/**
 * Keys, jobs or marks that one request reads, and the most writes that one pass makes to tidy up. Half of it: more
 * requests. Twice: more is read than used.
 */
export const PAGE_MAX = 100;

// Workers that are lost

/**
 * Milliseconds for which a worker process counts as live after a heartbeat, unless its options say otherwise, and a
 * resident dispatcher as a member. Half of it: a pause of the garbage collector costs attempts, and heartbeats cost
 * twice as much. Twice: lost jobs are tried again half a minute later.
 */
export const WORKER_LEASE_MS = 15_000;
/**
 * Milliseconds from sending a wake to the pass, with a cold start, at most as a rule. Half of it: gaps between checks
 * of workers, which defer losses. Twice: checks come every 4 s, and locks are kept idle.
 */
export const WAKE_TAKES_MS = 3_000;
/**
 * Milliseconds for which losses of workers are deferred at most, even if the gaps between reads are long: no worker
 * goes on for so long. Half of it: less than an outage of two ticks. Twice: jobs of lost workers wait longer.
 */
export const HELD_BACK_MAX_MS = 5 * 60_000;
/**
 * Milliseconds after which a dispatcher that saw a lease end checks again, because by the clock of the dispatcher that
 * made the last pass the lease had not ended. Half of it: one check more. Twice: a loss is found later.
 */
export const CONFIRM_MS = 2_000;
/**
 * Reservation entries that the first pass after a gap may send again, give up or end as lost. Half of it: one second
 * more after an outage. Twice: more of them at once, while workers report again.
 */
export const RAMP_FIRST = 20;
/**
 * Milliseconds after which the number of `RAMP_FIRST` doubles, again and again. Half of it: all entries at once after 5
 * s. Twice: 10,000 entries take 20 s.
 */
export const RAMP_DOUBLES_MS = 1_000;

// Several partitions

/**
 * The most partitions, keys or lines that a pass looks at besides its own work, and the most loans that it makes. Half
 * of it or twice: the next passes do the rest.
 */
export const BESIDE_MAX = 20;
/**
 * Milliseconds for which a read of another partition is trusted at least; the most is thirty times as long. Half of it:
 * more reads. Twice: jobs of keys that moved start later.
 */
export const ELSEWHERE_MS = 500;
/**
 * Milliseconds after which a partition repeats a request for a loan. A request is valid for five times as long. Half of
 * it: it asks again before the answer. Twice: slots stay idle.
 */
export const ASK_EVERY_MS = 2_000;
/**
 * Partitions that are asked for a loan at the same time. Half of it: more rounds until one has room. Twice: more wakes
 * of partitions without room.
 */
export const ASKED_MAX = 3;
/**
 * Jobs that one step reads to move them to the partitions of their keys. Half of it: more passes after a change of the
 * number of partitions. Twice: such passes hold up the others.
 */
export const STEP_JOBS = 500;

// Dispatchers that run on, and outcomes

/**
 * Milliseconds after which a resident dispatcher repeats a step that failed. Half of it: more log lines in an outage.
 * Twice: it recovers later.
 */
export const REPEAT_MS = 1_000;
/**
 * Renewals for which the dispatcher that the ring names as leader may be live without leading. Then a standby leads,
 * for three times as many. Half of it: the standby takes over from a dispatcher that is about to begin. Twice: 10 s
 * more without a leader.
 */
export const MISSED_MAX = 2;
/**
 * How often a member renews its membership in one lease. Half of it: one lost renewal ends the membership. Twice: twice
 * the writes.
 */
export const ROUNDS_PER_LEASE = 3;
/**
 * The part of a member's lease, one in so many, that is left when the member stops leading, unless it was renewed. Half
 * of it or twice: it only moves the instant at which an unreachable dispatcher gives up.
 */
export const MARGIN_PART = 5;
/**
 * Milliseconds that the outbox waits for the bus at first; each wait after that is twice as long. Half of it: more
 * tries in an outage. Twice: outcomes are up to half a minute late.
 */
export const OUTCOMES_AGAIN_MS = 15_000;
/**
 * Milliseconds for which one tick publishes kept outcomes and ends jobs that have not started in time. The next tick
 * continues. Half of it: half as many a minute. Twice: AWS may end the tick's function.
 */
export const CATCH_UP_FOR_MS = 20_000;
