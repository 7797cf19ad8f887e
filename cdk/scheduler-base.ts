/** What a scheduler of this app and one that was deployed elsewhere have in common: grants, environments, metrics. */
import type { IEventBus } from 'aws-cdk-lib/aws-events';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { IConstruct } from 'constructs';
import type { SchedulerGrants } from './grants.ts';
import { SchedulerMetrics } from './metrics.ts';

/** A scheduler that others submit to, work for and watch, wherever it was deployed. */
export interface IScheduler extends IConstruct {
  readonly tableName: string;
  readonly bus: IEventBus;
  readonly wakeQueue: IQueue;
  /**
   * The alias by which the dispatch function is told of jobs; undefined: it is told by the wake queue. For `FAIRLEAD_WAKE_FUNCTION`: read
   * from a parameter that an earlier version has written, it is the wake queue's ARN, which clients take for none there.
   */
  readonly wakeFunctionArn: string | undefined;
  /** Who may do what. */
  readonly grants: SchedulerGrants;
  schedulerEnvironment(): Readonly<Record<string, string>>;
  workerEnvironment(fleet: string): Readonly<Record<string, string>>;
}

export abstract class SchedulerBase extends SchedulerMetrics implements IScheduler {
  abstract readonly bus: IEventBus;
  abstract readonly wakeQueue: IQueue;
  abstract readonly grants: SchedulerGrants;
  /** The alias by which the dispatch function is told of jobs; undefined: it is told by the wake queue. */
  abstract readonly wakeFunctionArn: string | undefined;

  /** The environment of a function or process that submits, or runs passes. */
  schedulerEnvironment(): Readonly<Record<string, string>> {
    return { ...this.passEnvironment(), ...this.#wakeFunctionEnvironment() };
  }

  /**
   * The environment of a process that works for a fleet: a container's, say.
   * @throws ConfigurationError for a fleet that is not known.
   */
  workerEnvironment(fleet: string): Readonly<Record<string, string>> {
    this.requireFleet(fleet);
    return this.environmentOf(fleet);
  }

  /** As `grants.submit`. */
  grantSubmit(grantee: IGrantable): Grant {
    return this.grants.submit(grantee);
  }

  /** As `grants.putEvents`. */
  grantPutEvents(grantee: IGrantable): Grant {
    return this.grants.putEvents(grantee);
  }

  /**
   * As `grants.work`.
   * @throws ConfigurationError for a fleet that is not known.
   */
  grantWork(grantee: IGrantable, fleet: string): Grant {
    return this.grants.work(grantee, fleet);
  }

  /** As `grants.dispatch`. */
  grantDispatch(grantee: IGrantable): Grant {
    return this.grants.dispatch(grantee);
  }

  /** As `grants.operate`. */
  grantOperate(grantee: IGrantable): Grant {
    return this.grants.operate(grantee);
  }

  /** As `grants.read`. */
  grantRead(grantee: IGrantable): Grant {
    return this.grants.read(grantee);
  }

  /** Which metrics are told beside those that always are, and by what they are narrowed, as far as it is known by now. */
  protected metricsEnvironment(): Readonly<Record<string, string>> {
    return {};
  }

  /** The environment of whoever makes passes, and has nobody told of the jobs that it stores. */
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

  /** @throws ConfigurationError for a fleet that is not known */
  protected abstract requireFleet(fleet: string): void;
}
