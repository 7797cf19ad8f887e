/** Limits and locks: how much of each cap and rate is used, what waits behind it, and which conflict keys are held. */
import type { ControlEntry } from '../../core/capacity.ts';
import type { CapacityView, LockView } from '../../operate/capacity.ts';
import type { KeyView, TypeView } from '../../operate/inspect.ts';
import { useLive } from './api.ts';
import { ActionButton, change, Field, Freshness, JobLink, Meter, Rows, When } from './parts.tsx';
import {
  countText,
  durationText,
  numberText,
  type ScopeRow,
  scopeOf,
  scopeParts,
  scopeText,
} from './words.ts';

const EVERY_MS = 10_000;
const NAMED_MAX = 5;

export function Limits() {
  const capacity = useLive<{ readonly capacity: CapacityView }>('/capacity', EVERY_MS);
  const keys = useLive<{ readonly keys: readonly KeyView[]; readonly next?: string }>(
    '/keys?limit=500&countUpTo=1000',
  );
  const types = useLive<{ readonly types: readonly TypeView[] }>('/types');
  const tierOf = new Map((types.value?.types ?? []).map(({ type, tier }) => [type, tier]));
  /** The jobs that wait behind a scope, as far as the keys that were read show. */
  const waitingBehind = (scope: string): string => {
    if (keys.value === undefined) return '…';
    const [kind, name] = scopeParts(scope);
    if (kind === 'limit' || kind === 'resource') return '–';
    const behind = keys.value.keys.filter(
      ({ type = '', fairnessKey }) =>
        kind === 'pool' ||
        (kind === 'tier' && tierOf.get(type) === name) ||
        (kind === 'type' && type === name) ||
        (kind === 'key' && fairnessKey === name),
    );
    const count = behind.reduce((sum, { waiting }) => sum + waiting, 0);
    return countText(count, keys.value.next !== undefined || behind.some(({ more }) => more));
  };
  const scopes = (capacity.value?.capacity.scopes ?? []).filter(({ scope }) => !scope.startsWith('fleet/'));
  const rates = capacity.value?.capacity.rates ?? [];
  return (
    <>
      <section>
        <h2>Caps and pauses</h2>
        <Freshness of={capacity} />
        {capacity.value === undefined ? null : (
          <Rows
            caption="Caps and pauses"
            rows={scopes}
            keyOf={({ scope }) => scope}
            empty="There are none."
            columns={[
              {
                name: 'Scope',
                show: ({ scope, paused }) => {
                  const [kind, name] = scopeParts(scope);
                  return (
                    <>
                      <span class="kind">{kind}</span> {name}
                      {paused ? <span class="tag">paused</span> : null}
                    </>
                  );
                },
              },
              {
                name: 'Running of the cap',
                show: ({ scope, running, cap }) => <Meter label={scopeText(scope)} used={running} of={cap} />,
              },
              { name: 'Waiting behind it', isNumber: true, show: ({ scope }) => waitingBehind(scope) },
              {
                name: 'Set by',
                show: (row) => <Terms of={row} />,
              },
              { name: 'Change', show: (row) => <ScopeActions of={row} onDone={capacity.reload} /> },
            ]}
          />
        )}
      </section>
      {rates.length === 0 ? null : (
        <section>
          <h2>Rates</h2>
          <Rows
            caption="Rates"
            rows={rates}
            keyOf={({ limit }) => limit}
            empty=""
            columns={[
              { name: 'Limit', show: ({ limit }) => limit },
              {
                name: 'Used',
                show: ({ limit, used, most }) => <Meter label={`rate of ${limit}`} used={used} of={most} />,
              },
              {
                name: 'Counts',
                show: ({ perJob }) =>
                  perJob === undefined ? 'starts' : `units, ${numberText(perJob)} a job at most`,
              },
              { name: 'Within', isNumber: true, show: ({ perMs }) => durationText(perMs) },
              {
                name: 'Next start counts until',
                show: ({ untilMs }) => (untilMs === undefined ? '–' : <When atMs={untilMs} />),
              },
            ]}
          />
        </section>
      )}
      <Locks />
    </>
  );
}

