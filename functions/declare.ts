/** The deployment's own function: CloudFormation asks it to declare, and is told whether that can work. */
import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { kept } from '../lib/core/history.ts';
import { ownQueuesIn } from '../lib/dispatch/declaration-codec.ts';
import { type Deployment, declare } from '../lib/dispatch/declare.ts';
import { QueueMisconfigured } from '../lib/queue/errors.ts';
import type { Clock } from '../lib/runtime/contract.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';
import { systemClock } from '../lib/runtime/system.ts';
import { StoreMisconfigured } from '../lib/store/errors.ts';
import { declaring } from './composition.ts';

const { log, wrap } = lambdaEntry();

/** CloudFormation takes 4,096 bytes of an answer, and waits in vain for a longer one; its own names in it take a quarter at most. */
const REASON_BYTES_MAX = 3_000;

/** As JSON, it is no longer than CloudFormation takes. */
export const reasonOf = (error: unknown): string =>
  kept(error instanceof Error ? `${error.name}: ${error.message}` : String(error), REASON_BYTES_MAX);

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

/** Rights that the same deployment gives spread within seconds: so long is waited after each refusal for want of one. */
const SPREAD_MS = [1_000, 2_000, 4_000, 8_000, 15_000] as const;

/** @throws what the last try throws, and at once what is no matter of rights */
export async function onceAllowed<Answer>(
  work: () => Promise<Answer>,
  sleep: Clock['sleep'],
): Promise<Answer> {
  for (const waitMs of SPREAD_MS) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof StoreMisconfigured || error instanceof QueueMisconfigured)) throw error;
      log.warn('a right is missing; it may not have spread yet', { error: String(error), waitMs });
      await sleep(waitMs);
    }
  }
  return work();
}

async function answerTo(event: CloudFormationCustomResourceEvent): Promise<Answer> {
  // The table may outlive the stack, and what waits in it is declared still.
  if (event.RequestType === 'Delete') return { Status: 'SUCCESS' };
  try {
    const context = declaring(log);
    const version = await onceAllowed(() => declare(context, deploymentOf(event)), systemClock.sleep);
    log.info('declared', { version });
    return { Status: 'SUCCESS', Data: { Version: version } };
  } catch (error) {
    log.warn('the declaration was refused', { error: String(error) });
    return { Status: 'FAILED', Reason: reasonOf(error) };
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
