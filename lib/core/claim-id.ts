/** How batches and claims are named. */

/**
 * Unique among all claims: the batch is numbered under its lease's epoch, and partitions of the same epoch say which they
 * are. A worker that serves several tells claims apart by their ids alone, and a job may move from one to another.
 */
export const batchIdOf = (partition: number, epoch: number, sequence: number): string =>
  partition === 0 ? `${epoch}-${sequence}` : `${epoch}-${sequence}p${partition}`;

/** The partition under whose lease a claim was made. */
export const partitionOfClaim = (claimId: string): number => Number(/p(\d+)\./.exec(claimId)?.[1] ?? 0);

export const claimIdOf = (batchId: string, position: number): string => `${batchId}.${position}`;
