/** Pieces that several screens use. */
import { type ComponentChildren, createContext } from 'preact';
import { useContext, useEffect, useId, useRef, useState } from 'preact/hooks';
import { referenceIn, sizeText } from '../../core/object-reference.ts';
import { type Answered, type Live, post } from './api.ts';
import { jobHref } from './route.ts';
import { clockText, dateText, fromNow, isoText, numberText } from './words.ts';

/** The person at the page, and whether that person may change anything. */
export interface Session {
  readonly actor: string;
  readonly write: boolean;
}
export const SessionContext = createContext<Session>({ actor: '', write: false });
export const useSession = (): Session => useContext(SessionContext);

/** A state has a sign and a word, so that no one needs its colour. */
const SIGNS: Readonly<Record<string, string>> = {
  scheduled: '◷',
  pending: '…',
  claimed: '▹',
  running: '▶',
  succeeded: '✓',
  failed: '✕',
  cancelled: '⊘',
  lost: '⚡',
  timedOut: '⧖',
  active: '●',
  paused: 'Ⅱ',
  stopped: '■',
  ended: '○',
};

export const State = ({ of }: { readonly of: string }) => (
  <span class={`state state-${of}`}>
    <span aria-hidden="true">{SIGNS[of] ?? '•'}</span> {of}
  </span>
);

export const JobLink = ({ id, children }: { readonly id: string; readonly children?: ComponentChildren }) => (
  <a class="id" href={jobHref(id)} title={id}>
    {children ?? shortId(id)}
  </a>
);

/** Returns a shorter form of an id. The random ids of jobs are told apart by their ends. */
const shortId = (id: string): string => (id.length <= 20 ? id : `${id.slice(0, 8)}…${id.slice(-6)}`);

/** An instant, as its distance from now, with the date in its tooltip. */
export const When = ({ atMs, nowMs = Date.now() }: { readonly atMs: number; readonly nowMs?: number }) => (
  <time dateTime={isoText(atMs)} title={`${dateText(atMs)} (${isoText(atMs)})`}>
    {fromNow(atMs, nowMs)}
  </time>
);

export const Instant = ({ atMs }: { readonly atMs: number }) => (
  <time dateTime={isoText(atMs)} title={isoText(atMs)}>
    {dateText(atMs)}
  </time>
);

/** A share of a whole as a bar, with its text. */
export function Bar({
  label,
  share,
  mark,
  isWarning,
  text,
  said = text,
}: {
  readonly label: string;
  /** The share, 0 to 1. */
  readonly share: number;
  /** A share that is marked. */
  readonly mark?: number;
  readonly isWarning: boolean;
  readonly text: string;
  /** The text for those who do not see the bar. */
  readonly said?: string;
}) {
  return (
    <span class="metered">
      {/* biome-ignore lint/a11y/useSemanticElements: browsers draw <meter> in colours of their own */}
      <span
        class={`meter ${isWarning ? 'meter-full' : ''}`}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(share * 100)}
        aria-valuetext={said}
      >
        <span class="meter-used" style={{ width: `${share * 100}%` }} />
        {mark === undefined ? null : <span class="meter-mark" style={{ left: `${mark * 100}%` }} />}
      </span>
      <span class="meter-text" aria-hidden="true">
        {text}
      </span>
    </span>
  );
}

/** How much of a cap is used. */
export function Meter({
  label,
  used,
  of,
}: {
  readonly label: string;
  readonly used: number;
  readonly of: number | undefined;
}) {
  if (of === undefined) return <span class="uncapped">{numberText(used)} running, no cap</span>;
  const share = of === 0 ? 0 : Math.min(1, used / of);
  const text = `${numberText(used)} / ${numberText(of)}`;
  return (
    <Bar label={label} share={share} isWarning={share >= 1} text={text} said={text.replace('/', 'of')} />
  );
}

export interface Column<Row> {
  readonly name: string;
  readonly show: (row: Row) => ComponentChildren;
  readonly isNumber?: boolean;
}

