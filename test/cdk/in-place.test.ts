/**
 * What a deployment cannot change in place: CloudFormation replaces it with all that is in it, or DynamoDB refuses it. A change of the golden
 * file is a change that users must be told of, with a way to keep their jobs.
 */
import { type App, Stack } from 'aws-cdk-lib';
import { expect, it } from 'vitest';
import { at, listOf, resourcesOf, synthesize, workerFunction } from './stacks.ts';

/** All that the construct makes, and a fleet whose queue has a name because its function is in another stack. */
const { template } = synthesize(
  { parameterName: '/orders/jobs', api: true, largePayloads: {} },
  (stack, scheduler) => {
    const handler = workerFunction(new Stack(stack.node.root as App, 'Others'), 'Other');
    scheduler.addFleet('others', { types: ['index'], handler });
    scheduler.on({ source: ['shop'] }, { type: 'index', idempotencyKey: '$.detail.id' });
    scheduler.alarms();
    scheduler.dashboard();
  },
);

/**
 * What a resource cannot change in place, by its type: CloudFormation's reference says "Replacement" or "Updates are not
 * supported" of it. What is named only by a generated name is replaced when its id changes.
 */
const REPLACED_BY: Readonly<Record<string, readonly string[]>> = {
  'AWS::CloudWatch::Alarm': ['AlarmName'],
  'AWS::CloudWatch::Dashboard': ['DashboardName'],
  'AWS::DynamoDB::GlobalTable': ['TableName'],
  'AWS::Events::EventBus': ['Name'],
  'AWS::Events::Rule': ['Name', 'EventBusName'],
  'AWS::IAM::Role': ['RoleName', 'Path'],
  'AWS::Lambda::Alias': ['Name', 'FunctionName'],
  'AWS::Lambda::EventInvokeConfig': ['FunctionName', 'Qualifier'],
  // A second mapping of the same source and function is refused, and CloudFormation makes the new one first.
  'AWS::Lambda::EventSourceMapping': ['EventSourceArn', 'StartingPosition', 'StartingPositionTimestamp'],
  'AWS::Lambda::Function': ['FunctionName', 'PackageType', 'TenancyConfig'],
  'AWS::Lambda::Url': ['TargetFunctionArn', 'Qualifier'],
  'AWS::Logs::LogGroup': ['LogGroupName'],
  'AWS::S3::Bucket': ['BucketName'],
  'AWS::SQS::Queue': ['QueueName', 'FifoQueue'],
  'AWS::SSM::Parameter': ['Name'],
  // CloudFormation refuses another function, and with it the deployment.
  'Custom::FairleadDeclaration': ['ServiceToken'],
};
/** What holds nothing, so that its replacement loses nothing. A version is new with each change of its function. */
const HOLDS_NOTHING: readonly string[] = [
  'AWS::IAM::Policy',
  'AWS::Lambda::Permission',
  'AWS::Lambda::Version',
  'AWS::S3::BucketPolicy',
  'AWS::SQS::QueuePolicy',
];

/** The resources by type and id, each with what it cannot change. */
function replaceable(): Readonly<Record<string, unknown>> {
  const resources = Object.values(template.toJSON().Resources as Record<string, { readonly Type: string }>);
  const types = [...new Set(resources.map(({ Type }) => Type))].toSorted();
  const unknown = types.filter((type) => !Object.hasOwn(REPLACED_BY, type) && !HOLDS_NOTHING.includes(type));
  expect(unknown).toEqual([]);
  return Object.fromEntries(
    Object.entries(REPLACED_BY).map(([type, fields]) => {
      const found = resourcesOf(template, type).map(([id, { Properties }]) => {
        const fixed = Object.entries(Properties).filter(([name]) => fields.includes(name));
        return [id, Object.fromEntries(fixed)] as const;
      });
      expect(found).not.toEqual([]);
      return [type, Object.fromEntries(found.toSorted(([one], [other]) => (one < other ? -1 : 1)))];
    }),
  );
}

const only = (type: string): readonly [id: string, properties: Readonly<Record<string, unknown>>] => {
  const [found, ...others] = resourcesOf(template, type);
  if (found === undefined || others.length > 0) throw new Error(`${1 + others.length} resources are ${type}`);
  return [found[0], found[1].Properties];
};
it('stands in a golden file', async () => {
  const [tableId, table] = only('AWS::DynamoDB::GlobalTable');
  const [parameterId, parameter] = only('AWS::SSM::Parameter');
  const inPlace = {
    table: {
      logicalId: tableId,
      keys: table.KeySchema,
      attributes: table.AttributeDefinitions,
      indexes: listOf(table.GlobalSecondaryIndexes).map((index) => ({
        name: at(index, 'IndexName'),
        keys: at(index, 'KeySchema'),
        projection: at(index, 'Projection'),
      })),
      stream: table.StreamSpecification,
      ttl: at(table, 'TimeToLiveSpecification', 'AttributeName'),
    },
    parameter: { logicalId: parameterId, list: at(parameter, 'Value', 'Fn::Join', 1) },
    resources: replaceable(),
  };
  await expect(`${JSON.stringify(inPlace, null, 2)}\n`).toMatchFileSnapshot('golden/in-place.json');
});
