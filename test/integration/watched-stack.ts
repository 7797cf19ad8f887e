/** A stack with all that watches a scheduler, another that finds it by its parameter, and a way to the bus that can be cut. */
import { fileURLToPath } from 'node:url';
import { type App, CfnOutput, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { CfnAlarm } from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { Rule } from 'aws-cdk-lib/aws-events';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { AccountRootPrincipal, Role } from 'aws-cdk-lib/aws-iam';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { FUNCTION_BUNDLING, RUNTIME, SOURCE_MAPS } from '../../cdk/function.ts';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { DETAIL_TYPE } from '../../lib/events/contract.ts';
import { BUS_ENDPOINT_VARIABLE, DASHBOARD, PARAMETER, STACK, WATCHED_POOL } from './watched-names.ts';

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const stack = new Stack(app, STACK);
  const { types, fleets } = WATCHED_POOL;
  const handler = new NodejsFunction(stack, 'Echoes', {
    entry: fileURLToPath(new URL('./workers.ts', import.meta.url)),
    runtime: RUNTIME,
    memorySize: 512,
    timeout: Duration.seconds(20),
    environment: SOURCE_MAPS,
    bundling: FUNCTION_BUNDLING,
  });
  const scheduler = new Scheduler(stack, 'Jobs', {
    types,
    fleets: { echoes: { ...fleets.echoes, handler } },
    parameterName: PARAMETER,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  schedulerOutputs(stack, scheduler);
  const busEndpoint = process.env[BUS_ENDPOINT_VARIABLE];
  if (busEndpoint === undefined) throw new Error(`${BUS_ENDPOINT_VARIABLE} is not set`);
  for (const each of [scheduler.dispatchFunction, scheduler.ingestFunction])
    each.addEnvironment('AWS_ENDPOINT_URL_EVENTBRIDGE', busEndpoint);

  // An alarm holds the name of its topic only: this one need not exist.
  const told = Topic.fromTopicArn(stack, 'Told', stack.formatArn({ service: 'sns', resource: 'told' }));
  const alarms = scheduler.alarms({ actions: [new SnsAction(told)] });
  scheduler.dashboard({ dashboardName: DASHBOARD });
  // MiniStack refuses alarms of expressions, in CloudFormation and by PutMetricAlarm: test/cdk/watched.test.ts computes them.
  scheduler.whenSettled(() => {
    for (const { node } of alarms.all) {
      const { defaultChild } = node;
      if (defaultChild instanceof CfnAlarm && defaultChild.metrics !== undefined)
        node.scope?.node.tryRemoveChild(node.id);
    }
  });

  const outcomes = new Queue(stack, 'Outcomes');
  new Rule(stack, 'Ended', {
    eventBus: scheduler.bus,
    eventPattern: { detailType: [DETAIL_TYPE.succeeded] },
    targets: [new SqsQueue(outcomes)],
  });
  new CfnOutput(stack, 'OutcomesQueueUrl', { value: outcomes.queueUrl });

  const reader = new Stack(app, `${STACK}-reader`);
  reader.addStackDependency(stack, 'it reads the parameter that is written there');
  const found = Scheduler.fromParameter(reader, 'Theirs', PARAMETER);
  found.grants.submit(new Role(reader, 'Producer', { assumedBy: new AccountRootPrincipal() }));
  new CfnOutput(reader, 'FoundTable', { value: found.tableName });
  new CfnOutput(reader, 'FoundBus', { value: found.bus.eventBusName });
  new CfnOutput(reader, 'FoundWakeQueueUrl', { value: found.wakeQueue.queueUrl });
  new CfnOutput(reader, 'FoundWakeFunctionArn', { value: found.wakeFunctionArn ?? '' });
  return stack;
}
