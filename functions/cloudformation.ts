/** Decodes and answers CloudFormation's requests for the custom resource that declares. */
import type { CloudFormationCustomResourceEvent } from 'aws-lambda';
import { ownQueuesIn } from '../lib/declaration/codec.ts';
import type { Deployment, DeploymentOutcome } from '../lib/deploy/declare.ts';

/** The longest reason in an answer. CloudFormation accepts 4 KB in all. */
const REASON_CHARS_MAX = 2_000;

/** Reads the properties that the Scheduler construct set. CloudFormation turns every value in them into a string. */
export function deploymentOf({
  ResourceProperties,
  RequestId,
}: CloudFormationCustomResourceEvent): Deployment {
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

function statusOf(outcome: DeploymentOutcome | { readonly kind: 'kept' }) {
  switch (outcome.kind) {
    case 'kept':
      return { Status: 'SUCCESS' };
    case 'declared':
      return { Status: 'SUCCESS', Data: { Version: outcome.version } };
    case 'refused':
      return { Status: 'FAILED', Reason: outcome.reason.slice(0, REASON_CHARS_MAX) };
  }
}

/** @throws Error if CloudFormation refuses the answer: Lambda then invokes the function again while CloudFormation waits */
export async function answerCloudFormation(
  { StackId, RequestId, LogicalResourceId, ResponseURL }: CloudFormationCustomResourceEvent,
  outcome: DeploymentOutcome | { readonly kind: 'kept' },
): Promise<void> {
  const body = JSON.stringify({
    StackId,
    RequestId,
    LogicalResourceId,
    // The same id for the life of the stack: CloudFormation would treat a new id as a replacement of the resource.
    PhysicalResourceId: 'declaration',
    ...statusOf(outcome),
  });
  // The URL's signature covers exactly these headers.
  const response = await fetch(ResponseURL, { method: 'PUT', headers: { 'content-type': '' }, body });
  if (!response.ok) throw new Error(`CloudFormation refused the answer with status ${response.status}`);
}
