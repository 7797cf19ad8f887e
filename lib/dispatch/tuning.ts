/**
 * The numbers of what makes passes: how long, how often, how many. Each says its unit, why it is what it is, and what half and twice of it
 * would do. Rows are those of `npm run bench:cloud`, a model of the cloud: differences below a tenth mean nothing. None of these numbers is
 * needed for a promise but where it says so; what a declaration sets is in `lib/core/configuration.ts`, and what AWS bounds in
 * `lib/store/contract/bounds.ts`.
 */

// A run of passes, and leading

/** Bounds of a run of passes, which tests and simulations narrow. At a bound a dispatcher stops cleanly and asks to be woken again. */
export const DISPATCH_BUDGET = {
  /**
   * ms. How long a lead lasts unless it is renewed, which it is when half of that is over. After a leader's death its letters wait so long.
   * Half: one more write each 2.5 s of leading. Twice: news waits up to 20 s after a death.
   */
  leadMs: 10_000,
  /** ms. No pass begins when a run has lasted for so long: a function is ended at twice that. Half: twice as many changes of leads. Twice: too late. */
  runMs: 30_000,
  /** Passes in a row of a dispatcher that does not stay. Half: it hands over sooner, for a message. Twice: only `runMs` bounds it. */
  passesMax: 20,
  /**
   * Jobs that start and that end, a second: from so many on a function is asked to lead. Half: partitions of five jobs a second are led, each
   * for the price of a function that runs on. Twice: at ten jobs a second passes of several functions refuse each other.
   */
  leadFrom: 16,
  /** The same: while there are as many, it goes on. Less than `leadFrom`, or it would begin and end in turn. Half and twice: as there. */
  leadWhile: 10,
  /** Jobs of one reservation, which fit into an item even if their names are the longest. Half: one more item for each 25 jobs. Twice: an item may overflow. */
  batchJobs: 50,
  /** Due jobs promoted at once, in up to `PROMOTE_ROUNDS_MAX` rounds. Half: a thousand a pass, then another pass. Twice: a longer pass. */
  promoteMax: 200,
  /**
   * Reservations whose jobs are looked up in one pass because they are due to be checked. Half: what lost messages left behind takes twice as
   * many passes. Twice: 1,000 reads in one pass after an outage.
   */
  checkMax: 10,
  /** Jobs of a held conflict key that stay in their ready lines; many more are parked. Half: more moves to and fro. Twice: plans meet more that is blocked. */
  parkKept: 4,
  /** Groups read of one blocked line in one pass; the next goes on behind them. Half: a group behind 500 others waits a pass more. Twice: a longer read. */
  blockedGroups: 1_000,
  /** Conflict keys that one step after a redeploy looks at. Half: twice as many steps. Twice: a pass is held up longer by each. */
  carryMarks: 50,
  /** Jobs that one such step moves. Half and twice: as for `carryMarks`. */
  carryJobs: 200,
  /** ms. A fresh reservation is looked at after this, unless it was settled before. Half: reads for jobs that only run long. Twice: a lost message costs two minutes. */
  checkAfterMs: 60_000,
  /** Part of a resource's learned cost: it is written when it has moved by more. Half: more writes. Twice: charges that are a fifth off. */
  newsShare: 0.1,
  /**
   * ms. A job that became ready so long ago is seen by every read: clocks differ by five seconds, a write takes its time, and the index lags.
   * The promise that no job is forgotten needs it. Half: less than clocks and index may differ together. Twice: chosen jobs are read again for
   * longer, and the word that nothing waits comes later.
   */
  seenWithinMs: 10_000,
};

/** Commits lost in a row before a dispatcher leaves a letter, or a leader pauses for a pace. Half: a letter at 14 in 100 conflicts. Twice: waste where several contend. */
export const LOST_MAX = 3;
/** Newer declarations met in one run, and reads of one look at workers, before it is given up. Half: two deployments close together fail an invocation. Twice: nothing. */
export const TRIES_MAX = 5;
/** ms. A process whose request for a lead was refused asks again after this: it lacks a permission. Half, twice: a log line more or less in 20 minutes. */
export const REFUSED_FOR_MS = 10 * 60_000;
/**
 * ms. A leader asks for the next one so long before its time is over, which then waits up to three times as long. Half: a cold start takes
 * longer, and nothing leads meanwhile. Twice: each function runs for a second more in thirty.
 */
