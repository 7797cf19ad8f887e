/**
 * The store on one DynamoDB table: all verbs on one object, for whoever composes. What they do stands in a file by caller.
 *
 * A request whose answer got lost is sent again by the SDK, and then meets its own success. So every condition that
 * fails looks at the item that stood in the way: if it is what this very request makes of it, the request was applied.
 */
import type { JobStore, RequestOf } from '../contract/verbs.ts';
import { DynamoClaimStore } from './claims.ts';
import { type DynamoJobStoreOptions, TableItems } from './items.ts';
import { DynamoLeadStore } from './lead.ts';
import { DynamoLineStore } from './lines.ts';
import { DynamoMembershipStore } from './membership.ts';
import { DynamoOperateStore } from './operate.ts';
import { DynamoParkingStore } from './parking.ts';
import { DynamoPartitionStore } from './partition.ts';
import { DynamoScheduleStore } from './schedules.ts';
import { DynamoSubmitStore } from './submit.ts';
import { DynamoWorkerStore } from './worker.ts';

export class DynamoJobStore implements JobStore {
  readonly #submit: DynamoSubmitStore;
  readonly #lead: DynamoLeadStore;
  readonly #partition: DynamoPartitionStore;
  readonly #lines: DynamoLineStore;
  readonly #parking: DynamoParkingStore;
  readonly #claims: DynamoClaimStore;
  readonly #worker: DynamoWorkerStore;
  readonly #membership: DynamoMembershipStore;
  readonly #operate: DynamoOperateStore;
  readonly #schedules: DynamoScheduleStore;

  constructor(options: DynamoJobStoreOptions) {
    const items = new TableItems(options);
    this.#lines = new DynamoLineStore(items);
    this.#submit = new DynamoSubmitStore(items, this.#lines);
    this.#lead = new DynamoLeadStore(items);
    this.#partition = new DynamoPartitionStore(items);
    this.#parking = new DynamoParkingStore(items, this.#partition);
    this.#claims = new DynamoClaimStore(items, this.#submit);
    this.#worker = new DynamoWorkerStore(items);
    this.#membership = new DynamoMembershipStore(items);
    this.#operate = new DynamoOperateStore(items, this.#submit);
    this.#schedules = new DynamoScheduleStore(items);
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
  listUnreadable(request: RequestOf<'listUnreadable'>) {
    return this.#operate.listUnreadable(request);
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
}
