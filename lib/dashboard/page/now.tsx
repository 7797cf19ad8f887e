/** Now: whether work flows, and what holds it up. */
import type { FunctionComponent } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { CapacityView } from '../../operate/capacity.ts';
import type { DispatchersView } from '../../operate/dispatchers.ts';
import type { FleetView, KeyView } from '../../operate/inspect.ts';
import type { StatisticsView } from '../../operate/statistics.ts';
import { useLive } from './api.ts';
import type { Chart as ChartComponent } from './chart.tsx';
import { Freshness, Meter } from './parts.tsx';
import { type Delays, pointsOf, RECENT_TEXT, recentDelays, STATISTICS_EVERY_MS } from './past.ts';
import { longestWaitMs, type PoolVerdict, verdictOf, waitingOf } from './verdict.ts';
import { clockText, countText, durationText, numberText, scopeParts } from './words.ts';

/** Milliseconds between two reads of the capacity: one consistent read of each partition. */
const CAPACITY_EVERY_MS = 5_000;
/** Milliseconds between two reads of lines, which read the index and cost more. */
const LINES_EVERY_MS = 15_000;
const SEEN_MAX = 720;

interface Sample {
  readonly atSec: number;
  readonly running: number;
  readonly waiting: number;
  readonly waitSec: number;
}

/** What was seen since the page was opened. It outlives the screen. */
let seenSoFar: readonly Sample[] = [];

const TONES: Readonly<Record<PoolVerdict['tone'], readonly [sign: string, word: string]>> = {
  fine: ['✓', 'Work flows'],
  full: ['◐', 'Capacity is used up'],
  late: ['!', 'Jobs are late'],
};

function Figure({
  name,
  value,
  note,
}: {
  readonly name: string;
  readonly value: string;
  readonly note: string;
}) {
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd>
        <strong>{value}</strong>
        <span>{note}</span>
      </dd>
    </div>
  );
}

/** The chart with its library, which no other screen loads. */
function useChart(): FunctionComponent<Parameters<typeof ChartComponent>[0]> | undefined | 'failed' {
  const [loaded, setLoaded] = useState<{ readonly Chart: typeof ChartComponent | 'failed' }>();
  useEffect(() => {
    import('./chart.tsx').then(setLoaded, () => setLoaded({ Chart: 'failed' }));
  }, []);
  return loaded?.Chart;
}

export function Now() {
  const capacity = useLive<{ readonly capacity: CapacityView }>('/capacity', CAPACITY_EVERY_MS);
  const fleets = useLive<{ readonly fleets: readonly FleetView[] }>('/fleets', CAPACITY_EVERY_MS);
  const lines = useLive<DispatchersView>('/dispatchers', LINES_EVERY_MS);
  const keys = useLive<{ readonly keys: readonly KeyView[] }>('/keys?limit=50&countUpTo=0', LINES_EVERY_MS);
  const past = useLive<{ readonly statistics: StatisticsView }>('/statistics', STATISTICS_EVERY_MS);
  const statistics = past.value?.statistics;
  const [samples, setSamples] = useState(seenSoFar);
  const isComplete = capacity.value !== undefined && fleets.value !== undefined && lines.value !== undefined;
  const seen = {
    capacity: capacity.value?.capacity ?? { readAtMs: 0, scopes: [], rates: [] },
    fleets: fleets.value?.fleets ?? [],
    partitions: lines.value?.partitions ?? [],
    keys: keys.value?.keys ?? [],
  };
  const running = seen.capacity.scopes.find(({ scope }) => scope === 'pool')?.running ?? 0;
  const waiting = waitingOf(seen);
  const waitMs = longestWaitMs(seen);
  const atMs = Math.max(capacity.atMs ?? 0, lines.atMs ?? 0);
  useEffect(() => {
    if (!isComplete) return;
    const sample = {
      atSec: atMs / 1_000,
      running,
      waiting: waiting.count,
      waitSec: Math.round(waitMs / 1_000),
    };
    const before = seenSoFar.filter(({ atSec }) => atSec < sample.atSec - 0.5).slice(1 - SEEN_MAX);
    seenSoFar = [...before, sample];
    setSamples(seenSoFar);
  }, [atMs, isComplete]);
  const verdict = isComplete ? verdictOf(seen) : undefined;
  const slots = seen.fleets.reduce((sum, each) => sum + each.slots, 0);
  const busy = seen.fleets.reduce((sum, each) => sum + each.busy, 0);
  return (
    <>
      {[capacity, fleets, lines]
        .filter((each) => each.problem !== undefined)
        .slice(0, 1)
        .map((each) => (
          <Freshness key="problem" of={each} />
        ))}
      {verdict === undefined ? (
        <p class="verdict verdict-unknown">Looking…</p>
      ) : (
        <p class={`verdict verdict-${verdict.tone}`}>
          <span class="verdict-sign" aria-hidden="true">
            {TONES[verdict.tone][0]}
          </span>
          <span>
            <span class="verdict-word">{TONES[verdict.tone][1]}</span>
            {verdict.text}
          </span>
        </p>
      )}
      <dl class="figures">
        {statistics?.isKept === true ? <Delay of={recentDelays(statistics)} /> : null}
        <Figure
          name="Longest wait"
          value={lines.value === undefined ? '–' : durationText(waitMs)}
          note="of the jobs that are ready"
        />
        <Figure
          name="Waiting"
          value={lines.value === undefined ? '–' : countText(waiting.count, waiting.more)}
          note={`in ${seen.partitions.length === 1 ? 'one partition' : `${seen.partitions.length} partitions`}`}
        />
        <Figure
          name="Running"
          value={isComplete ? numberText(running) : '–'}
          note="reserved, claimed or running"
        />
        <Figure
          name="Slots"
          value={isComplete ? `${numberText(busy)} / ${numberText(slots)}` : '–'}
          note={`in ${numberText(seen.fleets.length)} fleet${seen.fleets.length === 1 ? '' : 's'}`}
        />
      </dl>
      {statistics === undefined ? null : statistics.isKept ? (
        <PastCharts of={statistics} />
      ) : (
        <Charts samples={samples} />
      )}
      <section>
        <h2>Running against each cap</h2>
        <ul class="caps">
          {seen.fleets.map(({ fleet, busy: used, slots: of, paused }) => (
            <li key={`fleet/${fleet}`}>
              <Cap scope={`fleet/${fleet}`} used={used} of={of} isPaused={paused} />
            </li>
          ))}
          {seen.capacity.scopes
            .filter(({ cap, scope, paused }) => cap !== undefined || paused || scope === 'pool')
            .filter(({ scope }) => !scope.startsWith('fleet/'))
            .map(({ scope, running: used, cap, paused }) => (
              <li key={scope}>
                <Cap scope={scope} used={used} of={cap} isPaused={paused} />
              </li>
            ))}
        </ul>
      </section>
    </>
  );
}

