/** Shares: what each fairness key has used, against its weight. */
import type { KeyView } from '../../operate/inspect.ts';
import type { StatisticsView } from '../../operate/statistics.ts';
import { useLive } from './api.ts';
import { ActionButton, Bar, change, Field, Freshness, Rows } from './parts.tsx';
import { type Delays, delaysOf, STATISTICS_EVERY_MS } from './past.ts';
import { go, queryText, usePlace } from './route.ts';
import { countText, durationText, numberText, plural } from './words.ts';

const EVERY_MS = 15_000;
const PAGE = 200;

interface KeyRow {
  readonly key: KeyView;
  /** The types that wait, with their counts. */
  readonly types: readonly KeyView[];
  readonly usedShare: number;
  readonly weightShare: number;
}

/** Returns one row for each key, with all its types. */
function rowsOf(views: readonly KeyView[]): readonly KeyRow[] {
  const byKey = Map.groupBy(views, ({ fairnessKey }) => fairnessKey);
  const firsts = [...byKey.values()].flatMap(([first]) => first ?? []);
  const costOf = ({ settledCostMs, inFlightCostMs }: KeyView): number => settledCostMs + inFlightCostMs;
  const cost = firsts.reduce((sum, key) => sum + costOf(key), 0);
  const weight = firsts.reduce((sum, key) => sum + key.weight, 0);
  return firsts.map((key) => ({
    key,
    types: byKey.get(key.fairnessKey) ?? [],
    usedShare: cost === 0 ? 0 : costOf(key) / cost,
    weightShare: weight === 0 ? 0 : key.weight / weight,
  }));
}

const percent = (share: number): string => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;

function Share({ row: { usedShare, weightShare, key } }: { readonly row: KeyRow }) {
  return (
    <Bar
      label={`share of ${key.fairnessKey}`}
      share={usedShare}
      mark={weightShare}
      isWarning={usedShare > weightShare * 1.1}
      text={`${percent(usedShare)} of ${percent(weightShare)}`}
      said={`${percent(usedShare)} used, ${percent(weightShare)} by weight`}
    />
  );
}

const waitingOfRow = ({ types }: KeyRow): string =>
  countText(
    types.reduce((sum, { waiting }) => sum + waiting, 0),
    types.some(({ more }) => more),
  );

/** How long the keys' jobs waited, all together. */
function Delay({ of: { jobs, medianMs, p95Ms } }: { readonly of: Delays }) {
  if (medianMs === undefined || p95Ms === undefined)
    return <p class="muted">No job was given a slot in the last hour.</p>;
  return (
    <p>
      In the last hour {plural(jobs, 'job')} of all keys got a slot: half of them within{' '}
      {durationText(medianMs)}, 95 of 100 within {durationText(p95Ms)}.
    </p>
  );
}

export function Keys() {
  const { query } = usePlace();
  const cursor = query.get('cursor') ?? undefined;
  const live = useLive<{ readonly keys: readonly KeyView[]; readonly next?: string }>(
    `/keys${queryText({ limit: PAGE, countUpTo: 1_000, cursor })}`,
    EVERY_MS,
  );
  const past = useLive<{ readonly statistics: StatisticsView }>('/statistics', STATISTICS_EVERY_MS);
  const statistics = past.value?.statistics;
  const rows = rowsOf(live.value?.keys ?? []);
  const next = live.value?.next;
  return (
    <>
      <p class="lead">
        The key with the least cost for its weight is served first. The bar is the share that a key has used,
        the mark the share that its weight gives it, among the keys listed here.
      </p>
      {statistics?.isKept === true ? <Delay of={delaysOf(statistics)} /> : null}
      <Freshness of={live} />
      {live.value === undefined ? null : (
        <Rows
          caption="Fairness keys, with their shares"
          rows={rows}
          keyOf={({ key }) => key.fairnessKey}
          empty="No key has jobs."
          columns={[
            {
              name: 'Key',
              show: ({ key }) => (
                <>
                  <a
                    class="id"
                    href={`/jobs${queryText({ state: 'pending', fairnessKey: key.fairnessKey })}`}
                  >
                    {key.fairnessKey}
                  </a>
                  {key.paused ? <span class="tag">paused</span> : null}
                </>
              ),
            },
            { name: 'Share used of share by weight', show: (row) => <Share row={row} /> },
            { name: 'Weight', isNumber: true, show: ({ key }) => numberText(key.weight) },
            {
              name: 'Cost',
              isNumber: true,
              show: ({ key }) => durationText(key.settledCostMs + key.inFlightCostMs),
            },
            { name: 'Waiting', isNumber: true, show: waitingOfRow },
            {
              name: 'Running',
              isNumber: true,
              show: ({ key }) =>
                `${numberText(key.inFlight)}${key.maxConcurrency === undefined ? '' : ` / ${numberText(key.maxConcurrency)}`}`,
            },
            {
              name: 'Waits in',
              show: ({ types }) =>
                types
                  .filter(({ waiting, more }) => waiting > 0 || more)
                  .flatMap(({ type }) => type ?? [])
                  .join(', ') || <span class="muted">nothing waits</span>,
            },
            { name: 'Change', show: (row) => <KeyActions row={row} onDone={live.reload} /> },
          ]}
        />
      )}
      {next === undefined && cursor === undefined ? null : (
        <p class="buttons">
          {cursor === undefined ? null : (
            <button type="button" onClick={() => go('/keys')}>
              First keys
            </button>
          )}
          {next === undefined ? null : (
            <button type="button" onClick={() => go(`/keys${queryText({ cursor: next })}`)}>
              More keys
            </button>
          )}
        </p>
      )}
    </>
  );
}

function KeyActions({ row: { key }, onDone }: { readonly row: KeyRow; readonly onDone: () => void }) {
  const scope = { fairnessKey: key.fairnessKey };
  let weight = String(key.weight);
  return (
    <span class="buttons">
      <ActionButton
        label="Weight"
        describe={`of ${key.fairnessKey}`}
        onDone={onDone}
        confirm={() => ({
          title: `Weight of ${key.fairnessKey}`,
          action: 'Set the weight',
          children: (
            <Field label="A key of weight 2 gets twice the share of a key of weight 1">
              {(id) => (
                <input
                  id={id}
                  inputMode="decimal"
                  defaultValue={weight}
                  onInput={(event) => {
                    weight = event.currentTarget.value;
                  }}
                />
              )}
            </Field>
          ),
          run: () =>
            change(
              '/controls/override',
              { scope, change: { weight: Number(weight) } },
              () => 'The weight is set.',
            ),
        })}
      />
      <ActionButton
        label={key.paused ? 'Resume' : 'Pause'}
        describe={key.fairnessKey}
        onDone={onDone}
        confirm={() => ({
          title: `${key.paused ? 'Resume' : 'Pause'} ${key.fairnessKey}?`,
          action: key.paused ? 'Resume it' : 'Pause it',
          children: (
            <p>{key.paused ? 'Its jobs may start again.' : 'Its jobs do not start; those that run go on.'}</p>
          ),
          run: () => change(`/controls/${key.paused ? 'resume' : 'pause'}`, { scope }, () => 'Done.'),
        })}
      />
    </span>
  );
}
