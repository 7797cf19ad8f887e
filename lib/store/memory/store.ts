/**
 * The store in memory: the same verbs, the same conditions, the same awkwardness, one thread. For tests, for
 * simulation under a virtual clock, and for trying a configuration without a cloud.
 *
 * All verbs on one object, for whoever composes; what they do stands in a file by caller. Jobs are immutable, so they are
 * shared and never copied.
 */
import type { Job } from '../../core/job.ts';
import type { ScheduleRecord } from '../../core/recurring.ts';
import type { Lock, UnreadableItem } from '../contract/records.ts';
import type { JobStore, PlaceInLine, RequestOf } from '../contract/verbs.ts';
import type { Meter } from '../table/metering.ts';
import { MemoryClaimStore } from './claims.ts';
import type { StreamRecord } from './imitation/imitation.ts';
import { MemoryItems, type MemoryStoreOptions, type PartitionView } from './items.ts';
import { MemoryLeadStore } from './lead.ts';
import { MemoryLineStore } from './lines.ts';
import { MemoryMembershipStore } from './membership.ts';
import { MemoryOperateStore } from './operate.ts';
import { MemoryParkingStore } from './parking.ts';
import { MemoryPartitionStore } from './partition.ts';
import { MemoryScheduleStore } from './schedules.ts';
import { MemorySubmitStore } from './submit.ts';
import { MemoryWorkerStore } from './worker.ts';

export class MemoryJobStore implements JobStore {
  readonly #items: MemoryItems;
  readonly #submit: MemorySubmitStore;
  readonly #lead: MemoryLeadStore;
  readonly #partition: MemoryPartitionStore;
  readonly #lines: MemoryLineStore;
  readonly #parking: MemoryParkingStore;
  readonly #claims: MemoryClaimStore;
  readonly #worker: MemoryWorkerStore;
  readonly #membership: MemoryMembershipStore;
  readonly #operate: MemoryOperateStore;
  readonly #schedules: MemoryScheduleStore;

  constructor(options: MemoryStoreOptions) {
    const items = new MemoryItems(options);
    this.#items = items;
    this.#submit = new MemorySubmitStore(items);
    this.#lead = new MemoryLeadStore(items);
    this.#partition = new MemoryPartitionStore(items);
    this.#lines = new MemoryLineStore(items);
    this.#parking = new MemoryParkingStore(items);
    this.#claims = new MemoryClaimStore(items);
    this.#worker = new MemoryWorkerStore(items);
    this.#membership = new MemoryMembershipStore(items);
    this.#operate = new MemoryOperateStore(items);
    this.#schedules = new MemoryScheduleStore(items);
  }

  /**
   * Hears of every change of a job item, after it. Late, twice, never, in any order, as far as that is imitated.
   *
   * @returns a function that ends the subscription
   */
  subscribe(listener: (record: StreamRecord<Job>) => void): () => void {
    return this.#items.subscribe(listener);
  }

  /** A call by a process that puts jobs elsewhere than others do: it knows another declaration. */
  placing<T>(place: PlaceInLine, call: () => T): T {
    return this.#items.placing(place, call);
  }

  /** Tells from now on what a table would bill for each verb; undefined ends it. */
  set meter(meter: Meter | undefined) {
    this.#items.bill.meter = meter;
  }

  createJobs(request: RequestOf<'createJobs'>) {
    return this.#submit.createJobs(request);
  }
  announceLines(request: RequestOf<'announceLines'>) {
    return this.#submit.announceLines(request);
  }
  recordRejections(request: RequestOf<'recordRejections'>) {
    return this.#submit.recordRejections(request);
  }
  getJobs(request: RequestOf<'getJobs'>) {
    return this.#submit.getJobs(request);
  }
  lookUpJobs(request: RequestOf<'lookUpJobs'>) {
    return this.#submit.lookUpJobs(request);
  }
  readDeclaredVersion() {
    return this.#submit.readDeclaredVersion();
  }
  readDeclaration(version?: number) {
    return this.#submit.readDeclaration(version);
  }
  putLetter(request: RequestOf<'putLetter'>) {
    return this.#submit.putLetter(request);
  }