/** A table; on a narrow screen each row is a card. Roles are named because cards would lose them. */
export function Rows<Row>({
  caption,
  columns,
  rows,
  keyOf,
  empty,
}: {
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly empty: ComponentChildren;
}) {
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  return (
    <table role="table">
      <caption class="unseen">{caption}</caption>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map(({ name, isNumber }) => (
            <th role="columnheader" scope="col" key={name} class={isNumber ? 'number' : ''}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody role="rowgroup">
        {rows.map((row) => (
          <tr role="row" key={keyOf(row)}>
            {columns.map(({ name, show, isNumber }) => (
              <td role="cell" key={name} data-name={name} class={isNumber ? 'number' : ''}>
                {show(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The state of a read: its age, its failure, or that it is under way. */
export function Freshness({ of }: { readonly of: Live<unknown> }) {
  if (of.problem !== undefined)
    return (
      <p class="notice notice-bad" role="alert">
        {of.value === undefined
          ? ''
          : `Not up to date${of.atMs === undefined ? '' : ` since ${clockText(of.atMs)}`}: `}
        {of.problem.detail}
      </p>
    );
  return of.value === undefined ? <p class="empty">Loading…</p> : null;
}

/** Values that users wrote, as text. */
export function Written({ label, value }: { readonly label: string; readonly value: unknown }) {
  const object = referenceIn(value);
  const text =
    object === undefined
      ? typeof value === 'string'
        ? value
        : JSON.stringify(value, null, 2)
      : `${sizeText(object.bytes)} in S3: \`fairlead jobs get\` shows it`;
  return (
    <section class="written">
      <h3>{label}</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
      <pre tabIndex={0}>{text ?? 'none'}</pre>
    </section>
  );
}

export interface Confirmation {
  readonly title: string;
  readonly children?: ComponentChildren;
  /** The words of the button. */
  readonly action: string;
  readonly isDangerous?: boolean;
  /** Carries it out; a text says how it went. */
  readonly run: () => Promise<Answered<string>>;
}

/** Asks before a change, in a dialog that keeps the focus; then says how it went. */
export function Confirm({
  of,
  onClose,
}: {
  readonly of: Confirmation;
  readonly onClose: (isDone: boolean) => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  const [result, setResult] = useState<Answered<string>>();
  const [isRunning, setRunning] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const isDone = result?.kind === 'done';
  const close = (): void => dialog.current?.close();
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setRunning(true);
    setResult(await of.run());
    setRunning(false);
  };
  return (
    <dialog ref={dialog} aria-labelledby={title} onClose={() => onClose(isDone)}>
      <form onSubmit={submit}>
        <h2 id={title}>{of.title}</h2>
        {isDone ? null : of.children}
        <p role="status" class={result?.kind === 'refused' ? 'notice notice-bad' : ''}>
          {result === undefined ? '' : result.kind === 'done' ? result.value : result.detail}
        </p>
        <p class="buttons">
          {isDone ? null : (
            <button type="submit" class={of.isDangerous ? 'danger' : 'primary'} disabled={isRunning}>
              {isRunning ? 'Working…' : of.action}
            </button>
          )}
          <button type="button" onClick={close}>
            {isDone ? 'Done' : 'Leave it'}
          </button>
        </p>
      </form>
    </dialog>
  );
}

/** A button that opens a confirmation; nothing in a dashboard that may only read. */
export function ActionButton({
  label,
  describe,
  confirm,
  onDone,
}: {
  readonly label: string;
  /** What it acts on, for readers of the button alone. */
  readonly describe?: string;
  readonly confirm: () => Confirmation;
  readonly onDone?: () => void;
}) {
  const { write } = useSession();
  // The dialog is made once, when it opens, so that what is typed into it outlives later reads of the page.
  const [asked, setAsked] = useState<Confirmation>();
  const button = useRef<HTMLButtonElement>(null);
  if (!write) return null;
  return (
    <>
      <button type="button" ref={button} onClick={() => setAsked(confirm())}>
        {label}
        {describe === undefined ? null : <span class="unseen"> {describe}</span>}
      </button>
      {asked === undefined ? null : (
        <Confirm
          of={asked}
          onClose={(isDone) => {
            setAsked(undefined);
            button.current?.focus();
            if (isDone) onDone?.();
          }}
        />
      )}
    </>
  );
}

/** Sends a change, and says how it went in these words. */
export async function change<Value>(
  path: string,
  body: object,
  words: (value: Value) => string,
): Promise<Answered<string>> {
  const answer = await post<Value>(`/api${path}`, body);
  return answer.kind === 'done' ? { kind: 'done', value: words(answer.value) } : answer;
}

export function Field({
  label,
  children,
}: {
  readonly label: string;
  readonly children: (id: string) => ComponentChildren;
}) {
  const id = useId();
  return (
    <p class="field">
      <label for={id}>{label}</label>
      {children(id)}
    </p>
  );
}
