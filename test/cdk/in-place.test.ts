/**
 * What a deployment cannot change in place: CloudFormation replaces it with all that is in it, or DynamoDB refuses it. A change of the golden
 * file is a change that users must be told of, with a way to keep their jobs.
 */
import { expect, it } from 'vitest';
import { at, listOf, resourcesOf, synthesize } from './stacks.ts';

const { template } = synthesize({ parameterName: '/orders/jobs' });

const only = (type: string): readonly [id: string, properties: Readonly<Record<string, unknown>>] => {
  const [found, ...others] = resourcesOf(template, type);
  if (found === undefined || others.length > 0) throw new Error(`${1 + others.length} resources are ${type}`);
  return [found[0], found[1].Properties];
};
const idsOf = (type: string): readonly string[] =>
  resourcesOf(template, type)
    .map(([id]) => id)
    .toSorted();

it('stands in a golden file', async () => {
  const [tableId, table] = only('AWS::DynamoDB::GlobalTable');
  const [busId, bus] = only('AWS::Events::EventBus');
  const [declarationId] = only('Custom::FairleadDeclaration');
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
    bus: { logicalId: busId, name: bus.Name },
    declaration: { logicalId: declarationId },
    parameter: { logicalId: parameterId, list: at(parameter, 'Value', 'Fn::Join', 1) },
    queues: idsOf('AWS::SQS::Queue'),
    // A second mapping of the same source and function is refused, and CloudFormation makes the new one first.
    eventSources: idsOf('AWS::Lambda::EventSourceMapping'),
  };
  await expect(`${JSON.stringify(inPlace, null, 2)}\n`).toMatchFileSnapshot('golden/in-place.json');
});
