/**
 * `fairlead/testing`: a scheduler in the test's process under virtual time, one attempt of one handler, and the embedded
 * emulator, on which a stack can be deployed without an AWS account.
 */
export { EnvironmentError } from '../core/errors.ts';
export type { StartedAttempt } from './attempts.ts';
export type { CostSoFar } from './cost.ts';
export { type Emulator, type EmulatorExit, type EmulatorOptions, startEmulator } from './emulator.ts';
export { EMULATOR_ACCOUNT, EMULATOR_REGION, emulatorEnvironment } from './environment.ts';
export type { CrashOptions } from './faults.ts';
export { type HandlerRun, type TestHandlerOptions, testHandler } from './handler.ts';
export { type JobMatchers, jobMatchers } from './matchers.ts';
export {
  type HistoryLine,
  type IdleOptions,
  type TestedJob,
  TestScheduler,
  type TestSchedulerOptions,
  testScheduler,
} from './scheduler.ts';
