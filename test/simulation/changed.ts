/** Sources that are changed as they are loaded. */
import { registerHooks } from 'node:module';
import type { Change } from './planted-bug.ts';

const ROOT = new URL('../../', import.meta.url);

/** The file's address. */
const urlOf = ({ file }: Change): string => new URL(file, ROOT).href;

/** @throws RangeError if what is to be changed is not there, or not once */
export function changeSource(source: string, change: Change): string {
  if ('change' in change) return change.change(source);
  const { file, from, to } = change;
  const parts = source.split(from);
  if (parts.length !== 2)
    throw new RangeError(
      `${file} has ${JSON.stringify(from)} ${parts.length - 1} times; a planted bug needs a text that stands there once`,
    );
  return parts.join(to);
}

/** From now on, this process loads these sources changed. What it has loaded before stays as it is. */
export function changeSources(changes: readonly Change[]): void {
  registerHooks({
    load: (url, context, nextLoad) => {
      const loaded = nextLoad(url, context);
      const own = changes.filter((change) => urlOf(change) === url);
      if (own.length === 0 || loaded.source === undefined || loaded.source === null) return loaded;
      const text =
        typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source);
      return { ...loaded, source: own.reduce(changeSource, text) };
    },
  });
}
