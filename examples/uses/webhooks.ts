/** Webhooks to customers. An endpoint that answers 429 rests for as long as it says, and holds up no other customer. */
import { defineJobs, job } from 'fairlead/jobs';
import { cooldownFrom, type HandlersOf, PermanentError } from 'fairlead/worker';

export const jobs = defineJobs({
  webhook: job<{ customer: string; url: string; body: string }, { status: number }>({
    fairnessKey: ({ customer }) => customer,
  }),
});

export const declaration = {
  types: {
    webhook: { timeoutMs: '30s', retry: { maxAttempts: 5, delayMs: '5s' }, limits: ['calls'] },
  },
  limits: { calls: { perKey: 2, rate: { starts: 600, per: '1m', perKey: 60 } } },
  fleets: { webhooks: { types: ['webhook'], slots: 10 } },
} as const;

export type Post = (
  url: string,
  body: string,
  options: { readonly idempotencyKey: string; readonly signal: AbortSignal },
) => Promise<Response>;

export const handlersOf = (post: Post): HandlersOf<typeof jobs> => ({
  webhook: async ({ url, body }, { id, signal }) => {
    const response = await post(url, body, { idempotencyKey: id, signal });
    const { status } = response;
    if (response.ok) return { status };
    // The customer's other webhooks rest, too. No attempt is counted.
    const cooldown = cooldownFrom(response, { key: true });
    if (cooldown !== undefined) throw cooldown;
    if (status >= 500) throw new Error(`${url} answered ${status}`);
    throw new PermanentError(`${url} answered ${status}`);
  },
});
