/**
 * List prices in dollars: us-east-1, on-demand, arm64, without free tiers or discounts. The one place where a price stands.
 * Source: the services' pricing pages, as of 2026-11.
 */

/** Dollars per million of each, as the cost meter counts them. */
export const PRICES = {
  /** DynamoDB, on demand: a KB written. A transaction and each change of an index count extra. */
  writeUnits: 0.625,
  /** DynamoDB, on demand: 4 KB read with strong consistency. */
  readUnits: 0.125,
  /** SQS, standard queues: a request of up to 10 messages, for each started 64 KB. */
  queueRequests: 0.4,
  /** Lambda. */
  invocations: 0.2,
} as const;

/** Dollars of what else a deployment uses. */
export const MORE_PRICES = {
  /** Lambda: a second of a function of 1 GB, arm64; from its first instruction on, INIT included. */
  functionGbSecond: 0.000_013_333_4,
  /** EventBridge: a custom event, for each started 64 KB. */
  event: 0.000_001,
  /** CloudWatch Logs: a GB taken in. What is kept of it costs a hundredth of that, and is left out. */
  logsGb: 0.5,
  /**
   * CloudWatch: a metric with its dimensions for a month, of the first 10,000; by the hour, and only for hours in which it was
   * written to. What stands in a log in the embedded metric format is one, too.
   */
  customMetricMonth: 0.3,
  /** DynamoDB: a GB stored for a month. */
  tableGbMonth: 0.25,
  /** DynamoDB: point-in-time recovery of a GB for a month. */
  recoveryGbMonth: 0.2,
  /** S3: an object put, or a page of a list. */
  objectPut: 0.000_005,
  /** S3: an object read. Deletions are free. */
  objectGet: 0.000_000_4,
  /** S3: a GB stored for a month. */
  objectGbMonth: 0.023,
  /** Fargate, arm64: an hour of a vCPU, and of a GB of memory. */
  containerCpuHour: 0.032_38,
  containerGbHour: 0.003_56,
} as const;
