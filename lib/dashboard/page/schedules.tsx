/** Schedules: when they fire next, how they fired, and why not. */
import type { FiringsOf } from '../../client/firings.ts';
import type { ScheduleView } from '../../client/schedules.ts';
import { useLive } from './api.ts';
import { ActionButton, change, Freshness, Instant, JobLink, Rows, State, When, Written } from './parts.tsx';
import { queryText, usePlace } from './route.ts';
import { durationText } from './words.ts';

const EVERY_MS = 30_000;

const rhythmOf = ({ spec: { when, timeZone } }: ScheduleView): string =>
  when.kind === 'cron' ? `${when.expression} (${timeZone})` : `every ${durationText(when.everyMs)}`;

const hrefOf = (id: string): string => `/schedules${queryText({ id })}`;

export function Schedules() {
  const id = usePlace().query.get('id');
  return id === null ? <All /> : <One key={id} id={id} />;
}

function All() {
  const live = useLive<{ readonly schedules: readonly ScheduleView[]; readonly next?: string }>(
    '/schedules?limit=200',
    EVERY_MS,
  );
  return (
    <>
      <Freshness of={live} />
      {live.value === undefined ? null : (
        <Rows
          caption="Schedules"
          rows={live.value.schedules}
          keyOf={({ id }) => id}
          empty="There are no schedules."
          columns={[
            {
              name: 'Schedule',
              show: ({ id }) => (
                <a class="id" href={hrefOf(id)}>
                  {id}
                </a>
              ),
            },
            { name: 'State', show: ({ state }) => <State of={state} /> },
            { name: 'Fires', show: rhythmOf },
            { name: 'Type', show: ({ spec }) => spec.job.type },
            {
              name: 'Next',
              show: ({ nextDueMs, nextMs }) =>
                nextDueMs === undefined && nextMs === undefined ? (
                  '–'
                ) : (
                  <When atMs={nextDueMs ?? nextMs ?? 0} />
                ),
            },
            { name: 'Last', show: ({ lastMs }) => (lastMs === undefined ? '–' : <When atMs={lastMs} />) },
            { name: 'Failed in a row', isNumber: true, show: ({ failures }) => failures },
            { name: 'Why not', show: ({ why }) => why.join(' ') },
          ]}
        />
      )}
      {live.value?.next === undefined ? null : <p class="muted">The first 200 schedules are shown.</p>}
    </>
  );
}

const CHANGES: Readonly<Record<string, string>> = {
  moved: 'clocks go forward: moved to the first valid time',
  first: 'clocks go back: the first of two',
  second: 'clocks go back: the second of two',
};

function One({ id }: { readonly id: string }) {
  const path = `/schedules/${encodeURIComponent(id)}`;
  const live = useLive<{ readonly schedule: ScheduleView }>(path, EVERY_MS);
  const next = useLive<FiringsOf>(`${path}/next?count=10`);
  const schedule = live.value?.schedule;
  const reload = (): void => {
    live.reload();
    next.reload();
  };
  return (
    <>
      <p>
        <a href="/schedules">All schedules</a>
      </p>
      <Freshness of={live} />
      {schedule === undefined ? null : (
        <>
          <div class="job-head">
            <State of={schedule.state} />
            <span>{rhythmOf(schedule)}</span>
            <span>
              <span class="kind">type</span> {schedule.spec.job.type}
            </span>
            {schedule.isDeclared ? <span class="tag">declared</span> : null}
          </div>
          <ScheduleActions schedule={schedule} path={path} onDone={reload} />
          {schedule.why.length === 0 ? null : (
            <section class="why">
              <h2>Why it does not fire</h2>
              <ul>
                {schedule.why.map((sentence) => (
                  <li key={sentence}>{sentence}</li>
                ))}
              </ul>
            </section>
          )}
          <div class="columns">
            <section>
              <h2>Next ten</h2>
              <Freshness of={next} />
              {next.value === undefined ? null : (
                <Rows
                  caption="Next firings"
                  rows={next.value.firings}
                  keyOf={({ utc }) => utc}
                  empty="It does not fire again."
                  columns={[
                    {
                      name: `In ${next.value.zone}`,
                      show: ({ local }) => (
                        <time dateTime={local}>
                          {local.replace('T', ' ').replace(/(?=[+-]\d\d:\d\d$)/, ' ')}
                        </time>
                      ),
                    },
                    { name: 'From now', show: ({ utc }) => <When atMs={Date.parse(utc)} /> },
                    {
                      name: 'Clock change',
                      show: ({ change: of }) => (of === undefined ? '' : (CHANGES[of] ?? of)),
                    },
                  ]}
                />
              )}
            </section>
            <section>
              <h2>Last ten</h2>
              <Rows
                caption="Last firings"
                rows={schedule.firings.toReversed()}
                keyOf={({ atMs, what }) => `${atMs} ${what}`}
                empty="It has not fired yet."
                columns={[
                  { name: 'Due', show: ({ atMs }) => <Instant atMs={atMs} /> },
                  { name: 'Outcome', show: ({ what }) => what },
                  {
                    name: 'Job',
                    show: ({ jobId, jobState }) =>
                      jobId === undefined ? (
                        '–'
                      ) : (
                        <>
                          <JobLink id={jobId} /> {jobState === undefined ? null : <State of={jobState} />}
                        </>
                      ),
                  },
                  {
                    name: 'Late by',
                    isNumber: true,
                    show: ({ lateMs }) => (lateMs === undefined ? '–' : durationText(lateMs)),
                  },
                ]}
              />
            </section>
          </div>
          <Written label="Rules" value={schedule.spec} />
        </>
      )}
    </>
  );
}

function ScheduleActions({
  schedule: { id, state },
  path,
  onDone,
}: {
  readonly schedule: ScheduleView;
  readonly path: string;
  readonly onDone: () => void;
}) {
  const isActive = state === 'active';
  return (
    <p class="buttons">
      <ActionButton
        label={isActive ? 'Pause' : 'Resume'}
        describe={`schedule ${id}`}
        onDone={onDone}
        confirm={() => ({
          title: `${isActive ? 'Pause' : 'Resume'} ${id}?`,
          action: isActive ? 'Pause it' : 'Resume it',
          children: (
            <p>{isActive ? 'It makes no jobs until it is resumed.' : 'It goes on with its next firing.'}</p>
          ),
          run: () =>
            change(`${path}/${isActive ? 'pause' : 'resume'}`, {}, () =>
              isActive ? 'It is paused.' : 'It is active.',
            ),
        })}
      />
      <ActionButton
        label="Run now"
        describe={`schedule ${id}`}
        onDone={onDone}
        confirm={() => ({
          title: `Make a job of ${id} now?`,
          action: 'Make the job',
          children: <p>The job comes in addition to those of its times.</p>,
          run: () =>
            change<{ readonly jobId: string }>(`${path}/run`, {}, ({ jobId }) => `Job ${jobId} was made.`),
        })}
      />
    </p>
  );
}
