/** `fairlead`: the construct and the types of its props. The package's entry for CDK apps. */

export type { DurationInput } from '../lib/core/duration.ts';
export { ConfigurationError, EnvironmentError } from '../lib/core/errors.ts';
export type { JobTypeInput, PoolInput } from '../lib/core/pool-input.ts';
export type { ScheduleRequest } from '../lib/schedules/request.ts';
export { type AlarmsProps, SchedulerAlarms } from './alarms.ts';
export type { Api } from './api.ts';
export { type DashboardProps, SchedulerDashboard } from './dashboard.ts';
export type { Fleet, FleetProps } from './fleet.ts';
export { FUNCTION_BUNDLING, RUNTIME, SOURCE_MAPS } from './function.ts';
export type { SchedulerGrants } from './grants.ts';
export type { JobOfEvent } from './job-rule.ts';
export type { MoreAttributes, SchedulerAttributes } from './lookup.ts';
export type { MetricName, SchedulerMetricOptions } from './metrics.ts';
export { bundlingWithNativeModules, type NativeModulesProps, type Platform } from './native-modules.ts';
export { type Addressed, queueUrlOutput, schedulerOutputs } from './outputs.ts';
export type { SchedulerProps } from './props.ts';
export type { ScalableWorkers, ScaleProps } from './scaling.ts';
export { Scheduler } from './scheduler.ts';
export type { IScheduler } from './scheduler-base.ts';
export type { TableOptions } from './table.ts';
export { WorkerFunction } from './worker-function.ts';
export type { WorkerFunctionProps } from './worker-function-props.ts';
