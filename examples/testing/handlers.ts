/** The shop's handlers. They get what they call, so that a test can pass something else. */
import type { HandlersOf } from '../../lib/worker/handlers.ts';
import type { jobs } from './jobs.ts';

export interface Shop {
  /** Moves money once for each key, however often it is called. */
  readonly move: (account: string, cents: number, idempotencyKey: string) => Promise<string>;
  readonly printPage: (account: string, page: number) => Promise<void>;
}

export const handlersOf = (shop: Shop): HandlersOf<typeof jobs> => ({
  charge: async ({ account, cents }, ctx) => ({ receipt: await shop.move(account, cents, ctx.id) }),
  refund: ({ account, cents }, ctx) => shop.move(account, -cents, ctx.id),
  statement: async ({ account, pages }, ctx) => {
    const done = (ctx.lastCheckpoint as { readonly page: number } | undefined)?.page ?? 0;
    for (let page = done + 1; page <= pages; page += 1) {
      ctx.signal.throwIfAborted();
      await shop.printPage(account, page);
      await ctx.checkpoint({ page });
    }
    return { pages };
  },
});
