/** The deployment's own function: CloudFormation asks it to declare, and is told whether that can work. */
import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { ownQueuesIn } from '../lib/dispatch/declaration-codec.ts';
import { type Deployment, declare } from '../lib/dispatch/declare.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';
import { declaring } from './composition.ts';

const { log, wrap } = lambdaEntry();

/** CloudFormation takes 4 KB of an answer. */
const REASON_CHARS_MAX = 2_000;

/** What the Scheduler construct hands over; CloudFormation makes text of everything in it. */
function deploymentOf({ ResourceProperties, RequestId }: CloudFormationCustomResourceEvent): Deployment {
  const { pool, queueUrls, ownQueues, schedules } = ResourceProperties as Readonly<Record<string, unknown>>;
  const urls = typeof queueUrls === 'object' && queueUrls !== null ? Object.entries(queueUrls) : [];
  return {
    pool: String(pool),
    queueUrls: Object.fromEntries(urls.map(([fleet, url]) => [fleet, String(url)])),
    ownQueues: ownQueuesIn(ownQueues),
    ...(schedules === undefined ? {} : { schedules: String(schedules) }),
    deployment: RequestId,
  };
}

type Answer =
  | { readonly Status: 'SUCCESS'; readonly Data?: { readonly Version: number } }
  | { readonly Status: 'FAILED'; readonly Reason: string };

async function answerTo(event: CloudFormationCustomResourceEvent): Promise<Answer> {
  // The table may outlive the stack, and what waits in it is declared still.
  if (event.RequestType === 'Delete') return { Status: 'SUCCESS' };
  const context = declaring(log);
  try {
    const version = await declare(context, deploymentOf(event));
    context.log.info('declared', { version });
    return { Status: 'SUCCESS', Data: { Version: version } };
  } catch (error) {
    context.log.warn('the declaration was refused', { error: String(error) });
    const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return { Status: 'FAILED', Reason: reason.slice(0, REASON_CHARS_MAX) };
  }
}

async function answer(event: CloudFormationCustomResourceEvent): Promise<void> {
  const { StackId, RequestId, LogicalResourceId } = event;
  const verdict = await answerTo(event);
  const body = JSON.stringify({
    StackId,
    RequestId,
    LogicalResourceId,
    // One for the life of the stack: another one would be taken for a replacement.
    PhysicalResourceId: 'declaration',
    ...verdict,
  });
  // The address is signed for exactly these headers.
  const response = await fetch(event.ResponseURL, {
    method: 'PUT',
    headers: { 'content-type': '' },
    body,
  });
  // Thrown: Lambda invokes the function again, and CloudFormation waits.
  if (!response.ok) throw new Error(`CloudFormation did not take the answer: ${response.status}`);
}

export const handler = wrap(answer);