/** The cap, the pause and the rest of a scope, and the person or tool that set them. */
function Terms({ of: { cap, declared, capSet, pauseSet, restsUntilMs } }: { readonly of: ScopeRow }) {
  if (pauseSet !== undefined) return <SetBy of={pauseSet} what="paused" />;
  if (restsUntilMs !== undefined)
    return (
      <>
        a handler, to rest until <When atMs={restsUntilMs} />
      </>
    );
  if (capSet !== undefined)
    return (
      <SetBy
        of={capSet}
        what={declared === undefined ? 'capped' : `declared: ${numberText(declared)}; set`}
      />
    );
  return cap === undefined ? <span class="muted">no cap</span> : <>declaration</>;
}

/** The person or tool that set it, the reason, and until when it holds. */
function SetBy({ of, what }: { readonly of: ControlEntry; readonly what: string }) {
  return (
    <>
      {what} by {of.by ?? 'an operator'}
      {of.reason === undefined ? '' : ` (${of.reason})`}
      {of.untilMs === undefined ? null : (
        <>
          , ends <When atMs={of.untilMs} />
        </>
      )}
    </>
  );
}

function Locks() {
  const locks = useLive<{ readonly locks: readonly LockView[] }>('/locks', EVERY_MS);
  return (
    <section>
      <h2>Locks</h2>
      <Freshness of={locks} />
      {locks.value === undefined ? null : (
        <Rows
          caption="Conflict keys"
          rows={locks.value.locks}
          keyOf={({ conflictKey }) => conflictKey}
          empty="No job holds a conflict key, and none waits for one."
          columns={[
            { name: 'Conflict key', show: ({ conflictKey }) => <span class="id">{conflictKey}</span> },
            {
              name: 'Held by',
              show: ({ holders }) =>
                holders.length === 0 ? (
                  <span class="muted">no job</span>
                ) : (
                  <>
                    {holders.slice(0, NAMED_MAX).map((id, at) => (
                      <>
                        {at === 0 ? '' : ', '}
                        <JobLink id={id} />
                      </>
                    ))}
                    {holders.length > NAMED_MAX ? ` and ${holders.length - NAMED_MAX} more` : ''}
                  </>
                ),
            },
            { name: 'Parked', isNumber: true, show: ({ parked, more }) => countText(parked, more) },
          ]}
        />
      )}
    </section>
  );
}

export function ScopeActions({
  of: { scope, cap, declared, paused },
  onDone,
}: {
  readonly of: Pick<ScopeRow, 'scope' | 'cap' | 'declared' | 'paused'>;
  readonly onDone: () => void;
}) {
  const named = scopeOf(scope);
  if (named === undefined) return null;
  const [kind] = scopeParts(scope);
  let most = cap === undefined ? '' : String(cap);
  return (
    <span class="buttons">
      <ActionButton
        label={paused ? 'Resume' : 'Pause'}
        describe={scopeText(scope)}
        onDone={onDone}
        confirm={() => ({
          title: `${paused ? 'Resume' : 'Pause'} ${scopeText(scope)}?`,
          action: paused ? 'Resume it' : 'Pause it',
          isDangerous: !paused,
          children: (
            <p>{paused ? 'Its jobs may start again.' : 'None of its jobs starts; those that run go on.'}</p>
          ),
          run: () =>
            change(`/controls/${paused ? 'resume' : 'pause'}`, { scope: named }, () =>
              paused ? 'Its jobs may start again.' : 'It is paused.',
            ),
        })}
      />
      <ActionButton
        label="Cap"
        describe={`of ${scopeText(scope)}`}
        onDone={onDone}
        confirm={() => ({
          title: `Cap of ${kind === 'pool' ? 'the pool' : scopeText(scope)}`,
          action: 'Set the cap',
          children: (
            <Field
              label={`The most jobs at once; empty for the declared cap${declared === undefined ? ', which is none' : ` of ${declared}`}`}
            >
              {(id) => (
                <input
                  id={id}
                  inputMode="numeric"
                  defaultValue={most}
                  onInput={(event) => {
                    most = event.currentTarget.value.trim();
                  }}
                />
              )}
            </Field>
          ),
          run: () =>
            change(
              '/controls/override',
              { scope: named, change: { maxConcurrency: most === '' ? null : Number(most) } },
              () => 'The cap is set, from the next pass on.',
            ),
        })}
      />
    </span>
  );
}