  lead(request: RequestOf<'lead'>) {
    return this.#lead.lead(request);
  }
  stopLeading(request: RequestOf<'stopLeading'>) {
    return this.#lead.stopLeading(request);
  }
  readLeader(request: RequestOf<'readLeader'>) {
    return this.#lead.readLeader(request);
  }
  readLetters(request: RequestOf<'readLetters'>) {
    return this.#lead.readLetters(request);
  }
  deleteLetters(request: RequestOf<'deleteLetters'>) {
    return this.#lead.deleteLetters(request);
  }

  loadPartition(request: RequestOf<'loadPartition'>) {
    return this.#partition.loadPartition(request);
  }
  commit(request: RequestOf<'commit'>) {
    return this.#partition.commit(request);
  }
  tidy(request: RequestOf<'tidy'>, expiredMs?: number) {
    return this.#partition.tidy(request, expiredMs);
  }
  keepLookout(request: RequestOf<'keepLookout'>) {
    return this.#partition.keepLookout(request);
  }
  askForLoan(request: RequestOf<'askForLoan'>) {
    return this.#partition.askForLoan(request);
  }

  readKeys(request: RequestOf<'readKeys'>) {
    return this.#lines.readKeys(request);
  }
  readBacklogs(request: RequestOf<'readBacklogs'>) {
    return this.#lines.readBacklogs(request);
  }
  getLedgers(request: RequestOf<'getLedgers'>) {
    return this.#lines.getLedgers(request);
  }
  getEstimates(request: RequestOf<'getEstimates'>) {
    return this.#lines.getEstimates(request);
  }
  readLine(request: RequestOf<'readLine'>) {
    return this.#lines.readLine(request);
  }
  readDue(request: RequestOf<'readDue'>) {
    return this.#lines.readDue(request);
  }
  promote(request: RequestOf<'promote'>) {
    return this.#lines.promote(request);
  }
  rehome(request: RequestOf<'rehome'>) {
    return this.#lines.rehome(request);
  }
  retireLine(request: RequestOf<'retireLine'>) {
    return this.#lines.retireLine(request);
  }

  markParked(request: RequestOf<'markParked'>) {
    return this.#parking.markParked(request);
  }
  readParked(request: RequestOf<'readParked'>) {
    return this.#parking.readParked(request);
  }
  listParked(request: RequestOf<'listParked'>) {
    return this.#parking.listParked(request);
  }
  unmarkParked(request: RequestOf<'unmarkParked'>) {
    return this.#parking.unmarkParked(request);
  }
  readBlocked(request: RequestOf<'readBlocked'>) {
    return this.#parking.readBlocked(request);
  }
  park(request: RequestOf<'park'>) {
    return this.#parking.park(request);
  }
  unpark(request: RequestOf<'unpark'>) {
    return this.#parking.unpark(request);
  }

  claim(request: RequestOf<'claim'>) {
    return this.#claims.claim(request);
  }
  readLocks(request: RequestOf<'readLocks'>) {
    return this.#claims.readLocks(request);
  }
  awaitLock(request: RequestOf<'awaitLock'>) {
    return this.#claims.awaitLock(request);
  }
  releaseLock(request: RequestOf<'releaseLock'>) {
    return this.#claims.releaseLock(request);
  }
  raiseVersion(request: RequestOf<'raiseVersion'>) {
    return this.#claims.raiseVersion(request);
  }
  giveBack(request: RequestOf<'giveBack'>) {
    return this.#claims.giveBack(request);
  }

  startJob(request: RequestOf<'startJob'>) {
    return this.#worker.startJob(request);
  }
  finishJob(request: RequestOf<'finishJob'>) {
    return this.#worker.finishJob(request);
  }
  loseWorker(request: RequestOf<'loseWorker'>) {
    return this.#worker.loseWorker(request);
  }
  saveCheckpoint(request: RequestOf<'saveCheckpoint'>) {
    return this.#worker.saveCheckpoint(request);
  }
  saveProgress(request: RequestOf<'saveProgress'>) {
    return this.#worker.saveProgress(request);
  }
  saveHung(request: RequestOf<'saveHung'>) {
    return this.#worker.saveHung(request);
  }
  registerWorker(request: RequestOf<'registerWorker'>) {
    return this.#worker.registerWorker(request);
  }
  heartbeat(request: RequestOf<'heartbeat'>) {
    return this.#worker.heartbeat(request);
  }
  deregisterWorker(request: RequestOf<'deregisterWorker'>) {
    return this.#worker.deregisterWorker(request);
  }

