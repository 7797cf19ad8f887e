/** Reads ended jobs by a scan, because they stand in no line. Each page reads up to 1 MB of the table, however few jobs match. */

import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { END_STATES, type MovingJob } from '../../core/job.ts';
import type { EndedFilter, EndedJobs } from '../contract/ended.ts';
import { MalformedItemError } from '../contract/errors.ts';
import type { Item } from '../table/codec/attributes.ts';
import { decodeMovingJob } from '../table/codec/job.ts';
import { jobKey } from '../table/schema.ts';
import { DynamoConnection } from './connection.ts';

export interface EndedJobsOptions {
  readonly client: DynamoDBClient;
  readonly table: string;
  /** Receives the error of each item that cannot be read and is skipped. */
  readonly unreadable: (error: MalformedItemError) => void;
}

export class DynamoEndedJobs implements EndedJobs {
  readonly #table: DynamoConnection;
  readonly #unreadable: EndedJobsOptions['unreadable'];

  constructor(options: EndedJobsOptions) {
    this.#table = new DynamoConnection(options);
    this.#unreadable = options.unreadable;
  }

  async *endedJobs({ sinceMs, untilMs, type, state }: EndedFilter): AsyncGenerator<readonly MovingJob[]> {
    const { pk, sk } = jobKey('');
    const states = state === undefined ? END_STATES : [state];
    const filter = [
      'begins_with(#pk, :pk) AND #sk = :sk AND #finishedAtMs >= :since AND #finishedAtMs < :until',
      `#state IN (${states.map((_, at) => `:state${at}`).join(', ')})`,
      ...(type === undefined ? [] : ['#type = :type']),
    ].join(' AND ');
    const values = {
      ':pk': pk,
      ':sk': sk,
      ':since': sinceMs,
      ':until': untilMs,
      ...Object.fromEntries(states.map((each, at) => [`:state${at}`, each])),
      ...(type === undefined ? {} : { ':type': type }),
    };
    let after: Item | undefined;
    do {
      const { items, next } = await this.#table.scan('endedJobs', { filter, values, after });
      yield items.flatMap((item) => this.#readable(item));
      // planted: first-page-of-a-scan
      after = next;
    } while (after !== undefined);
  }

  #readable(item: Item): readonly MovingJob[] {
    try {
      return [decodeMovingJob(item)];
    } catch (error) {
      if (!(error instanceof MalformedItemError)) throw error;
      this.#unreadable(error);
      return [];
    }
  }
}
