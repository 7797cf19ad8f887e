/** Messages as text: to a fleet's queue, and to the wake queue. */
import type { DispatchMessage } from './contract.ts';

/** Thrown for a message that no dispatcher of ours has sent. */
export class MalformedMessageError extends Error {
  override readonly name = 'MalformedMessageError';
}

export const encodeDispatchMessage = (message: DispatchMessage): string =>
  JSON.stringify({ jobId: message.jobId, claimId: message.claimId });

export const encodeWake = (partition: number): string => JSON.stringify({ partition });

/** The partition that a wake names; undefined for what names none, which wakes them all. */
export function decodeWake(body: string): number | undefined {
  try {
    const value: unknown = JSON.parse(body);
    if (typeof value !== 'object' || value === null || !('partition' in value)) return undefined;
    const { partition } = value;
    return Number.isSafeInteger(partition) && Number(partition) >= 0 ? Number(partition) : undefined;
  } catch {
    return undefined;
  }
}

/** @throws MalformedMessageError */
export function decodeDispatchMessage(body: string): DispatchMessage {
  const broken = (cause?: unknown): MalformedMessageError =>
    new MalformedMessageError(
      `not a dispatch message: ${body.slice(0, 200)}; only the dispatcher may send to a fleet's queue`,
      { cause },
    );
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (cause) {
    throw broken(cause);
  }
  if (typeof value !== 'object' || value === null || !('jobId' in value) || !('claimId' in value))
    throw broken();
  const { jobId, claimId } = value;
  if (typeof jobId !== 'string' || typeof claimId !== 'string') throw broken();
  return { jobId, claimId };
}