export const SUCCESSOR_MS = 1_000;
/** ms. Whether enough goes on to lead is judged after each of these. Half: a pause of a second ends a lead. Twice: an idle lead is paid for longer. */
export const CALM_AFTER_MS = 3_000;
/** ms. A leader looks for letters this often where nothing goes on. Half: twice the reads of an idle resident. Twice: a job waits for up to half a second. */
export const POLL_MS = 250;
/**
 * ms. The same for `leadMs` after something has happened, and how often a function that is to lead looks whether it may. Half: twice the reads.
 * Twice: jobs at an even rate wait for 14 ms more.
 */
export const LIVELY_POLL_MS = 28;

// The pace of a leader

/**
 * ms. Passes follow each other no closer than this where slots are free: each takes what has come since, for one commit and one send.
 * Half: more commits and reads for each job. Twice: jobs wait for 85 ms more on average. Measured at 100 jobs a second on 4 shards ($6.10,
 * 187 and 312 ms): half $6.39, 166 and 302 ms; twice $5.70, 273 and 532 ms.
 */
export const PACE_MS = 170;
/** Passes that may follow each other at once after a time without: where little goes on, a job starts at once. Half, twice: nothing that a row shows. */
export const PACES_AHEAD = 3;
/**
 * Lines that may be read for each job that is found in them before the stream tells: six read units. Half: lines are read from twice as many jobs
 * a second on. Twice: reads become a larger part of the bill.
 */
export const LINES_PER_JOB = 12;
/** As how many lines counts what else a pass reads; and so many read in vain are worth a write that spares others the read. Half, twice: little. */
export const LINES_OF_A_PASS = 16;
/** ms. By then the stream has told of a job: reading lines less often than this gains nothing. Half: lines are read only where much goes on. Twice: in vain. */
export const READ_WITHIN_MS = 400;
/** ms. How long it takes until a change of what goes on is believed. Half: bursts are taken for a rate. Twice: a burst that lasts is seen late. */
export const RATE_OVER_MS = 2_000;
/**
 * Jobs started a second: up to so many, of twice as many that come, a letter of each is worth its write unit, where lines are not read for what
 * is new. Half: jobs at 20 to 40 a second wait for the stream. Twice: a write for each job that a pass would have found.
 */
export const LETTER_RATE_MAX = 40;

// One pass

/** Reservations in one commit: the first jobs go out soon, the more follow, the more share a commit. Half: more commits in a full pass. Twice: the last jobs of a batch wait. */
export const RESERVATIONS_MAX = 4;
/** Rounds in which one pass promotes due jobs; with more it plans with what it has. Half: more passes at a full hour. Twice: a longer one. */
export const PROMOTE_ROUNDS_MAX = 10;
/** Schedules that fire at once. Half: half as many a second. Twice: the line of the index is throttled. */
export const FIRE_AT_ONCE = 50;
/** Rounds in which one pass fires schedules. Half, twice: the pass ends sooner or later, and the next goes on. */
export const FIRE_ROUNDS_MAX = 4;
/**
 * ms. From one round to the next. A firing moves its entry within one line of the index, two of the 1,000 write units a second that a key takes.
 * Half: throttled. Twice: 200 schedules of one minute take a second.
 */
export const FIRE_ROUND_MS = 120;
/**
 * The least number that a pass of any size looks at: blocked jobs where nothing holds them up, and lines that are used up and read again. Half: lesser jobs
 * go first more often where hints are lost. Twice: more reads before a commit.
 */
export const LOOKS_MIN = 64;

// Memory between passes

/**
 * ms. Everything that is remembered is read again after this, because a hint may have been lost: lines, keys, marks of parked jobs, and
 * partitions that are led. As long as the tick's period. The promise that a job is seen within two minutes needs it. Half: twice these reads. Twice: that promise is broken.
 */
