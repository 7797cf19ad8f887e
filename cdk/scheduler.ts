/** The whole scheduler as one construct. */

import { Aspects, type ResourceEnvironment, Stack, Tags } from 'aws-cdk-lib';
import type {
  MathExpression,
  MathExpressionOptions,
  Metric,
  MetricOptions,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { EventBus, type EventPattern, type IEventBus, type Rule } from 'aws-cdk-lib/aws-events';
import { PermissionsBoundary } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { type ILogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct, type IConstruct } from 'constructs';
import type { PoolConfiguration } from '../lib/core/configuration.ts';
import { ConfigurationError, show } from '../lib/core/errors.ts';
import type { JobTypeInput } from '../lib/core/pool-input.ts';
import { didYouMean } from '../lib/core/spelling.ts';
import type { OwnQueueName } from '../lib/declaration/codec.ts';
import { typesOfJobs } from '../lib/declaration/types-of-jobs.ts';
import type { AskedMetrics } from '../lib/metrics/contract.ts';
import {
  FINER_SCOPES,
  type FinerScope,
  METRICS_BY,
  METRICS_ON_REQUEST,
  METRICS_TOLD,
  type MetricOnRequest,
} from '../lib/metrics/names.ts';
import { type AlarmsProps, checkAlarms, SchedulerAlarms } from './alarms.ts';
import { Api } from './api.ts';
import { checkDashboard, type DashboardProps, METRICS_DRAWN, SchedulerDashboard } from './dashboard.ts';
import { Declaration } from './declaration.ts';
import { Dispatch } from './dispatch.ts';
import { Fleet, type FleetProps } from './fleet.ts';
import type { FunctionSettings } from './function.ts';
import { consumeMessages, SchedulerGrants, sendMessages } from './grants.ts';
import { Ingest } from './ingest.ts';
import { checkJobOfEvent, type JobOfEvent, jobRule } from './job-rule.ts';
import { allowLogs } from './keys.ts';
import { largePayloadsBucket, ObjectCollector } from './large-payloads.ts';
import { checkLimits, checkNetwork, INGEST_CONCURRENCY } from './limits.ts';
import {
  fromAttributes,
  fromParameter,
  type MoreAttributes,
  publishParameter,
  type SchedulerAttributes,
} from './lookup.ts';
import { busName } from './names.ts';
import { addressOutputs } from './outputs.ts';
import { PoolDeclaration } from './pool.ts';
import { declarationOf, type NamesOr, type ScheduleOf, type SchedulerProps } from './props.ts';
import { type GuardedQueue, type QueueSettings, SharedTls } from './queues.ts';
import { checkScale, type ScalableWorkers, type ScaleProps, scaleWorkers } from './scaling.ts';
import { type IScheduler, SchedulerBase } from './scheduler-base.ts';
import { ScheduleDeclarations } from './schedules.ts';
import { checkSources, claimSources } from './sources.ts';
import { checkTable, schedulerTable } from './table.ts';
import { checkDeclaration, checkPlaces } from './validation.ts';
import { queueForProcesses, warnOfMetrics, warnOfReserved, warnOfTimeouts } from './warnings.ts';
import { deadLettersIn, type WatchedScheduler } from './watched.ts';

/**
 * The priority of the aspect that creates the last parts of a scheduler: it runs before other aspects visit the parts.
 */
const SETTLE_PRIORITY = 50;

/**
 * A job scheduler: a table, a bus, queues, functions and fleets. Queues whose messages must not be lost have dead-letter
 * queues.
 *
 * @example
 * const scheduler = new Scheduler(this, 'Jobs', {
 *   types: { render: { maxConcurrency: 20 } },
 *   fleets: { pdf: { types: ['render'], handler: new WorkerFunction(this, 'Pdf', { entry: 'pdf.ts' }) } },
 * });
 * scheduler.grants.putEvents(orderService);
 *
 * @throws ConfigurationError at synth, for a configuration that cannot work
 */
export class Scheduler<Named extends NoInfer<Type> = never, Type extends string = NamesOr<Named>>
  extends SchedulerBase
  implements WatchedScheduler
{
  /**
   * A scheduler of another app or stack, by the ARNs of its parts.
   * @throws ConfigurationError for a missing or wrong ARN
   */
  static fromAttributes(scope: Construct, id: string, attributes: SchedulerAttributes): IScheduler {
    return fromAttributes(scope, id, attributes);
  }

  /**
   * A scheduler that was deployed with this `parameterName`, in the same account and Region. `more` gives the attributes
   * that the parameter does not contain: sources, an encryption key, fleets and dead-letter queues.
   */
  static fromParameter(
    scope: Construct,
    id: string,
    parameterName: string,
    more?: MoreAttributes,
  ): IScheduler {
    return fromParameter(scope, id, parameterName, more);
  }

  readonly table: ITableV2;
  /** The bucket for values over 64 KB; undefined without `largePayloads`. */
  readonly bucket: IBucket | undefined;
  override readonly bus: IEventBus;
  readonly ingestQueue: Queue;
  override readonly wakeQueue: Queue;
  override readonly wakeFunctionArn: string;
  readonly dispatchFunction: NodejsFunction;
  /** The name of the rule that invokes the dispatch function each minute. */
  readonly tickRuleName: string;
  readonly ingestFunction: NodejsFunction;
  /** Deletes objects of large payloads whose job is gone, once a day; undefined without `largePayloads`. */
  readonly collectFunction: NodejsFunction | undefined;
  /** The HTTP protocol behind a function URL; undefined without `api: true`. */
  readonly api: Api | undefined;
  override readonly grants: SchedulerGrants;
  readonly #pool: PoolDeclaration;
  readonly #schedules: ScheduleDeclarations;
  readonly #queues: QueueSettings;
  readonly #fleetsScope: Construct;
  readonly #tls: SharedTls;
  readonly #made = new Map<string, Fleet>();
  /** The queues whose messages must not be lost: events until they are jobs, and outcomes until the bus accepts them. */
  readonly #guarded: Readonly<Record<OwnQueueName, GuardedQueue>> & { readonly ingest: Ingest };
  readonly #fleetVisitors: ((fleet: Fleet) => void)[] = [];
  readonly #settled: (() => void)[] = [];
  #isSettled = false;
  readonly #scaledFleets = new Set<string>();
  /** Metrics on request that the app uses. */
  readonly #metrics = new Set<MetricOnRequest>();
  /** Dimensions that the app uses. */
  readonly #metricsBy = new Set<FinerScope>();

  constructor(scope: Construct, id: string, props: SchedulerProps<Named, Type> = {}) {
    super(scope, id);
    const declaration = checkedDeclaration(props, Stack.of(this));
    const { fleets = {}, encryptionKey, sources = [] } = props;
    this.#pool = new PoolDeclaration(declaration, fleets, Stack.of(this), props.jobs);
    this.#schedules = new ScheduleDeclarations(() => this.configuration, props.schedules);
    this.bus = props.eventBus ?? this.#ownBus(encryptionKey);
    claimSources(this, this.bus, sources);

    this.#queues = {
      encryptionKey,
      removalPolicy: props.queueRemovalPolicy,
    };
    this.table = schedulerTable(this, 'Table', {
      ...props.table,
      removalPolicy: props.removalPolicy,
      encryptionKey,
    });
    this.bucket = this.#ownBucket(props);
    if (encryptionKey !== undefined) allowLogs(this, encryptionKey);
    const functions = functionSettings(props);
    const ingest = new Ingest(this, 'Ingest', {
      bus: this.bus,
      sources,
      functions,
      usesObjects: this.bucket !== undefined,
      queues: this.#queues,
      logGroup: props.logGroups?.ingest,
      maxReceiveCount: props.maxReceiveCount ?? 5,
      batchSize: props.ingestBatchSize ?? 10,
      batchingWindow: props.ingestBatchingWindow,
      concurrency: props.ingestConcurrency ?? INGEST_CONCURRENCY,
      reservedConcurrency: props.reservedConcurrency?.ingest,
    });
    if (props.eventBus === undefined && encryptionKey !== undefined) ingest.keepUnreadableOf(this.bus);
    const dispatch = new Dispatch(this, 'Dispatch', {
      table: this.table,
      functions,
      queues: this.#queues,
      logGroup: props.logGroups?.dispatch,
      reservedConcurrency: props.reservedConcurrency?.dispatch,
    });
    this.ingestQueue = ingest.queue;
    this.ingestFunction = ingest.function;
    this.wakeQueue = dispatch.wakeQueue;
    this.wakeFunctionArn = dispatch.wakeFunction.functionArn;
    this.dispatchFunction = dispatch.function;
    this.tickRuleName = dispatch.tickRuleName;
    this.#guarded = { ingest, outcomes: dispatch.outcomes };
    this.grants = new SchedulerGrants({
      table: { tableArn: this.table.tableArn, encryptionKey },
      bucketArn: this.bucket?.bucketArn,
      bus: this.bus,
      sources,
      wakeQueue: this.wakeQueue,
      wakeFunctionArn: this.wakeFunctionArn,
      fleetQueue: (fleet) => queueForProcesses(this.fleetNamed(fleet)),
      eachFleetQueue: (visit) => this.eachFleet(({ queue }) => visit(queue)),
      deadLetterQueues: Object.values(this.deadLetterQueues),
      redriveQueues: Object.values(this.#guarded).map(({ queue }) => queue),
    });
    this.#fleetsScope = new Construct(this, 'Fleets');
    this.#tls = new SharedTls(this, 'FleetTls');
    this.#connect(metricsAskedFor(props));
    for (const fleet of Object.keys(fleets)) this.#make(fleet);
    const declared = new Declaration(this, 'Declaration', {
      pool: this.#pool,
      schedules: () => this.#schedules.encode(),
      table: this.table,
      wakeQueue: this.wakeQueue,
      queues: () => Object.fromEntries([...this.#made].map(([fleet, { queue }]) => [fleet, queue])),
      ownQueues: this.#guarded,
      bucketName: this.bucket?.bucketName,
      grants: this.grants,
      functions,
      logGroup: props.logGroups?.declare,
    });
    // The functions read the declaration, so they are deployed after it.
    ingest.function.node.addDependency(declared.resource);
    dispatch.function.node.addDependency(declared.resource);
    this.collectFunction = this.#collectObjects(functions, declared, props.logGroups?.collect);
    this.api = props.api === true ? this.#ownApi(functions, declared, props) : undefined;
    if (props.parameterName !== undefined) this.#publish(props.parameterName);
    this.#mark(props);
    addressOutputs(this, this);
    this.#settleLate();
  }

  override get tableName(): string {
    return this.table.tableName;
  }

  /** The configuration declared so far, with all defaults. */
  get configuration(): PoolConfiguration {
    return this.#pool.configuration;
  }

  /** The fleets by name. The first read creates a fleet for each type that has none. */
  get fleets(): Readonly<Record<string, Fleet>> {
    this.#makeImplied();
    return Object.fromEntries(this.#made);
  }

  /**
   * The dead-letter queues: `ingest` for events that became no job, `outcomes` for outcomes that the bus refused. Queues
   * of hints have none.
   */
  get deadLetterQueues(): Readonly<Record<OwnQueueName, Queue>> {
    const { ingest, outcomes } = this.#guarded;
    return { ingest: ingest.deadLetterQueue, outcomes: outcomes.deadLetterQueue };
  }

  /**
   * Makes a job of each event that matches the pattern, on the scheduler's bus or another bus of its account and Region.
   * An event without a field that the job needs is rejected, as a request is.
   * @throws ConfigurationError for a path outside the event's detail, a pattern that is too long, and a rule that exists
   * already; at synth, for a job without a field that its type needs
   */
  on(pattern: EventPattern, job: JobOfEvent<Type>, bus: IEventBus = this.bus): Rule {
    this.whenSettled(() => {
      if (this.configuration.types.some(({ type }) => type === job.type))
        return checkJobOfEvent(job, this.configuration);
      throw new ConfigurationError(
        'job.type',
        job.type,
        'is not a job type of this scheduler',
        'Declare it first: in jobs or types, or with addJobType.',
      );
    });
    const isOwnBus = bus.eventBusName === this.bus.eventBusName;
    return jobRule(this, { pattern, job, bus, isOwnBus, ingest: this.#guarded.ingest });
  }

  /**
   * Declares one more fleet.
   * @throws ConfigurationError for a fleet that cannot work or exists already; the scheduler is unchanged then
   */
  addFleet(fleet: string, props: FleetProps<Type>): Fleet {
    this.#pool.addFleet(fleet, props);
    return this.#make(fleet);
  }

  /**
   * Declares one more job type. After the first declared type, fleets may name only declared types. Returns this
   * scheduler, typed as one that has the new type.
   * @throws ConfigurationError for a type that cannot work or exists already; the scheduler is unchanged then
   */
  addJobType<Added extends string>(type: Added, input: JobTypeInput = {}): Scheduler<never, Type | Added> {
    this.#pool.addType(type, input);
    return this as Scheduler<never, Type | Added>;
  }

  /**
   * Declares a schedule, as the prop `schedules` does. Its job type must be declared before.
   * @throws ConfigurationError for an invalid schedule, and for a name in use; the scheduler is unchanged then
   */
  addSchedule(id: string, schedule: ScheduleOf<Type>): void {
    this.#schedules.add(id, schedule);
  }

  /** Calls `visit` with every fleet: at once with the existing ones, and later with each new one. */
  eachFleet(visit: (fleet: Fleet) => void): void {
    for (const fleet of this.#made.values()) visit(fleet);
    this.#fleetVisitors.push(visit);
  }

  /** Calls `effect` when everything is declared, before synthesis; at once if that has happened, for example in an aspect. */
  whenSettled(effect: () => void): void {
    if (this.#isSettled) effect();
    else this.#settled.push(effect);
  }

  /**
   * Creates alarms for problems that need an operator; each notifies `actions`. May be called once.
   * @throws ConfigurationError for a second call, and for an impossible threshold
   */
  alarms(props: AlarmsProps = {}): SchedulerAlarms {
    this.#requireOnce('Alarms', 'alarms()');
    checkAlarms(props);
    return new SchedulerAlarms(this, 'Alarms', { scheduler: this, ...props });
  }

  /**
   * Creates a CloudWatch dashboard of waiting and running jobs, their durations, and failures. May be called once.
   * @throws ConfigurationError for a second call, and for an impossible name or time
   */
  dashboard(props: DashboardProps = {}): SchedulerDashboard {
    this.#requireOnce('Dashboard', 'dashboard()');
    checkDashboard(props);
    // These metrics are turned on now, not when the graphs are made, so that environments created in between contain
    // them.
    for (const metric of METRICS_DRAWN) this.turnOn(metric);
    this.turnOnBy('type');
    return new SchedulerDashboard(this, 'Dashboard', { scheduler: this, ...props });
  }

  /**
   * Scales workers that run in containers or on instances by how much work waits for their fleet: from the least to the
   * greatest number that they were given. The metric `backlogTime` is written for it, and the dashboard shows it.
   *
   * @example
   * scheduler.scale(service.autoScaleTaskCount({ minCapacity: 0, maxCapacity: 20 }), { fleet: 'gpu' });
   *
   * @throws ConfigurationError for an unknown fleet, one with a handler, and an impossible time
   */
  scale(workers: ScalableWorkers, props: ScaleProps = {}): void {
    checkScale(workers, props);
    const fleet = this.#fleetOfProcesses(props.fleet);
    this.#scaledFleets.add(fleet);
    scaleWorkers(this, workers, { ...props, fleet });
  }

  /** The fleets that `scale()` was called for. */
  get scaledFleets(): readonly string[] {
    return [...this.#scaledFleets];
  }

  /** The number of messages in both dead-letter queues. If it is above zero, use `fairlead queues list`. */
  metricDeadLetters(options?: MathExpressionOptions): MathExpression {
    return deadLettersIn(Object.values(this.deadLetterQueues), options);
  }

  /** The age of the oldest event that waits to become a job, in seconds. */
  metricIngestAge(options?: MetricOptions): Metric {
    return this.ingestQueue.metricApproximateAgeOfOldestMessage(options);
  }

  /** How far the dispatch function is behind the table's stream, in milliseconds. */
  metricStreamAge(options?: MetricOptions): Metric {
    return this.dispatchFunction.metric('IteratorAge', { statistic: 'Maximum', ...options });
  }

  /**
   * Age of the oldest message that waits for a worker of the fleet, in seconds.
   * @throws ConfigurationError for an unknown fleet
   */
  metricFleetQueueAge(fleet: string, options?: MetricOptions): Metric {
    return this.fleetNamed(fleet).metricQueueAge(options);
  }

  protected override requireFleet(fleet: string): void {
    this.fleetNamed(fleet);
  }

  private fleetNamed(fleet: string): Fleet {
    if (!this.#made.has(fleet)) this.#makeImplied();
    const found = this.#made.get(fleet);
    if (found !== undefined) return found;
    const names = [...this.#made.keys()];
    throw new ConfigurationError(
      'fleet',
      fleet,
      `is not a fleet of this scheduler (${names.map(show).join(', ')})`,
      `${didYouMean(fleet, names)}Declare it in fleets or with addFleet, or name one of those.`,
    );
  }

  /**
   * Returns the fleet `named`, or without a name the only fleet without a handler.
   * @throws ConfigurationError - the fleet is not declared or has a handler; or no name was given, and not exactly one fleet has
   *   no handler
   */
  #fleetOfProcesses(named: string | undefined): string {
    const names = Object.values(this.fleets).flatMap((each) =>
      each.function === undefined ? each.fleet : [],
    );
    const [first, ...others] = named === undefined ? names : [this.fleetNamed(named).fleet];
    if (first !== undefined && others.length === 0 && names.includes(first)) return first;
    throw new ConfigurationError(
      'fleet',
      named,
      'must be a fleet without a handler: Lambda scales functions by itself',
      names.length === 0 ? 'This scheduler has none.' : `Name one of ${names.map(show).join(', ')}.`,
    );
  }

  #requireOnce(id: string, method: string): void {
    if (this.node.tryFindChild(id) === undefined) return;
    throw new ConfigurationError(
      method,
      this.node.path,
      'was already called for this scheduler',
      'Keep the result of the first call.',
    );
  }

  /** Puts the boundary and the tags of its account on all parts. */
  #mark({ permissionsBoundary, tags = {} }: Pick<SchedulerProps, 'permissionsBoundary' | 'tags'>): void {
    if (permissionsBoundary !== undefined) PermissionsBoundary.of(this).apply(permissionsBoundary);
    for (const [key, value] of Object.entries(tags)) Tags.of(this).add(key, value);
  }

  #collectObjects(
    functions: FunctionSettings,
    { resource }: Declaration,
    logGroup: ILogGroup | undefined,
  ): NodejsFunction | undefined {
    const { table, grants } = this;
    if (this.bucket === undefined) return undefined;
    const collector = new ObjectCollector(this, 'Objects', { table, grants, functions, logGroup });
    collector.function.node.addDependency(resource);
    return collector.function;
  }

  #publish(parameterName: string): void {
    publishParameter(this, parameterName, {
      tableArn: this.table.tableArn,
      busArn: this.bus.eventBusArn,
      wakeQueueArn: this.wakeQueue.queueArn,
      wakeFunctionArn: this.wakeFunctionArn,
    });
  }

  #ownApi(
    functions: FunctionSettings,
    { resource }: Declaration,
    { reservedConcurrency, logGroups }: Pick<SchedulerProps, 'reservedConcurrency' | 'logGroups'>,
  ): Api {
    const environment = this.schedulerEnvironment();
    const api = new Api(this, 'Api', {
      functions,
      usesObjects: this.bucket !== undefined,
      grants: this.grants,
      environment,
      reservedConcurrency: reservedConcurrency?.api,
      logGroup: logGroups?.api,
    });
    api.function.node.addDependency(resource);
    return api;
  }

  #ownBucket({
    largePayloadsBucket: existing,
    removalPolicy,
    encryptionKey,
  }: Pick<SchedulerProps, 'largePayloadsBucket' | 'removalPolicy' | 'encryptionKey'>): IBucket | undefined {
    const isDeclared = this.configuration.largePayloads !== undefined;
    if (!isDeclared && existing !== undefined)
      throw new ConfigurationError(
        'largePayloadsBucket',
        existing.bucketName,
        'is for largePayloads, which this scheduler does not declare',
        'Declare largePayloads: {}, or leave the bucket out.',
      );
    return isDeclared
      ? largePayloadsBucket(this, 'Bucket', { existing, removalPolicy, encryptionKey })
      : undefined;
  }

  #ownBus(encryptionKey: IKey | undefined): IEventBus {
    const bus = new EventBus(this, 'Bus', {
      description: 'Requests for jobs, and their outcomes',
      eventBusName: busName(this),
      ...(encryptionKey === undefined ? {} : { kmsKey: encryptionKey }),
    });
    // The types of aws-cdk-lib are looser than ours about absent properties.
    return bus as IEventBus;
  }

  #make(name: string): Fleet {
    const fleet = this.configuration.fleets.find((each) => each.fleet === name);
    const input = this.#pool.fleet(name);
    if (fleet === undefined || input === undefined) throw new RangeError(`fleet ${name} is not declared`);
    const made = new Fleet(this.#fleetsScope, name, {
      fleet,
      input,
      handler: this.#pool.handlers.get(name),
      environment: this.environmentOf(name),
      grants: this.grants,
      queues: this.#queues,
      tls: this.#tls,
    });
    this.#made.set(name, made);
    for (const visit of this.#fleetVisitors) visit(made);
    return made;
  }

  /** Creates a fleet for each type that has none, and declares it like the others. */
  #makeImplied(): void {
    for (const { fleet, types } of this.configuration.fleets) {
      if (this.#made.has(fleet)) continue;
      if (this.#pool.fleet(fleet) === undefined) this.#pool.addFleet(fleet, { types });
      this.#make(fleet);
    }
  }

  /** Sets the environment of each function, and grants its rights. */
  #connect({ metrics = [], by = [] }: AskedMetrics): void {
    for (const metric of metrics) this.turnOn(metric);
    for (const scope of by) this.turnOnBy(scope);
    // The ingest function may run a pass right after it stores jobs, so it gets all rights of a dispatcher.
    for (const dispatcher of [this.ingestFunction, this.dispatchFunction]) {
      for (const [name, value] of Object.entries(this.passEnvironment())) {
        dispatcher.addEnvironment(name, value);
      }
      this.grants.passes(dispatcher, 'dispatch');
    }
    this.grants.table(this.ingestFunction, 'ingest');
    this.grants.publish(this.ingestFunction, 'rejections');
    this.grants.publish(this.dispatchFunction, 'outcomes');
    const { queue, deadLetterQueue } = this.#guarded.outcomes;
    consumeMessages(queue, this.dispatchFunction);
    for (const each of [queue, deadLetterQueue]) sendMessages(each, this.dispatchFunction);
  }

  protected override turnOn(metric: MetricOnRequest): void {
    this.#metrics.add(metric);
    if (this.#isSettled) this.#setMetrics();
  }

  protected override turnOnBy(scope: FinerScope): void {
    this.#metricsBy.add(scope);
    if (this.#isSettled) this.#setMetrics();
  }

  protected override metricsEnvironment(): Readonly<Record<string, string>> {
    const said = (variable: string, names: ReadonlySet<string>): Readonly<Record<string, string>> =>
      names.size === 0 ? {} : { [variable]: [...names].toSorted().join(',') };
    return { ...said(METRICS_TOLD, this.#metrics), ...said(METRICS_BY, this.#metricsBy) };
  }

  /** More metrics may be in use now than when the functions were made. */
  #setMetrics(): void {
    const environment = this.metricsEnvironment();
    for (const [name, value] of Object.entries(environment))
      for (const each of [this.ingestFunction, this.dispatchFunction]) each.addEnvironment(name, value);
    this.eachFleet((fleet) => fleet.addEnvironment(environment));
  }

  /** Does the work that needs the complete declaration, when the app is complete. */
  #settleLate(): void {
    const visit = (node: IConstruct): void => {
      if (node !== this || this.#isSettled) return;
      this.#isSettled = true;
      this.#makeImplied();
      checkDeclaration(this.configuration, this.#pool.encode(), {
        schedules: this.#schedules.encode(),
        payloadSchemas: this.#pool.payloadSchemas,
      });
      warnOfTimeouts(this, this.#pool);
      warnOfReserved(this.#pool);
      warnOfMetrics(this, this.configuration, this.#metricsBy);
      for (const effect of this.#settled) effect();
      this.#setMetrics();
    };
    Aspects.of(this).add({ visit }, { priority: SETTLE_PRIORITY });
  }
}

/**
 * Checks the props before any resource is created.
 * @throws ConfigurationError
 */
function checkedDeclaration(
  props: SchedulerProps,
  place: ResourceEnvironment,
): ReturnType<typeof declarationOf> {
  const declaration = declarationOf(props);
  checkLimits(props);
  checkNetwork(props);
  checkTable(props.table ?? {});
  if (props.table?.existing !== undefined && props.removalPolicy !== undefined) {
    throw new ConfigurationError(
      'removalPolicy',
      props.removalPolicy,
      'is for a table that this stack creates, but table.existing names an existing one',
      'Leave removalPolicy out.',
    );
  }
  if (props.sources !== undefined) checkSources(props.sources);
  checkPlaces(props, place);
  const { jobs, types } = props;
  return jobs === undefined ? declaration : { ...declaration, types: typesOfJobs(jobs, types) };
}

/**
 * Returns the metrics and dimensions that the props ask for.
 * @throws ConfigurationError for a metric that is not on request, and for an unknown dimension
 */
function metricsAskedFor({ metrics = [], metricsBy = [] }: SchedulerProps): AskedMetrics {
  checkAmong('metrics', metrics, METRICS_ON_REQUEST, 'all other metrics are always written');
  checkAmong('metricsBy', metricsBy, FINER_SCOPES, 'metrics by partition are always written');
  return { metrics, by: metricsBy };
}

function checkAmong(
  field: string,
  names: readonly string[],
  known: readonly string[],
  otherwise: string,
): void {
  for (const [at, name] of names.entries()) {
    if (known.includes(name)) continue;
    const advice = `${didYouMean(name, known)}Leave it out: ${otherwise}.`;
    throw new ConfigurationError(`${field}[${at}]`, name, `must be one of ${known.join(', ')}`, advice);
  }
}

function functionSettings(props: SchedulerProps): FunctionSettings {
  const {
    architecture = Architecture.ARM_64,
    logRetention = RetentionDays.TWO_WEEKS,
    encryptionKey,
    vpc,
  } = props;
  return {
    architecture,
    tracing: props.tracing,
    logRetention,
    encryptionKey,
    network:
      vpc === undefined
        ? undefined
        : { vpc, subnets: props.vpcSubnets, securityGroups: props.securityGroups },
  };
}
