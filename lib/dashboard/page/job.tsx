/** One job: its life on a line, why it waits, what stands before it, its attempts, and what can be done. */
import type { JobEvent, JobHistory } from '../../core/history.ts';
import type { Job } from '../../core/job.ts';
import type { LiveExplanation } from '../../operate/explain.ts';
import { useLive } from './api.ts';
import {
  ActionButton,
  change,
  Field,
  Freshness,
  Instant,
  JobLink,
  Rows,
  State,
  useSession,
  When,
  Written,
} from './parts.tsx';
import { go, jobHref } from './route.ts';
import { type Branch, branchesOf, isOver as hasEnded, type Stretch, totalMs } from './timeline.ts';
import { reasonOf, startOf } from './why.tsx';
import { durationText, numberText } from './words.ts';

const EVERY_MS = 5_000;

export function OneJob({ id }: { readonly id: string }) {
  const path = `/jobs/${encodeURIComponent(id)}`;
  const live = useLive<{ readonly job: Job }>(`${path}?references=true`, EVERY_MS);
  const history = useLive<{ readonly history: JobHistory }>(`${path}/history`, EVERY_MS);
  const job = live.value?.job;
  const isOver = job !== undefined && hasEnded(job);
  const explained = useLive<{ readonly explanation: LiveExplanation }>(
    job === undefined || isOver ? undefined : `${path}/explanation`,
    EVERY_MS,
  );
  const reload = (): void => {
    live.reload();
    history.reload();
    explained.reload();
  };
  if (job === undefined) return <Freshness of={live} />;
  const of = history.value?.history;
  return (
    <>
      <Freshness of={live} />
      <div class="job-head">
        <State of={job.state} />
        <span>
          <span class="kind">type</span> <a href={`/jobs?type=${encodeURIComponent(job.type)}`}>{job.type}</a>
        </span>
        <span>
          <span class="kind">key</span>{' '}
          <a href={`/jobs?fairnessKey=${encodeURIComponent(job.fairnessKey)}`}>{job.fairnessKey}</a>
        </span>
        <span>
          <span class="kind">priority</span> {job.priority}
        </span>
        <span>
          <span class="kind">mode</span> {job.mode}
        </span>
        {job.resourceId === undefined ? null : (
          <span>
            <span class="kind">resource</span> {job.resourceId}
          </span>
        )}
        {job.label === undefined ? null : <span>{job.label}</span>}
        {Object.entries(job.tags ?? {}).map(([name, value]) => (
          <span class="tag" key={name}>
            {name}={value}
          </span>
        ))}
      </div>
      <JobActions job={job} onDone={reload} />
      {explained.value === undefined || isOver ? null : <Why of={explained.value.explanation} />}
      {of === undefined ? null : <TimelineOf job={job} history={of} />}
      {of === undefined ? null : <Attempts history={of} />}
      <div class="columns">
        <Written label="Payload" value={job.payload} />
        {job.result === undefined ? null : <Written label="Result" value={job.result} />}
        {job.error === undefined ? null : (
          <Written label="Last error" value={job.error.stack ?? `${job.error.name}: ${job.error.message}`} />
        )}
      </div>
    </>
  );
}

