/** Decodes and answers CloudFormation's requests for the custom resource that declares. */
import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { cutToBytes } from '../lib/core/history.ts';
import { ownQueuesIn } from '../lib/declaration/codec.ts';
import type { Deployment, DeploymentOutcome } from '../lib/deploy/declare.ts';

/**
 * The most bytes of the reason in an answer. CloudFormation takes 4,096 bytes of an answer, and waits in vain for a
 * longer one; its own names in it take a quarter at most.
 */
const REASON_BYTES_MAX = 3_000;

/** Returns the reason, cut so that it is no longer than CloudFormation takes, as JSON. */
export const reasonFor = (reason: string): string => cutToBytes(reason, REASON_BYTES_MAX);

/** Reads the properties that the Scheduler construct set. CloudFormation turns every value in them into a string. */
export function deploymentOf({
  ResourceProperties,
  RequestId,
}: CloudFormationCustomResourceEvent): Deployment {
  const { pool, queueUrls, ownQueues, bucket, schedules, payloadSchemas } = ResourceProperties as Readonly<
    Record<string, unknown>
  >;
  const urls = typeof queueUrls === 'object' && queueUrls !== null ? Object.entries(queueUrls) : [];
  return {
    pool: String(pool),
    queueUrls: Object.fromEntries(urls.map(([fleet, url]) => [fleet, String(url)])),
    ownQueues: ownQueuesIn(ownQueues),
    ...(bucket === undefined ? {} : { bucket: String(bucket) }),
    ...(schedules === undefined ? {} : { schedules: String(schedules) }),
    ...(payloadSchemas === undefined ? {} : { payloadSchemas: String(payloadSchemas) }),
    deployment: RequestId,
  };
}

function statusOf(outcome: DeploymentOutcome | { readonly kind: 'kept' }) {
  switch (outcome.kind) {
    case 'kept':
      return { Status: 'SUCCESS' };
    case 'declared':
      return { Status: 'SUCCESS', Data: { Version: outcome.version } };
    case 'refused':
      return { Status: 'FAILED', Reason: reasonFor(outcome.reason) };
  }
}

/**
 * Sends the answer.
 * @throws Error if CloudFormation refuses the answer: Lambda then invokes the function again while CloudFormation waits
 */
export async function answerCloudFormation(
  { StackId, RequestId, LogicalResourceId, ResponseURL }: CloudFormationCustomResourceEvent,
  outcome: DeploymentOutcome | { readonly kind: 'kept' },
): Promise<void> {
  const body = JSON.stringify({
    StackId,
    RequestId,
    LogicalResourceId,
    // The id stays the same for the life of the stack: CloudFormation would treat a new id as a replacement of the
    // resource.
    PhysicalResourceId: 'declaration',
    ...statusOf(outcome),
  });
  // The URL's signature covers exactly these headers.
  const response = await fetch(ResponseURL, { method: 'PUT', headers: { 'content-type': '' }, body });
  if (!response.ok) throw new Error(`CloudFormation refused the answer with status ${response.status}`);
}
