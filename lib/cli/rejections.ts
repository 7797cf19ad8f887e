/** The commands that show entries of events which were refused. */
import type { Command } from 'commander';
import { NotFoundError } from '../client/errors.ts';
import { REQUEST_LIMITS } from '../submit/request.ts';
import { type CommonOptions, type Operator, perform, withCommonOptions } from './perform.ts';
import { LIMIT, limitOf } from './usage.ts';
import { rejectionsText, rejectionText } from './views.ts';

/** The most entries of one event. */
const REJECTIONS_OF_EVENT = REQUEST_LIMITS.jobsPerEvent;

/** The first values, and whether there are more. */
export async function firstValues<Value>(
  limit: number,
  values: AsyncIterable<Value>,
): Promise<{ readonly values: readonly Value[]; readonly more: boolean }> {
  const read: Value[] = [];
  for await (const value of values) {
    if (read.length === limit) return { values: read, more: true };
    read.push(value);
  }
  return { values: read, more: false };
}

export function addRejections(program: Command, operator: Operator): void {
  const { signal } = operator;
  const rejections = program
    .command('rejections')
    .description('Show refused entries of events, of the last 30 days.');
  withCommonOptions(
    rejections
      .command('list')
      .description('List them, latest first.')
      .option('--limit <number>', 'at most this many', LIMIT),
  ).action((options: CommonOptions & { readonly limit: string }) => {
    const limit = limitOf(options.limit);
    return perform(operator, options, async (client) => {
      const { values, more } = await firstValues(limit, client.rejections({}, { signal }));
      return { data: { rejections: values, more }, text: (width) => rejectionsText(values, more, width) };
    });
  });
  withCommonOptions(
    rejections
      .command('show')
      .description('Show the refused entries of one event: the reasons, and what was sent.')
      .argument('<event>', 'the id of the event'),
  ).action((eventId: string, options: CommonOptions) =>
    perform(operator, options, async (client) => {
      const { values } = await firstValues(REJECTIONS_OF_EVENT, client.rejections({ eventId }, { signal }));
      if (values.length === 0)
        throw new NotFoundError({
          eventId,
        });
      return { data: { rejections: values }, text: rejectionText(values) };
    }),
  );
}