  keepDispatcher(request: RequestOf<'keepDispatcher'>) {
    return this.#membership.keepDispatcher(request);
  }
  removeDispatcher(request: RequestOf<'removeDispatcher'>) {
    return this.#membership.removeDispatcher(request);
  }
  listDispatchers(request: RequestOf<'listDispatchers'>) {
    return this.#membership.listDispatchers(request);
  }

  cancelJob(request: RequestOf<'cancelJob'>) {
    return this.#operate.cancelJob(request);
  }
  retimeJob(request: RequestOf<'retimeJob'>) {
    return this.#operate.retimeJob(request);
  }
  changeControl(request: RequestOf<'changeControl'>) {
    return this.#operate.changeControl(request);
  }
  adoptControl(request: RequestOf<'adoptControl'>) {
    return this.#operate.adoptControl(request);
  }
  async listUnreadable(partition: RequestOf<'listUnreadable'>): Promise<readonly UnreadableItem[]> {
    const present = this.#schedules.damagedKeys;
    return (await this.#operate.listUnreadable(partition)).filter(({ key }) => present.has(key));
  }
  readDeadLetters(request: RequestOf<'readDeadLetters'>) {
    return this.#operate.readDeadLetters(request);
  }
  redrive(request: RequestOf<'redrive'>) {
    return this.#operate.redrive(request);
  }
  listRejections(request: RequestOf<'listRejections'>) {
    return this.#operate.listRejections(request);
  }
  readRejections(request: RequestOf<'readRejections'>) {
    return this.#operate.readRejections(request);
  }
  putDeclaration(request: RequestOf<'putDeclaration'>) {
    return this.#operate.putDeclaration(request);
  }
  announceDeclaration(request: RequestOf<'announceDeclaration'>) {
    return this.#operate.announceDeclaration(request);
  }

  getSchedules(request: RequestOf<'getSchedules'>) {
    return this.#schedules.getSchedules(request);
  }
  putSchedule(request: RequestOf<'putSchedule'>) {
    return this.#schedules.putSchedule(request);
  }
  saveSchedule(request: RequestOf<'saveSchedule'>) {
    return this.#schedules.saveSchedule(request);
  }
  deleteSchedule(request: RequestOf<'deleteSchedule'>) {
    return this.#schedules.deleteSchedule(request);
  }
  discardSchedule(id: string) {
    return this.#schedules.discardSchedule(id);
  }
  readDueSchedules(request: RequestOf<'readDueSchedules'>) {
    return this.#schedules.readDueSchedules(request);
  }
  readStoppedSchedules(request: RequestOf<'readStoppedSchedules'>) {
    return this.#schedules.readStoppedSchedules(request);
  }
  readDeclaredSchedules() {
    return this.#schedules.readDeclaredSchedules();
  }
  noteDeclaredSchedules(request: RequestOf<'noteDeclaredSchedules'>) {
    return this.#schedules.noteDeclaredSchedules(request);
  }

  /** What a partition holds: for a simulation's invariants. */
  inspect(partition: number): PartitionView {
    return this.#items.inspect(partition);
  }

  /** The line in which a job's item stands; undefined: there is no such item. For a simulation's invariants. */
  inspectLine(id: string): string | undefined {
    return this.#items.item(id)?.line;
  }

  /** A conflict key's lock as it is: for a simulation's invariants. */
  inspectLock(conflictKey: string): Lock | undefined {
    return this.#items.locks.get(conflictKey);
  }

  /** A job as it is: for a simulation's invariants. */
  inspectJob(id: string): Job | undefined {
    return this.#items.item(id)?.value;
  }

  /** A schedule that something else wrote to, for a test: it cannot be read, or, without a problem, can be again. */
  damageSchedule(id: string, problem: string | undefined): void {
    this.#schedules.damage(id, problem);
  }

  /** A schedule as it is, without waiting. */
  inspectSchedule(id: string): ScheduleRecord | undefined {
    return this.#schedules.inspect(id);
  }

  /** Every schedule: for a simulation's invariants. */
  everySchedule(): Iterable<ScheduleRecord> {
    return this.#schedules.all;
  }

  /** Every job that is not gone: for a simulation's invariants. */
  everyJob(): Generator<Job> {
    return this.#items.everyJob();
  }
}
