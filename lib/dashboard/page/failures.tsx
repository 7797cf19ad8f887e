/** Failures and refusals: failed jobs grouped by their error, refused requests, and items that cannot be read. */
import type { Job } from '../../core/job.ts';
import type { Rejection, UnreadableItem } from '../../store/contract/records.ts';
import { useLive } from './api.ts';
import { BulkButton } from './jobs.tsx';
import { Freshness, JobLink, Rows, useSession, When } from './parts.tsx';
import { queryText } from './route.ts';
import { countText, plural } from './words.ts';

const READ_MAX = 1_000;
const NAMED_MAX = 3;

interface Group {
  readonly name: string;
  readonly message: string;
  /** Where it was thrown. */
  readonly from: string;
  readonly type: string;
  readonly jobs: readonly Job[];
}

/** Numbers and ids in a message do not make it another failure. */
const alike = (message: string): string => message.replace(/[0-9a-f-]{8,}|\d+/gi, '#').slice(0, 200);

const frameOf = ({ error }: Job): string =>
  error?.stack
    ?.split('\n')
    .find((line) => /^\s+at |^\s+File "/.test(line))
    ?.trim() ?? '';

function groupsOf(jobs: readonly Job[]): readonly Group[] {
  const byError = Map.groupBy(jobs, (job) => {
    const { name = '', message = '' } = job.error ?? {};
    const frame = frameOf(job);
    return JSON.stringify([job.type, name, frame === '' ? alike(message) : frame]);
  });
  return [...byError.values()]
    .flatMap((of) => {
      const [first] = of;
      if (first === undefined) return [];
      const { name = 'unknown', message = '' } = first.error ?? {};
      return [{ name, message, from: frameOf(first), type: first.type, jobs: of }];
    })
    .toSorted((one, other) => other.jobs.length - one.jobs.length);
}

export function Failures() {
  const dead = useLive<{ readonly jobs: readonly Job[]; readonly next?: string }>(
    `/dead-letters?limit=${READ_MAX}`,
  );
  const refused = useLive<{ readonly rejections: readonly Rejection[]; readonly next?: string }>(
    '/rejections?limit=100',
  );
  const unreadable = useLive<{ readonly unreadable: readonly UnreadableItem[] }>('/unreadable');
  const { write } = useSession();
  const jobs = dead.value?.jobs ?? [];
  return (
    <>
      <section>
        <h2>
          Failed jobs
          {dead.value === undefined ? '' : `: ${countText(jobs.length, dead.value.next !== undefined)}`}
        </h2>
        <p class="lead">Those that no one has tried again yet, grouped by their type and error.</p>
        <Freshness of={dead} />
        {dead.value !== undefined && jobs.length === 0 ? <p class="empty">No failed job is left.</p> : null}
        {groupsOf(jobs).map((group) => (
          <section key={`${group.type} ${group.name} ${group.message} ${group.from}`} class="card failure">
            <div class="list-head">
              <h3>
                <span class="count">{group.jobs.length}</span> {group.name}{' '}
                <span class="muted">in {group.type}</span>
              </h3>
              {write ? (
                <BulkButton
                  label={`Redrive ${group.name} of ${group.type}`}
                  path="/dead-letters/redrive"
                  body={() => ({ filter: { errorName: group.name, type: group.type } })}
                  done="tried again, each as a new job"
                  onDone={dead.reload}
                >
                  <p>This selects all failed jobs of this type with this error, whatever its message.</p>
                </BulkButton>
              ) : null}
            </div>
            <p class="message">{group.message}</p>
            {group.from === '' ? null : <p class="frame">{group.from}</p>}
            <p class="muted">
              Latest{' '}
              {group.jobs[0]?.finishedAtMs === undefined ? '' : <When atMs={group.jobs[0].finishedAtMs} />}:{' '}
              {group.jobs.slice(0, NAMED_MAX).map(({ id }, at) => (
                <>
                  {at === 0 ? '' : ', '}
                  <JobLink id={id} />
                </>
              ))}
              {'; '}
              <a href={`/jobs${queryText({ state: 'failed', type: group.type })}`}>
                {group.jobs.length > NAMED_MAX
                  ? `all failed jobs of ${group.type}`
                  : `failed jobs of ${group.type}`}
              </a>
            </p>
          </section>
        ))}
      </section>
      <section>
        <h2>Refused requests</h2>
        <Freshness of={refused} />
        {refused.value === undefined ? null : (
          <Rows
            caption="Refused requests"
            rows={refused.value.rejections}
            keyOf={({ sourceId, position }) => `${sourceId} ${position}`}
            empty="No request was refused in the last 30 days."
            columns={[
              { name: 'When', show: ({ rejectedAtMs }) => <When atMs={rejectedAtMs} /> },
              { name: 'Field', show: ({ field }) => (field === '' ? 'the whole entry' : field) },
              { name: 'Reason', show: ({ reason }) => reason },
              { name: 'Event', show: ({ sourceId }) => <span class="id">{sourceId}</span> },
              {
                name: 'As sent',
                show: ({ detail }) => (
                  <details>
                    <summary>Show</summary>
                    <code>{detail}</code>
                  </details>
                ),
              },
            ]}
          />
        )}
        {refused.value?.next === undefined ? null : <p class="muted">The latest 100 are shown.</p>}
      </section>
      <section>
        <h2>Items that cannot be read</h2>
        <Freshness of={unreadable} />
        {unreadable.value === undefined ? null : (
          <>
            <p class="muted">{plural(unreadable.value.unreadable.length, 'item')}</p>
            {unreadable.value.unreadable.length === 0 ? null : (
              <Rows
                caption="Items that cannot be read"
                rows={unreadable.value.unreadable}
                keyOf={({ key }) => key}
                empty=""
                columns={[
                  { name: 'Item', show: ({ key }) => <span class="id">{key}</span> },
                  { name: 'Reason', show: ({ reason }) => reason },
                  { name: 'Seen', show: ({ seenAtMs }) => <When atMs={seenAtMs} /> },
                ]}
              />
            )}
          </>
        )}
      </section>
    </>
  );
}
