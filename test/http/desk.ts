/** The HTTP app over a scheduler in memory. */
import type { Hono } from 'hono';
import { type HttpAppOptions, httpApp } from '../../lib/http/app.ts';
import { type Desk, desk } from '../client/desk.ts';
import type { StageOptions } from '../stage/stage.ts';

export interface HttpDesk extends Desk {
  readonly app: Hono;
  /** Sends a request; a body is sent as JSON. */
  readonly send: (
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ) => Promise<Sent>;
}

export interface Sent {
  readonly status: number;
  readonly headers: Headers;
  // Tests read what they expect.
  readonly body: Readonly<Record<string, never>>;
}

export function httpDesk(options: StageOptions = {}, own: Partial<HttpAppOptions> = {}): HttpDesk {
  const scene = desk(options);
  const app = httpApp({ client: scene.client, ...own });
  return {
    ...scene,
    app,
    send: async (method, path, body, headers = {}) => {
      const response = await app.request(path, {
        method,
        headers: { 'content-type': 'application/json', ...headers },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      return {
        status: response.status,
        headers: response.headers,
        body: JSON.parse(text === '' ? '{}' : text),
      };
    },
  };
}
