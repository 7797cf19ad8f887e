/** Reads changes of jobs and schedules from records of the table's stream. */
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { DynamoDBRecord, AttributeValue as StreamAttribute } from 'aws-lambda';
import type { ScheduleState } from '../../core/recurring.ts';
import type { JobChange, StreamChanges } from '../contract/records.ts';
import type { Item } from '../table/codec/attributes.ts';
import { decodeMovingJob } from '../table/codec/job.ts';
import { decodeScheduleState } from '../table/codec/schedule.ts';
import { BLOCKED_PREFIX, SCHEDULE_PREFIX, TABLE } from '../table/schema.ts';

type Image = Record<string, StreamAttribute>;

/**
 * Reads records in their order. It skips jobs that were parked: they have not changed, and as hints they would only be read and parked
 * again.
 *
 * @param unreadable - receives the keys of each record that is neither a job nor a schedule
 */
export function changesIn(
  records: readonly DynamoDBRecord[],
  unreadable: (keys: unknown, error: unknown) => void,
): StreamChanges {
  const jobs: JobChange[] = [];
  const schedules: ScheduleState[] = [];
  for (const { dynamodb, eventName } of records) {
    const image = dynamodb?.NewImage;
    if (image === undefined || isParked(image)) continue;
    try {
      if (isSchedule(image)) schedules.push(decodeScheduleState(itemOf(image)));
      else {
        const before = eventName === 'INSERT' ? undefined : dynamodb?.OldImage?.[TABLE.state]?.S;
        jobs.push({ job: decodeMovingJob(itemOf(image)), before });
      }
    } catch (error) {
      unreadable(dynamodb?.Keys, error);
    }
  }
  return { jobs, schedules };
}

const isSchedule = (image: Image): boolean =>
  image[TABLE.partitionKey]?.S?.startsWith(SCHEDULE_PREFIX) === true;

const isParked = (image: Image): boolean =>
  !isSchedule(image) && image[TABLE.line]?.S?.startsWith(BLOCKED_PREFIX) === true;

const itemOf = (image: Image): Item => unmarshall(image as Parameters<typeof unmarshall>[0]);
