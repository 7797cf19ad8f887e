/** The common part of a scheduler in this app and one that was deployed elsewhere: grants, environments, metrics. */
import type { IEventBus } from 'aws-cdk-lib/aws-events';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { IConstruct } from 'constructs';
import type { SchedulerGrants } from './grants.ts';
import { SchedulerMetrics } from './metrics.ts';

/** A scheduler, in this app or deployed elsewhere. */
export interface IScheduler extends IConstruct {
  readonly tableName: string;
  readonly bus: IEventBus;
  readonly wakeQueue: IQueue;
  /**
   * The alias through which clients wake the dispatch function; undefined if they use only the wake queue. It is the
   * value of `FAIRLEAD_WAKE_FUNCTION`. A parameter of an earlier version yields the wake queue's ARN here, which clients
   * ignore.
   */
  readonly wakeFunctionArn: string | undefined;
  /** The grants, one method for each role. */
  readonly grants: SchedulerGrants;
  schedulerEnvironment(): Readonly<Record<string, string>>;
  workerEnvironment(fleet: string): Readonly<Record<string, string>>;
}

export abstract class SchedulerBase extends SchedulerMetrics implements IScheduler {
  abstract readonly bus: IEventBus;
  abstract readonly wakeQueue: IQueue;
  abstract readonly grants: SchedulerGrants;
  /** The alias through which clients wake the dispatch function; undefined if they use only the wake queue. */
  abstract readonly wakeFunctionArn: string | undefined;

  /** The environment of a function or process that submits jobs or runs passes. */
  schedulerEnvironment(): Readonly<Record<string, string>> {
    return { ...this.passEnvironment(), ...this.#wakeFunctionEnvironment() };
  }

  /**
   * The environment of a process, such as a container, that works for a fleet.
   * @throws ConfigurationError for an unknown fleet
   */
  workerEnvironment(fleet: string): Readonly<Record<string, string>> {
    this.requireFleet(fleet);
    return this.environmentOf(fleet);
  }

  /** The same as `grants.submit`. */
  grantSubmit(grantee: IGrantable): Grant {
    return this.grants.submit(grantee);
  }

  /** The same as `grants.putEvents`. */
  grantPutEvents(grantee: IGrantable): Grant {
    return this.grants.putEvents(grantee);
  }

  /**
   * The same as `grants.work`.
   * @throws ConfigurationError for an unknown fleet
   */
  grantWork(grantee: IGrantable, fleet: string): Grant {
    return this.grants.work(grantee, fleet);
  }

  /** The same as `grants.dispatch`. */
  grantDispatch(grantee: IGrantable): Grant {
    return this.grants.dispatch(grantee);
  }

  /** The same as `grants.operate`. */
  grantOperate(grantee: IGrantable): Grant {
    return this.grants.operate(grantee);
  }

  /** The same as `grants.read`. */
  grantRead(grantee: IGrantable): Grant {
    return this.grants.read(grantee);
  }

  /** The variables that name the metrics on request, and the dimensions, in use so far. */
  protected metricsEnvironment(): Readonly<Record<string, string>> {
    return {};
  }

  /** The environment of a process that makes passes itself, and so needs no alias to wake a dispatcher. */
  protected passEnvironment(): Readonly<Record<string, string>> {
    return {
      FAIRLEAD_TABLE: this.tableName,
      FAIRLEAD_BUS: this.bus.eventBusName,
      FAIRLEAD_WAKE_QUEUE: this.wakeQueue.queueUrl,
      ...this.metricsEnvironment(),
    };
  }

  protected environmentOf(fleet: string): Readonly<Record<string, string>> {
    return {
      FAIRLEAD_TABLE: this.tableName,
      FAIRLEAD_FLEET: fleet,
      FAIRLEAD_WAKE_QUEUE: this.wakeQueue.queueUrl,
      ...this.#wakeFunctionEnvironment(),
      ...this.metricsEnvironment(),
    };
  }

  #wakeFunctionEnvironment(): Readonly<Record<string, string>> {
    return this.wakeFunctionArn === undefined ? {} : { FAIRLEAD_WAKE_FUNCTION: this.wakeFunctionArn };
  }

  /**
   * Checks that the scheduler has this fleet.
   * @throws ConfigurationError for an unknown fleet
   */
  protected abstract requireFleet(fleet: string): void;
}
