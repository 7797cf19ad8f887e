/** Requests of the page: reads that are repeated while the page is visible, and changes. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

/** The answer to a request. */
export type Answered<Value> =
  | { readonly kind: 'done'; readonly value: Value }
  | { readonly kind: 'refused'; readonly status: number; readonly detail: string };

async function ask<Value>(path: string, init: RequestInit): Promise<Answered<Value>> {
  try {
    const response = await fetch(path, { credentials: 'same-origin', cache: 'no-store', ...init });
    const body: unknown = await response.json();
    if (response.ok) return { kind: 'done', value: body as Value };
    const detail: unknown = typeof body === 'object' && body !== null ? Reflect.get(body, 'detail') : '';
    return { kind: 'refused', status: response.status, detail: String(detail) };
  } catch {
    return { kind: 'refused', status: 0, detail: 'the server does not answer; is fairlead still running?' };
  }
}

export const get = <Value>(path: string, signal?: AbortSignal): Promise<Answered<Value>> =>
  ask(`/api${path}`, signal === undefined ? {} : { signal });

/** Sends a change, or a question that has a body. */
export const post = <Value>(path: string, body: object): Promise<Answered<Value>> =>
  ask(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-fairlead-dashboard': '1' },
    body: JSON.stringify(body),
  });

/** The knowledge of a read. The last value stays while a later read fails. */
export interface Live<Value> {
  readonly value?: Value;
  /** When the value was read, epoch ms. */
  readonly atMs?: number;
  /** Why the last read failed. */
  readonly problem?: { readonly status: number; readonly detail: string };
  readonly reload: () => void;
}

interface Read<Value> {
  readonly path: string | undefined;
  readonly value?: Value;
  readonly atMs?: number;
  readonly problem?: { readonly status: number; readonly detail: string };
}

/**
 * Reads a path, and again after each interval while the page is visible. An interval of 0 reads it once. No path reads
 * nothing.
 */
export function useLive<Value>(path: string | undefined, everyMs = 0): Live<Value> {
  const [read, setRead] = useState<Read<Value>>({ path });
  const again = useRef<() => void>(() => {});
  useEffect(() => {
    if (path === undefined) return;
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isReading = false;
    const load = async (): Promise<void> => {
      clearTimeout(timer);
      if (isReading || ended.signal.aborted) return;
      isReading = true;
      const answer = await get<Value>(path, ended.signal);
      isReading = false;
      if (ended.signal.aborted) return;
      setRead((before) =>
        answer.kind === 'done'
          ? { path, value: answer.value, atMs: Date.now() }
          : { ...(before.path === path ? before : {}), path, problem: answer },
      );
      if (everyMs > 0 && !document.hidden) timer = setTimeout(load, everyMs);
    };
    const onVisibility = (): void => {
      if (document.hidden) clearTimeout(timer);
      else if (everyMs > 0) void load();
    };
    again.current = () => void load();
    document.addEventListener('visibilitychange', onVisibility);
    void load();
    return () => {
      ended.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisibility);
    };
  }, [path, everyMs]);
  const reload = useCallback(() => again.current(), []);
  const { path: _path, ...known } = read.path === path ? read : { path };
  return { ...known, reload };
}