/** The headline: how long jobs wait until they are given a slot. */
function Delay({ of: { jobs, medianMs, p95Ms } }: { readonly of: Delays }) {
  const note =
    medianMs === undefined
      ? `no job was given a slot in ${RECENT_TEXT}`
      : `95 of 100 of the ${numberText(jobs)} jobs in ${RECENT_TEXT}; half: ${durationText(medianMs)}`;
  return (
    <Figure name="Scheduling delay" value={p95Ms === undefined ? '–' : durationText(p95Ms)} note={note} />
  );
}

function PastCharts({ of }: { readonly of: StatisticsView }) {
  const Chart = useChart();
  if (Chart === undefined || Chart === 'failed') return null;
  const points = pointsOf(of);
  const atSec = points.map((point) => point.atSec);
  return (
    <section>
      <h2>The last hour</h2>
      <div class="charts">
        <Chart
          label="Scheduling delay, in seconds"
          unit="s"
          least={1}
          atSec={atSec}
          series={[
            { label: '95 of 100', colour: 'warn', values: points.map(({ p95Sec }) => p95Sec) },
            { label: 'median', colour: 'accent', values: points.map(({ medianSec }) => medianSec) },
          ]}
        />
        <Chart
          label="Jobs a minute"
          unit=""
          atSec={atSec}
          series={[
            { label: 'started', colour: 'muted', values: points.map(({ admitted }) => admitted) },
            { label: 'ended', colour: 'accent', values: points.map(({ ended }) => ended) },
            { label: 'failed', colour: 'warn', values: points.map(({ failed }) => failed) },
          ]}
        />
      </div>
    </section>
  );
}

function Charts({ samples }: { readonly samples: readonly Sample[] }) {
  const Chart = useChart();
  return (
    <section>
      <h2>
        Since this page was opened
        {samples[0] === undefined ? '' : `, ${clockText(samples[0].atSec * 1_000)}`}
      </h2>
      <p class="muted">
        With <code>statistics: true</code> in the declaration, this is the last hour.
      </p>
      <div class="charts">
        {Chart === 'failed' ? (
          <p class="notice">The charts could not be loaded.</p>
        ) : Chart === undefined || samples.length === 0 ? (
          <p class="empty">Collecting…</p>
        ) : (
          <>
            <Chart
              label="Longest wait, in seconds"
              unit="s"
              atSec={samples.map(({ atSec }) => atSec)}
              series={[
                { label: 'longest wait', colour: 'warn', values: samples.map(({ waitSec }) => waitSec) },
              ]}
            />
            <Chart
              label="Jobs"
              unit=""
              atSec={samples.map(({ atSec }) => atSec)}
              series={[
                { label: 'waiting', colour: 'muted', values: samples.map((each) => each.waiting) },
                { label: 'running', colour: 'accent', values: samples.map((each) => each.running) },
              ]}
            />
          </>
        )}
      </div>
    </section>
  );
}

function Cap({
  scope,
  used,
  of,
  isPaused,
}: {
  readonly scope: string;
  readonly used: number;
  readonly of: number | undefined;
  readonly isPaused: boolean;
}) {
  const [kind, name] = scopeParts(scope);
  return (
    <>
      <span class="cap-name">
        <span class="kind">{kind}</span> {name}
        {isPaused ? <span class="tag">paused</span> : null}
      </span>
      <Meter label={`${kind} ${name}`} used={used} of={of} />
    </>
  );
}
