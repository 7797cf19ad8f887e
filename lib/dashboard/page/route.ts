/** The place of the page: its path and its filters, both in the address. */
import { useEffect, useState } from 'preact/hooks';

export interface Place {
  readonly path: string;
  readonly query: URLSearchParams;
}

const here = (): Place => ({ path: location.pathname, query: new URLSearchParams(location.search) });
const watchers = new Set<() => void>();

/** Goes to an address of the page. */
export function go(href: string, how: 'push' | 'replace' = 'push'): void {
  history[how === 'push' ? 'pushState' : 'replaceState'](null, '', href);
  for (const watch of watchers) watch();
}

/** Follows links of the page without loading it again. */
export function followLinks(): void {
  addEventListener('popstate', () => {
    for (const watch of watchers) watch();
  });
  addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    const isPlain =
      event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (link === null || !isPlain || link.origin !== location.origin || link.hash !== '') return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const watch = (): void => setPlace(here());
    watchers.add(watch);
    return () => void watchers.delete(watch);
  }, []);
  return place;
}

/** Returns a query with the parameters that have a value. */
export function queryText(parameters: Readonly<Record<string, string | number | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined && value !== '') query.append(name, String(value));
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

export const jobHref = (id: string): string => `/jobs/${encodeURIComponent(id)}`;