export const LOOK_AROUND_MS = 60_000;
/** ms. After this the index certainly shows what was told or written: it lags by far less. Half: hints are forgotten before a late index shows them. Twice: memory. */
export const SHOWN_MS = 15_000;
/** ms. The index lags by no more as a rule: a second pass this much later sees what the first missed. Half: it misses it again. Twice: such a job waits longer. */
export const INDEX_LAG_MS = 2_000;
/** ms. The tick's period and a little more, so that the windows in which it looks ahead overlap. Half: work between two windows is late. Twice: each wake is sent twice. */
export const LOOK_AHEAD_MS = 75_000;
/**
 * Entries that a process keeps of all its partitions, of some 350 bytes each; beyond, lines are read again. Ten thousand keys of three types are
 * 70,000. Half: pools of 30,000 keys read again in each pass. Twice: 280 MB.
 */
export const ENTRIES_MAX = 400_000;
/** Names of keys, marks and jobs told of, remembered to spare a read or write. Half: more are done twice. Twice: memory. */
export const NAMES_MAX = 10_000;
/** Heads of a line that cost as much to read as one: they fill a read unit. Half: the same price for less. Twice: two units where one job is wanted. */
export const HEADS_OF_A_UNIT = 12;
/** Keys, jobs or marks that one request reads, or writes that one pass makes to tidy. Half: more requests. Twice: more read than used. */
export const PAGE_MAX = 100;

// Workers that are lost

/**
 * ms. How long a worker process counts as living without a heartbeat, unless it was told otherwise, and a dispatcher as a member. Half: a
 * pause of the garbage collector costs attempts, and twice the heartbeats. Twice: lost jobs are tried again half a minute later.
 */
export const WORKER_LEASE_MS = 15_000;
/** ms. A wake takes this long at most, with a cold start, as a rule. Half: gaps in looks, which hold losses back. Twice: looks come each 4 s, and locks are kept idle. */
export const WAKE_TAKES_MS = 3_000;
/** ms. A loss is not held back for longer, though gaps are long; no worker lives on for so long. Half: less than an outage of two ticks. Twice: jobs wait longer. */
export const HELD_BACK_MAX_MS = 5 * 60_000;
/** ms. After the end of a lease was seen, another look: by the clock of the dispatcher that passed it had not ended. Half: a look more. Twice: a loss is found later. */
export const CONFIRM_MS = 2_000;
/** Places sent out again, given up or taken away by the first pass after a gap. Half: a second more after an outage. Twice: more at once while workers report. */
export const RAMP_FIRST = 20;
/** ms. The ramp doubles after each. Half: all at once after 5 s. Twice: 10,000 places take 20 s. */
export const RAMP_DOUBLES_MS = 1_000;

// Several partitions

/** The most partitions, keys or lines that a pass looks at, and loans that it makes, beside its own work. Half, twice: the next passes go on. */
export const BESIDE_MAX = 20;
/** ms. A read of another partition is trusted for at least this long, and for up to thirty times as long. Half: reads. Twice: keys that moved start later. */
export const ELSEWHERE_MS = 500;
/** ms. A partition repeats a request for a loan after this; a request lasts five times as long. Half: asked again before the answer. Twice: idle slots. */
export const ASK_EVERY_MS = 2_000;
/** Partitions asked for a loan at once. Half: more rounds until one has room. Twice: more wakes of partitions without. */
export const ASKED_MAX = 3;
/** Jobs that one step reads to move them to where their keys live. Half: more passes after a change of partitions. Twice: passes that hold up the others. */
export const STEP_JOBS = 500;

// Dispatchers that run on, and outcomes

/** ms. A resident dispatcher repeats a step that failed after this. Half: more log lines in an outage. Twice: it comes back later. */
export const REPEAT_MS = 1_000;
/** Rounds that the ring's leader may live without leading; then a standby leads, for three times as many. Half: it takes over from one that begins. Twice: 10 s more without. */
export const MISSED_MAX = 2;
/** Renewals in one lease of a member. Half: a lost one ends it. Twice: twice the writes. */
export const ROUNDS_PER_LEASE = 3;
/** Part of a member's lease: so long before its end it stops leading. Half and twice: it only moves when an unreachable dispatcher gives up. */
export const MARGIN_PART = 5;
/** ms. The outbox waits for the bus at first; then twice as long each time. Half: more tries in an outage. Twice: outcomes that are late by half a minute. */
export const OUTCOMES_AGAIN_MS = 15_000;
/** ms. How long a tick publishes kept outcomes: the next one goes on. Half: half as many a minute after an outage. Twice: the tick's function may be ended. */
export const OUTCOMES_FOR_MS = 20_000;
