/** The page: opens the session, and shows the screen of the address. */
import { type ComponentChildren, render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, post } from './api.ts';
import { Failures } from './failures.tsx';
import { Fleets } from './fleets.tsx';
import { OneJob } from './job.tsx';
import { Jobs } from './jobs.tsx';
import { Keys } from './keys.tsx';
import { Limits } from './limits.tsx';
import { Now } from './now.tsx';
import { type Session, SessionContext } from './parts.tsx';
import { followLinks, go, jobHref, type Place, usePlace } from './route.ts';
import { Schedules } from './schedules.tsx';

interface Screen {
  readonly path: string;
  readonly name: string;
  readonly show: () => ComponentChildren;
}

const SCREENS: readonly Screen[] = [
  { path: '/', name: 'Now', show: () => <Now /> },
  { path: '/keys', name: 'Who gets what', show: () => <Keys /> },
  { path: '/jobs', name: 'Jobs', show: () => <Jobs /> },
  { path: '/limits', name: 'Limits and locks', show: () => <Limits /> },
  { path: '/fleets', name: 'Fleets', show: () => <Fleets /> },
  { path: '/schedules', name: 'Schedules', show: () => <Schedules /> },
  { path: '/failures', name: 'Failures and refusals', show: () => <Failures /> },
];

interface Shown {
  readonly title: string;
  readonly path: string;
  readonly children: ComponentChildren;
}

function shownAt({ path, query }: Place): Shown {
  if (path.startsWith('/jobs/')) {
    const id = idIn(path.slice('/jobs/'.length));
    return { title: `Job ${id}`, path: '/jobs', children: <OneJob key={id} id={id} /> };
  }
  const screen = SCREENS.find((each) => each.path === path);
  if (screen === undefined)
    return { title: 'Not found', path, children: <p>The dashboard has no such page.</p> };
  const id = path === '/schedules' ? query.get('id') : null;
  return { title: id === null ? screen.name : `Schedule ${id}`, path, children: screen.show() };
}

/** The id as it was before it stood in the address. */
function idIn(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function App({ session }: { readonly session: Session }) {
  const place = usePlace();
  const { title, path, children } = shownAt(place);
  const heading = useRef<HTMLHeadingElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${title} · Fairlead`;
    // A screen reader hears of the new screen, and the keyboard goes on from its beginning.
    if (!isFirst.current) heading.current?.focus();
    isFirst.current = false;
  }, [title]);
  return (
    <SessionContext.Provider value={session}>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header>
        <a class="brand" href="/">
          <img src="/assets/icon.svg" alt="" width="22" height="22" /> Fairlead
        </a>
        <nav aria-label="Screens">
          <ul>
            {SCREENS.map((each) => (
              <li key={each.path}>
                <a href={each.path} aria-current={each.path === path ? 'page' : undefined}>
                  {each.name}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <Find />
        <p class="who">
          {session.write ? 'May change' : 'Read-only'}
          <span title="Changes stand in the history of a job under this name">{session.actor}</span>
        </p>
      </header>
      <main id="content" tabIndex={-1}>
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {children}
      </main>
    </SessionContext.Provider>
  );
}

function Find() {
  const submit = (event: Event & { readonly currentTarget: HTMLFormElement }): void => {
    event.preventDefault();
    const id = String(new FormData(event.currentTarget).get('id') ?? '').trim();
    if (id !== '') go(jobHref(id));
  };
  return (
    <search>
      <form class="find" onSubmit={submit}>
        <label for="find">Job id</label>
        <input id="find" name="id" autocomplete="off" spellcheck={false} />
        <button type="submit">Open</button>
      </form>
    </search>
  );
}

function Locked({ detail }: { readonly detail: string }) {
  return (
    <main>
      <h1>Fairlead</h1>
      <p class="notice notice-bad" role="alert">
        {detail}
      </p>
      <p>
        Run <code>fairlead dashboard</code> and open the link that it prints. A link opens one session; other
        tabs of the same browser share it.
      </p>
    </main>
  );
}

function Begin() {
  const [state, setState] = useState<{ readonly session: Session } | { readonly detail: string }>();
  useEffect(() => {
    void begin().then(setState);
  }, []);
  if (state === undefined) return null;
  return 'session' in state ? <App session={state.session} /> : <Locked detail={state.detail} />;
}

/** Exchanges the token of the link for a session. The token leaves the address at once. */
async function begin(): Promise<{ readonly session: Session } | { readonly detail: string }> {
  const token = location.hash.slice(1);
  if (token !== '' && token !== 'content') {
    history.replaceState(null, '', location.pathname + location.search);
    await post('/session', { token });
  }
  // An earlier session may be open, also if the link was used before.
  const answer = await get<Session>('/session');
  return answer.kind === 'done' ? { session: answer.value } : { detail: answer.detail };
}

followLinks();
const page = document.getElementById('page');
if (page !== null) render(<Begin />, page);