function Why({ of }: { readonly of: LiveExplanation }) {
  const { waitsFor, runs, explainedAtMs: nowMs } = of;
  return (
    <section class="why" aria-labelledby="why">
      <h2 id="why">{runs === undefined ? 'Why it waits' : 'Where it runs'}</h2>
      {runs === undefined ? null : (
        <ul>
          <li>
            On <strong>{runs.workerId}</strong> of <a href="/fleets">fleet {runs.fleet}</a>, for{' '}
            {durationText(nowMs - runs.startedAtMs)}
            {runs.ordinarilyWithinMs === undefined
              ? ''
              : `; attempts of its type ordinarily end within ${durationText(runs.ordinarilyWithinMs)}`}
            .
          </li>
          {runs.heardAtMs === undefined ? null : (
            <li>
              Its last heartbeat came <When atMs={runs.heardAtMs} nowMs={nowMs} />.
            </li>
          )}
          <li>
            Without another, it is given up <When atMs={runs.givenUpAtMs} nowMs={nowMs} />.
          </li>
          {runs.progress === undefined ? null : <li>Progress: {JSON.stringify(runs.progress)}</li>}
        </ul>
      )}
      {waitsFor.length === 0 ? null : (
        <ul class="reasons">
          {waitsFor.map((each, at) => (
            <li key={at}>{reasonOf(each, of)}</li>
          ))}
        </ul>
      )}
      <ul>
        {of.position === undefined || of.position === 0 ? null : (
          <li>
            {of.positionIsLeast ? 'At least ' : ''}
            {numberText(of.position)} {of.position === 1 ? 'job' : 'jobs'} of its own line stand before it.
          </li>
        )}
        {startOf(of)}
      </ul>
      {of.keysBefore.length === 0 ? null : (
        <>
          <h3>Keys that are served first</h3>
          <Rows
            caption="Keys that are served first, the least share first"
            rows={of.keysBefore}
            keyOf={({ fairnessKey }) => fairnessKey}
            empty=""
            columns={[
              {
                name: 'Key',
                show: ({ fairnessKey }) => (
                  <>
                    {fairnessKey}
                    {fairnessKey === of.job.fairnessKey ? <span class="tag">this job's</span> : null}
                  </>
                ),
              },
              { name: 'Cost', isNumber: true, show: ({ costMs }) => durationText(costMs) },
              { name: 'Weight', isNumber: true, show: ({ weight }) => numberText(weight) },
              { name: 'Cost for its weight', isNumber: true, show: ({ shareMs }) => durationText(shareMs) },
            ]}
          />
        </>
      )}
    </section>
  );
}

const STRETCHES: Readonly<Record<Stretch['what'], string>> = {
  time: 'until its time',
  line: 'queue delay',
  fleet: 'on its way to a worker',
  run: 'run time',
};

function TimelineOf({ job, history }: { readonly job: Job; readonly history: JobHistory }) {
  const nowMs = Date.now();
  const branches = branchesOf(job, history, nowMs);
  const all = branches.flatMap(({ stretches }) => stretches);
  const fromMs = Math.min(job.submittedAtMs, ...all.map((each) => each.fromMs));
  const toMs = Math.max(fromMs + 1, ...all.map((each) => each.toMs));
  return (
    <section>
      <h2>Timeline</h2>
      <dl class="figures figures-small">
        {(['time', 'line', 'fleet', 'run'] as const).map((what) => (
          <div class="figure" key={what}>
            <dt>
              <span class={`swatch stretch-${what}`} aria-hidden="true" /> {STRETCHES[what]}
            </dt>
            <dd>
              <strong>{durationText(totalMs(branches, what))}</strong>
            </dd>
          </div>
        ))}
      </dl>
      <ol class="timeline">
        {branches.map((branch) => (
          <BranchRow key={branch.attempt + branch.outcome} branch={branch} fromMs={fromMs} toMs={toMs} />
        ))}
      </ol>
      <ol class="events">
        {history.events.map((event, at) => (
          <li key={at}>
            <EventText event={event} />
          </li>
        ))}
      </ol>
      {history.dropped.attempts + history.dropped.others === 0 ? null : (
        <p class="muted">
          {numberText(history.dropped.attempts + history.dropped.others)} older entries are not kept any more.
        </p>
      )}
    </section>
  );
}

function BranchRow({
  branch: { attempt, outcome, stretches },
  fromMs,
  toMs,
}: {
  readonly branch: Branch;
  readonly fromMs: number;
  readonly toMs: number;
}) {
  const share = (ms: number): string => `${((ms - fromMs) / (toMs - fromMs)) * 100}%`;
  const said = stretches
    .map(({ what, fromMs: from, toMs: to }) => `${STRETCHES[what]} ${durationText(to - from)}`)
    .join(', ');
  return (
    <li>
      <span class="branch-name">
        {outcome === 'waiting' ? 'Next attempt' : `Attempt ${attempt}`} <State of={outcome} />
      </span>
      <span class="bar" role="img" aria-label={said === '' ? 'no time passed' : said}>
        {stretches.map(({ what, fromMs: from, toMs: to }) => (
          <span
            key={what}
            class={`stretch stretch-${what}`}
            title={`${STRETCHES[what]}: ${durationText(to - from)}`}
            style={{ left: share(from), width: `max(3px, ${((to - from) / (toMs - fromMs)) * 100}%)` }}
          />
        ))}
      </span>
      <span class="branch-said">{said}</span>
    </li>
  );
}

const by = (who: string | undefined): string => (who === undefined ? '' : ` by ${who}`);

function EventText({ event }: { readonly event: JobEvent }) {
  switch (event.kind) {
    case 'submitted':
      return (
        <>
          <Instant atMs={event.atMs} /> submitted{by(event.by)}
          {event.redriveOf === undefined ? null : (
            <>
              , to try <JobLink id={event.redriveOf} /> again
            </>
          )}
        </>
      );
    case 'attempt':
      return (
        <>
          <Instant atMs={event.claimedAtMs} /> attempt {event.attempt} claimed for fleet {event.fleet}
          {event.startedAtMs === undefined ? '' : `, started by ${event.workerId ?? 'a worker'}`}
          {event.endedAtMs === undefined
            ? ''
            : `, ended after ${durationText(event.endedAtMs - (event.startedAtMs ?? event.claimedAtMs))}`}
          : {event.outcome}
          {event.next === undefined ? null : (
            <>
              ; tried again {event.next.isFromStart ? 'from the start' : 'from its checkpoint'} at{' '}
              <Instant atMs={event.next.runAtMs} />
            </>
          )}
        </>
      );
    case 'moved':
      return (
        <>
          <Instant atMs={event.atMs} /> moved from <Instant atMs={event.fromMs} /> to{' '}
          <Instant atMs={event.toMs} />
          {by(event.by)}
        </>
      );
    case 'priority':
      return (
        <>
          <Instant atMs={event.atMs} /> priority {event.from} became {event.to}
          {by(event.by)}
        </>
      );
    case 'notClaimed':
      return (
        <>
          <Instant atMs={event.atMs} /> reserved, but no worker started it
        </>
      );
    case 'givenBack':
      return (
        <>
          <Instant atMs={event.atMs} /> given back by fleet {event.fleet}
        </>
      );
    case 'cancelled':
      return (
        <>
          <Instant atMs={event.atMs} /> {event.from === 'running' ? 'asked to stop' : 'cancelled'}
          {by(event.by)}
        </>
      );
    case 'expired':
      return (
        <>
          <Instant atMs={event.atMs} /> expired: it had not started in time
        </>
      );
    case 'redriven':
      return (
        <>
          {event.atMs === undefined ? null : <Instant atMs={event.atMs} />} tried again as{' '}
          <JobLink id={event.as} />
          {by(event.by)}
        </>
      );
  }
}

function Attempts({ history }: { readonly history: JobHistory }) {
  const failed = history.events.filter((event) => event.kind === 'attempt' && event.error !== undefined);
  if (failed.length === 0) return null;
  return (
    <section>
      <h2>Errors of its attempts</h2>
      {failed.map((event) =>
        event.kind !== 'attempt' || event.error === undefined ? null : (
          <details key={event.claimId}>
            <summary>
              Attempt {event.attempt}: <strong>{event.error.name}</strong> {event.error.message}
            </summary>
            <Written
              label={`Stack of attempt ${event.attempt}`}
              value={event.error.stack ?? event.error.message}
            />
          </details>
        ),
      )}
    </section>
  );
}

function WaitingActions({ job, onDone }: { readonly job: Job; readonly onDone: () => void }) {
  const path = jobHref(job.id);
  let runAt = '+10m';
  let priority = String(job.priority);
  return (
    <>
      <ActionButton
        label="Move"
        describe="to another time"
        onDone={onDone}
        confirm={() => ({
          title: 'Move the job to another time',
          action: 'Move it',
          children: (
            <Field label="A time with a zone, or a delay such as +10m">
              {(field) => (
                <input
                  id={field}
                  defaultValue={runAt}
                  onInput={(event) => {
                    runAt = event.currentTarget.value;
                  }}
                />
              )}
            </Field>
          ),
          run: () =>
            change<{ readonly job: Job }>(
              `${path}/retime`,
              { runAt },
              ({ job: moved }) => `It is ${moved.state}.`,
            ),
        })}
      />
      <ActionButton
        label="Priority"
        onDone={onDone}
        confirm={() => ({
          title: 'Give the job another priority',
          action: 'Set it',
          children: (
            <Field label="0 is the least urgent, 10 the most">
              {(field) => (
                <input
                  id={field}
                  type="number"
                  min={0}
                  max={10}
                  defaultValue={priority}
                  onInput={(event) => {
                    priority = event.currentTarget.value;
                  }}
                />
              )}
            </Field>
          ),
          run: () => change(`${path}/priority`, { priority: Number(priority) }, () => 'The priority is set.'),
        })}
      />
    </>
  );
}

function JobActions({ job, onDone }: { readonly job: Job; readonly onDone: () => void }) {
  const { write } = useSession();
  if (!write) return null;
  const { id, state } = job;
  const path = jobHref(id);
  const isWaiting = state === 'scheduled' || state === 'pending';
  return (
    <p class="buttons actions">
      {isWaiting ? <WaitingActions job={job} onDone={onDone} /> : null}
      {state === 'failed' ? (
        <ActionButton
          label="Try again"
          onDone={onDone}
          confirm={() => ({
            title: 'Try the job again?',
            action: 'Try it again',
            children: <p>It starts from the beginning, as a new queued job.</p>,
            run: async () => {
              const done = await change<{ readonly jobId: string }>(
                `${path}/retry`,
                {},
                ({ jobId }) => jobId,
              );
              if (done.kind === 'refused') return done;
              go(jobHref(done.value));
              return { kind: 'done', value: `It is tried again as ${done.value}.` };
            },
          })}
        />
      ) : null}
      {isWaiting || state === 'claimed' || state === 'running' ? (
        <ActionButton
          label="Cancel"
          describe="the job"
          onDone={onDone}
          confirm={() => ({
            title: 'Cancel the job?',
            action: 'Cancel it',
            isDangerous: true,
            children: (
              <p>
                {state === 'running'
                  ? 'Its worker is asked to stop, and the job ends as the worker reports.'
                  : 'It will not run.'}
              </p>
            ),
            run: () =>
              change<{ readonly outcome: string }>(`${path}/cancel`, {}, ({ outcome }) =>
                outcome === 'cancelled'
                  ? 'It is cancelled.'
                  : outcome === 'requested'
                    ? 'Its worker was asked to stop.'
                    : 'It had ended before.',
              ),
          })}
        />
      ) : null}
    </p>
  );
}
