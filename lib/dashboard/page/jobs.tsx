/** Jobs: a list whose filters stand in the address, and changes of all that match. */
import { useEffect, useState } from 'preact/hooks';
import type { Job } from '../../core/job.ts';
import type { TypeView } from '../../operate/inspect.ts';
import { type Answered, get, post, useLive } from './api.ts';
import {
  ActionButton,
  type Confirmation,
  Field,
  Freshness,
  JobLink,
  Rows,
  State,
  useSession,
  When,
} from './parts.tsx';
import { go, type Place, usePlace } from './route.ts';
import { countText, numberText, plural } from './words.ts';

const STATES = [
  'pending',
  'scheduled',
  'claimed',
  'running',
  'failed',
  'succeeded',
  'cancelled',
  'expired',
] as const;

/** Whether jobs of this state are listed by the time at which they ended, and no verb changes them. */
const isFinal = (state: string): boolean =>
  state === 'succeeded' || state === 'cancelled' || state === 'expired';
const PAGE = 50;
/** The most jobs that one request changes or counts. */
const BULK = 1_000;

const FILTERS = ['state', 'type', 'fairnessKey', 'mode', 'since', 'until'] as const;

/** Returns the filter of the address as the protocol takes it: parameters, with a `tag` for each tag. */
function filterText(
  { query }: Pick<Place, 'query'>,
  more: Readonly<Record<string, string | number>> = {},
): string {
  const text = new URLSearchParams({ state: 'pending' });
  for (const name of FILTERS) {
    const value = query.get(name) ?? '';
    if (value !== '') text.set(name, value);
  }
  for (const tag of query.getAll('tag')) if (tag !== '') text.append('tag', tag);
  for (const [name, value] of Object.entries(more)) text.set(name, String(value));
  return `?${text}`;
}

/** Returns the filter of the address as the body of a change. */
function filterBody({ query }: Pick<Place, 'query'>, isDead: boolean): Readonly<Record<string, unknown>> {
  const tags = Object.fromEntries(
    query.getAll('tag').map((tag) => [tag.slice(0, tag.indexOf('=')), tag.slice(tag.indexOf('=') + 1)]),
  );
  const named = (name: string): Readonly<Record<string, string>> => {
    const value = query.get(name) ?? '';
    return value === '' ? {} : { [name]: value };
  };
  return {
    ...(isDead ? {} : { state: query.get('state') ?? 'pending', ...named('mode') }),
    ...named('type'),
    ...named('fairnessKey'),
    ...(Object.keys(tags).length === 0 ? {} : { tags }),
  };
}

export function Jobs() {
  const place = usePlace();
  const state = place.query.get('state') ?? 'pending';
  const path = `/jobs${filterText(place, { limit: PAGE })}`;
  const live = useLive<Page>(path);
  const count = useCount(place, live.value);
  const more = useMore(path, live.value);
  const jobs = [...(live.value?.jobs ?? []), ...more.jobs];
  return (
    <>
      <Filters place={place} />
      <Freshness of={live} />
      {live.value === undefined ? null : (
        <>
          <div class="list-head">
            <p role="status">
              {count === undefined ? 'Counting…' : `${countText(count.count, count.more)} ${state}`}
              {jobs.length > 0 && count !== undefined && jobs.length < count.count
                ? `, the first ${numberText(jobs.length)} shown`
                : ''}
            </p>
            <span class="buttons">
              <button type="button" onClick={live.reload}>
                Read again
              </button>
              <BulkActions place={place} state={state} onDone={live.reload} />
            </span>
          </div>
          <JobRows jobs={jobs} state={state} />
          {more.next === undefined ? null : (
            <p class="buttons">
              <button type="button" onClick={more.load} disabled={more.isLoading}>
                {more.isLoading ? 'Loading…' : 'Show more'}
              </button>
              {more.problem === undefined ? null : <span class="notice notice-bad">{more.problem}</span>}
            </p>
          )}
        </>
      )}
    </>
  );
}

interface Page {
  readonly jobs: readonly Job[];
  readonly next?: string;
}

interface Count {
  readonly count: number;
  readonly more: boolean;
}

/** Returns how many jobs match. The server counts them, if there are more than one page. */
function useCount(place: Place, first: Page | undefined): Count | undefined {
  const isLong = first?.next !== undefined;
  const counted = useLive<Count>(isLong ? `/jobs/count${filterText(place)}` : undefined);
  return isLong || first === undefined ? counted.value : { count: first.jobs.length, more: false };
}

