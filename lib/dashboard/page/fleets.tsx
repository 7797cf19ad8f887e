/** Fleets: their slots, and the workers that register them. */
import type { FleetView, TypeView } from '../../operate/inspect.ts';
import { useLive } from './api.ts';
import { ScopeActions } from './limits.tsx';
import { Freshness, JobLink, Meter, Rows, When } from './parts.tsx';
import { durationText, numberText, plural } from './words.ts';

const EVERY_MS = 5_000;
const NAMED_MAX = 3;

export function Fleets() {
  const live = useLive<{ readonly fleets: readonly FleetView[] }>('/fleets', EVERY_MS);
  const types = useLive<{ readonly types: readonly TypeView[] }>('/types');
  return (
    <>
      <Freshness of={live} />
      {(live.value?.fleets ?? []).map((fleet) => (
        <section key={fleet.fleet} class="card">
          <div class="list-head">
            <h2>
              {fleet.fleet}
              {fleet.paused ? <span class="tag">paused</span> : null}
            </h2>
            <ScopeActions
              of={{
                scope: `fleet/${fleet.fleet}`,
                paused: fleet.paused,
                cap: fleet.maxConcurrency,
                declared: undefined,
              }}
              onDone={live.reload}
            />
          </div>
          <Meter label={`slots of ${fleet.fleet}`} used={fleet.busy} of={fleet.slots} />
          <p class="muted">
            Runs {fleet.types.join(', ')}.
            {fleet.maxConcurrency === undefined
              ? ''
              : ` An operator allows ${plural(fleet.maxConcurrency, 'job')} at once.`}
          </p>
          <Workers of={fleet} />
        </section>
      ))}
      <section>
        <h2>Job types</h2>
        <Rows
          caption="Job types"
          rows={types.value?.types ?? []}
          keyOf={({ type }) => type}
          empty="Loading…"
          columns={[
            {
              name: 'Type',
              show: ({ type }) => <a href={`/jobs?type=${encodeURIComponent(type)}`}>{type}</a>,
            },
            { name: 'Tier', show: ({ tier }) => tier },
            { name: 'Timeout', isNumber: true, show: ({ timeoutMs }) => durationText(timeoutMs) },
            {
              name: 'Ordinarily takes',
              isNumber: true,
              show: ({ meanMs }) => (meanMs === undefined ? '–' : durationText(meanMs)),
            },
            {
              name: 'Usually at most',
              isNumber: true,
              show: ({ ordinarilyWithinMs: ms }) => (ms === undefined ? '–' : durationText(ms)),
            },
            { name: 'Learned from', isNumber: true, show: ({ samples }) => numberText(samples) },
          ]}
        />
      </section>
    </>
  );
}

function Workers({ of: { workers, slots } }: { readonly of: FleetView }) {
  if (workers.length === 0)
    return slots === 0 ? (
      <p class="notice">No worker of this fleet is alive.</p>
    ) : (
      <p class="muted">Lambda runs its jobs, so that no worker registers.</p>
    );
  const nowMs = Date.now();
  return (
    <Rows
      caption="Workers"
      rows={workers}
      keyOf={({ workerId, incarnation }) => `${workerId} ${incarnation}`}
      empty=""
      columns={[
        {
          name: 'Worker',
          show: ({ workerId, isEnding }) => (
            <>
              <span class="id">{workerId}</span>
              {isEnding === true ? <span class="tag">ending</span> : null}
            </>
          ),
        },
        {
          name: 'Slots',
          show: ({ workerId, occupants, slots: of }) => (
            <Meter label={`slots of ${workerId}`} used={occupants.length} of={of} />
          ),
        },
        {
          name: 'Runs',
          show: ({ occupants }) => (
            <>
              {occupants.slice(0, NAMED_MAX).map(({ jobId }, at) => (
                <>
                  {at === 0 ? '' : ', '}
                  <JobLink id={jobId} />
                </>
              ))}
              {occupants.length > NAMED_MAX ? ` and ${occupants.length - NAMED_MAX} more` : ''}
            </>
          ),
        },
        {
          name: 'Heard',
          show: ({ heardAtMs }) => (heardAtMs === undefined ? '–' : <When atMs={heardAtMs} nowMs={nowMs} />),
        },
        { name: 'Lease ends', show: ({ expiresAtMs }) => <When atMs={expiresAtMs} nowMs={nowMs} /> },
        {
          name: 'Event loop',
          isNumber: true,
          show: ({ load }) => (load === undefined ? '–' : durationText(load.lagMs)),
        },
        {
          name: 'Memory',
          isNumber: true,
          show: ({ load }) => (load === undefined ? '–' : `${numberText(load.memoryMb)} MiB`),
        },
      ]}
    />
  );
}
