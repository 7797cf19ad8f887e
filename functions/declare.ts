/** The function that CloudFormation calls to declare. Its answer tells CloudFormation whether the declaration is accepted. */
import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { declareWhenPermitted } from '../lib/deploy/declare.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';
import { systemClock } from '../lib/runtime/system.ts';
import { answerCloudFormation, deploymentOf } from './cloudformation.ts';
import { declaring } from './composition.ts';

const { log, wrap } = lambdaEntry();

export const handler = wrap(async (event: CloudFormationCustomResourceEvent): Promise<void> => {
  // On deletion the declaration stays: the table may outlive the stack, and its waiting jobs need it.
  const outcome =
    event.RequestType === 'Delete'
      ? ({ kind: 'kept' } as const)
      : await declareWhenPermitted(() => [declaring(log), deploymentOf(event)], {
          log,
          sleep: systemClock.sleep,
        });
  await answerCloudFormation(event, outcome);
});
