/** Finds jobs by a tag that is declared as searchable. */
import type { PoolConfiguration } from '../core/configuration.ts';
import type { Job, Tags } from '../core/job.ts';
import type { TagPage } from '../store/contract/requests.ts';
import type { OperatorStore } from '../store/contract/verbs.ts';
import { type ListPlace, pagesBehind, placed } from './places.ts';

const PAGE = 100;

/** The state of a list of all jobs with a searchable tag. */
export const ANY_STATE = 'any';

/** Whether a job has all these tags. */
export const hasTags = ({ tags: has = {} }: Pick<Job, 'tags'>, tags: Tags = {}): boolean =>
  Object.entries(tags).every(([name, value]) => Object.hasOwn(has, name) && has[name] === value);

/** Returns the name and value of the first of these tags that is searchable. */
export const searchedTag = (
  { searchableTags = [] }: Pick<PoolConfiguration, 'searchableTags'>,
  tags: Tags = {},
): readonly [name: string, value: string] | undefined =>
  Object.entries(tags).find(([name]) => searchableTags.includes(name));

/**
 * The jobs with the first of these tags that is searchable, the latest submit first, each with its place (`places.ts`). Without such a
 * tag: none.
 */
export async function* taggedJobs(
  {
    store,
    configuration,
  }: {
    readonly store: Pick<OperatorStore, 'readTagged' | 'getJobs'>;
    readonly configuration: PoolConfiguration;
  },
  tags: Tags | undefined,
  from?: ListPlace,
): AsyncGenerator<Job> {
  const tag = searchedTag(configuration, tags);
  if (tag === undefined) return;
  const [name, value] = tag;
  for await (const { entries, after } of pagesBehind<TagPage['entries'][number]>(
    from,
    ({ jobId }) => jobId,
    (cursor) => store.readTagged({ name, value, limit: PAGE, after: cursor }),
  )) {
    const jobs = await store.getJobs({ ids: entries.map(({ jobId }) => jobId), unreadable: () => {} });
    // A repeated request has left another entry for the same job, with another time. Only the entry of the job's own submit counts.
    for (const [at, job] of jobs.entries())
      if (job !== undefined && job.submittedAtMs === entries[at]?.submittedAtMs)
        yield placed(job, { partition: 0, after, id: job.id });
  }
}
