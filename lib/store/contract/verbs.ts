/**
 * A job store has the core and every capability. The smaller interfaces here are what single callers need.
 *
 * Implementations: `dynamodb/` and `memory/`. One conformance suite runs on both. A store with only the core is in `test/contract/sqlite/`.
 */
import type { ClaimStore, CoreStore, LineStore, PartitionStore, ProducerStore, WorkerStore } from './core.ts';
import type { DeclareStore } from './declaring.ts';
import type { DedupeStore } from './deduping.ts';
import type { ExpiringStore } from './expiring.ts';
import type { JobHead } from './job-fields.ts';
import type { LeadStore } from './leading.ts';
import type { LendingStore } from './lending.ts';
import type { LockStore } from './locks.ts';
import type { MembershipStore } from './membership.ts';
import type { OperateStore } from './operate.ts';
import type { ParkingStore } from './parking.ts';
import type { ScheduleStore } from './schedules.ts';
import type { StatisticsStore } from './statistics.ts';

/** The rank of a ready job in its line. Ranks are compared as text. */
export type RankOf = (job: JobHead) => { readonly rank: string };

/** The core with all capabilities, for composition roots. */
export interface JobStore
  extends CoreStore,
    ParkingStore,
    LockStore,
    LendingStore,
    LeadStore,
    ExpiringStore,
    DedupeStore,
    MembershipStore,
    DeclareStore,
    OperateStore,
    ScheduleStore,
    StatisticsStore {}

/** The argument of a verb. */
export type RequestOf<Verb extends keyof JobStore> = Parameters<JobStore[Verb]>[0];

/** For callers that submit: producers, the ingest, and a dispatcher that moves jobs to another line. */
export interface SubmitStore
  extends DedupeStore,
    Pick<ProducerStore, 'createJobs' | 'announceLines' | 'getJobs' | 'lookUpJobs'>,
    Pick<LineStore, 'readKeys' | 'readLine' | 'getEstimates'>,
    Pick<OperateStore, 'recordRejections' | 'recordTags'>,
    Pick<DeclareStore, 'readDeclaredVersion' | 'readDeclaration'>,
    Pick<LeadStore, 'putLetter'> {}

/** For a pass, which also submits. */
export interface PassStore
  extends SubmitStore,
    LeadStore,
    PartitionStore,
    LendingStore,
    LineStore,
    ParkingStore,
    ClaimStore,
    LockStore,
    ExpiringStore,
    Pick<ProducerStore, 'cancelJob'>,
    Pick<WorkerStore, 'endUnfinished'>,
    Pick<MembershipStore, 'listDispatchers'>,
    Pick<DeclareStore, 'announceDeclaration' | 'rehome' | 'adoptControl' | 'giveBack'>,
    Pick<ScheduleStore, 'readDueSchedules' | 'getSchedules' | 'saveSchedule'>,
    Pick<StatisticsStore, 'putStatistics'> {}

/** For a deployment, which stores its declaration and the declared schedules. */
export interface DeployStore
  extends SubmitStore,
    DeclareStore,
    ScheduleStore,
    Pick<ProducerStore, 'cancelJob'> {}

/** For operators, who read everything that a pass reads, and change jobs, controls and schedules. */
export interface OperatorStore
  extends PassStore,
    ProducerStore,
    MembershipStore,
    OperateStore,
    ScheduleStore,
    StatisticsStore {}
