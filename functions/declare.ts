/** The deployment's own function: CloudFormation asks it to declare, and is told whether that can work. */
import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { declareOnceAllowed } from '../lib/deploy/declare.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';
import { systemClock } from '../lib/runtime/system.ts';
import { answerCloudFormation, deploymentOf } from './cloudformation.ts';
import { declaring } from './composition.ts';

const { log, wrap } = lambdaEntry();

export const handler = wrap(async (event: CloudFormationCustomResourceEvent): Promise<void> => {
  // The table may outlive the stack, and what waits in it is declared still.
  const outcome =
    event.RequestType === 'Delete'
      ? ({ kind: 'kept' } as const)
      : await declareOnceAllowed(() => [declaring(log), deploymentOf(event)], {
          log,
          sleep: systemClock.sleep,
        });
  await answerCloudFormation(event, outcome);
});