/** Returns the pages after the first, as far as they were asked for. */
function useMore(path: string, first: Page | undefined) {
  const [pages, setPages] = useState<{ readonly of: Page | undefined; readonly pages: readonly Page[] }>();
  const [isLoading, setLoading] = useState(false);
  const [problem, setProblem] = useState<string>();
  const own = pages?.of === first ? (pages?.pages ?? []) : [];
  const next = (own.at(-1) ?? first)?.next;
  const load = async (): Promise<void> => {
    if (next === undefined) return;
    setLoading(true);
    const answer = await get<Page>(`${path}&cursor=${encodeURIComponent(next)}`);
    setLoading(false);
    setProblem(answer.kind === 'refused' ? answer.detail : undefined);
    if (answer.kind === 'done') setPages({ of: first, pages: [...own, answer.value] });
  };
  return { jobs: own.flatMap(({ jobs }) => jobs), next, load, isLoading, problem };
}

function Filters({ place: { query } }: { readonly place: Place }) {
  const types = useLive<{ readonly types: readonly TypeView[] }>('/types');
  const state = query.get('state') ?? 'pending';
  const isFinished = isFinal(state);
  const submit = (event: Event & { readonly currentTarget: HTMLFormElement }): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const next = new URLSearchParams();
    for (const name of FILTERS) {
      const value = String(given.get(name) ?? '').trim();
      if (value !== '') next.set(name, name === 'since' || name === 'until' ? instantOf(value) : value);
    }
    for (const tag of String(given.get('tags') ?? '').split(','))
      if (tag.includes('=')) next.append('tag', tag.trim());
    go(`/jobs?${next}`);
  };
  const apply = (event: Event & { readonly currentTarget: HTMLSelectElement }): void =>
    event.currentTarget.form?.requestSubmit();
  return (
    // The key makes the fields those of the address, also after a step back.
    <form key={query.toString()} class="filters" onSubmit={submit} aria-label="Filter">
      <Field label="State">
        {(id) => (
          <select id={id} name="state" onChange={apply}>
            {STATES.map((each) => (
              <option key={each} value={each} selected={each === state}>
                {each}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label="Type">
        {(id) => (
          <select id={id} name="type" onChange={apply}>
            <option value="">{isFinished ? 'choose one' : 'all'}</option>
            {typesShown(types.value?.types, query.get('type')).map((type) => (
              <option key={type} value={type} selected={type === query.get('type')}>
                {type}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label="Fairness key">
        {(id) => <input id={id} name="fairnessKey" defaultValue={query.get('fairnessKey') ?? ''} />}
      </Field>
      <Field label="Mode">
        {(id) => (
          <select id={id} name="mode" onChange={apply}>
            {['', 'queued', 'onDemand'].map((each) => (
              <option key={each} value={each} selected={each === (query.get('mode') ?? '')}>
                {each === '' ? 'both' : each}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label="Tags, as order=4711, shop=7">
        {(id) => <input id={id} name="tags" defaultValue={query.getAll('tag').join(', ')} />}
      </Field>
      {isFinished
        ? (['since', 'until'] as const).map((name) => (
            <Field key={name} label={name === 'since' ? 'Ended since' : 'Ended before'}>
              {(id) => (
                <input
                  id={id}
                  name={name}
                  type="datetime-local"
                  defaultValue={localOf(query.get(name) ?? '')}
                />
              )}
            </Field>
          ))
        : null}
      <p class="field">
        <button type="submit">Apply</button>
      </p>
    </form>
  );
}

const typesShown = (types: readonly TypeView[] = [], asked: string | null): readonly string[] => [
  ...new Set([...types.map(({ type }) => type), ...(asked === null || asked === '' ? [] : [asked])]),
];

const instantOf = (local: string): string => {
  const at = new Date(local);
  return Number.isNaN(at.getTime()) ? local : at.toISOString();
};
/** An instant for a field of local time. */
const localOf = (iso: string): string => {
  const at = new Date(iso);
  if (iso === '' || Number.isNaN(at.getTime())) return '';
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};

export function JobRows({ jobs, state }: { readonly jobs: readonly Job[]; readonly state: string }) {
  const nowMs = Date.now();
  const time: Readonly<Record<string, readonly [name: string, atMs: (job: Job) => number | undefined]>> = {
    scheduled: ['Starts', (job) => job.runAtMs],
    running: ['Started', (job) => job.startedAtMs],
    claimed: ['Claimed', (job) => job.claim?.claimedAtMs],
    failed: ['Failed', (job) => job.finishedAtMs],
    succeeded: ['Ended', (job) => job.finishedAtMs],
    cancelled: ['Cancelled', (job) => job.cancelRequestedAtMs ?? job.finishedAtMs],
  };
  const [name, atMs] = time[state] ?? ['Ready', (job: Job) => job.readyAtMs];
  return (
    <Rows
      caption={`${state} jobs`}
      rows={jobs}
      keyOf={({ id }) => id}
      empty={`No job is ${state} with this filter.`}
      columns={[
        { name: 'Job', show: ({ id }) => <JobLink id={id} /> },
        { name: 'State', show: (job) => <State of={job.state} /> },
        { name: 'Type', show: ({ type }) => type },
        { name: 'Key', show: ({ fairnessKey }) => fairnessKey },
        { name: 'Priority', isNumber: true, show: ({ priority }) => priority },
        { name: 'Attempt', isNumber: true, show: ({ attempt }) => attempt },
        {
          name,
          show: (job) => {
            const at = atMs(job);
            return at === undefined ? '–' : <When atMs={at} nowMs={nowMs} />;
          },
        },
        {
          name: 'About',
          show: ({ label, tags = {}, error }) => (
            <>
              {label === undefined ? null : <span class="about">{label} </span>}
              {Object.entries(tags).map(([tag, value]) => (
                <span class="tag" key={tag}>
                  {tag}={value}
                </span>
              ))}
              {error === undefined || state !== 'failed' ? null : (
                <span class="about">
                  {error.name}: {error.message}
                </span>
              )}
            </>
          ),
        },
      ]}
    />
  );
}

interface Bulk {
  readonly entries: readonly { readonly kind: string; readonly reason?: string }[];
  readonly more: boolean;
}

/** Asks how many jobs match before it changes them. */
export function BulkButton({
  label,
  path,
  body,
  done,
  isDangerous,
  children,
  onDone,
}: {
  readonly label: string;
  readonly path: string;
  readonly body: () => object;
  /** What has happened to a job, such as `cancelled`. */
  readonly done: string;
  readonly isDangerous?: boolean;
  readonly children?: Confirmation['children'];
  readonly onDone: () => void;
}) {
  return (
    <ActionButton
      label={label}
      onDone={onDone}
      confirm={() => ({
        title: label,
        action: `Yes, up to ${numberText(BULK)} of them`,
        isDangerous: isDangerous === true,
        children: (
          <>
            {children}
            <Preview path={path} body={body} done={done} />
          </>
        ),
        run: async (): Promise<Answered<string>> => {
          const answer = await post<Bulk>(`/api${path}`, { ...body(), limit: BULK });
          return answer.kind === 'done' ? { kind: 'done', value: saidOf(answer.value, done) } : answer;
        },
      })}
    />
  );
}

function saidOf({ entries, more }: Bulk, done: string): string {
  const skipped = entries.filter(({ kind }) => kind === 'skipped').length;
  const changed = plural(entries.length - skipped, 'job was', 'jobs were');
  const rest = skipped === 0 ? '' : ` ${plural(skipped, 'job', 'jobs')} had changed meanwhile and stayed.`;
  return `${changed} ${done}.${rest}${more ? ' There may be more: repeat it for the next ones.' : ''}`;
}

/** A dry run, whose count the person sees before anything changes. */
function Preview({
  path,
  body,
  done,
}: {
  readonly path: string;
  readonly body: () => object;
  readonly done: string;
}) {
  const [found, setFound] = useState<Answered<Bulk>>();
  // The dry run is made once, when the dialog opens.
  useEffect(() => {
    void post<Bulk>(`/api${path}`, { ...body(), limit: BULK, dryRun: true }).then(setFound);
  }, []);
  if (found === undefined) return <p>Counting…</p>;
  if (found.kind === 'refused') return <p class="notice notice-bad">{found.detail}</p>;
  const { entries, more } = found.value;
  const isOne = entries.length === 1 && !more;
  return (
    <p class="preview">
      <strong>{countText(entries.length, more)}</strong> {isOne ? 'job matches' : 'jobs match'} now, and would
      be {done}.
    </p>
  );
}

function BulkActions({
  place,
  state,
  onDone,
}: {
  readonly place: Place;
  readonly state: string;
  readonly onDone: () => void;
}) {
  const { write } = useSession();
  if (!write) return null;
  const isWaiting = state === 'pending' || state === 'scheduled';
  let runAt = '+1h';
  if (state === 'failed')
    return (
      <BulkButton
        label="Redrive all that match"
        path="/dead-letters/redrive"
        body={() => ({ filter: filterBody(place, true) })}
        done="tried again, each as a new job"
        onDone={onDone}
      />
    );
  if (isFinal(state)) return null;
  return (
    <>
      {isWaiting ? (
        <BulkButton
          label="Move all that match"
          path="/jobs/retime"
          body={() => ({ filter: filterBody(place, false), runAt })}
          done="moved"
          onDone={onDone}
        >
          <Field label="To a time with a zone, or a delay such as +1h">
            {(id) => (
              <input
                id={id}
                defaultValue={runAt}
                onInput={(event) => {
                  runAt = event.currentTarget.value;
                }}
              />
            )}
          </Field>
        </BulkButton>
      ) : null}
      <BulkButton
        label="Cancel all that match"
        path="/jobs/cancel"
        body={() => ({ filter: filterBody(place, false) })}
        done={isWaiting ? 'cancelled' : 'cancelled, or asked to stop'}
        isDangerous
        onDone={onDone}
      />
    </>
  );
}
