/** Sources that are changed as they are loaded. */
import { registerHooks } from 'node:module';
import type { Mutation } from './mutation.ts';

const ROOT = new URL('../../', import.meta.url);

/** The file's address. */
const urlOf = ({ file }: Mutation): string => new URL(file, ROOT).href;

/** From now on, this process loads these sources changed. What it has loaded before stays as it is. */
export function changeSources(changes: readonly Mutation[]): void {
  registerHooks({
    load: (url, context, nextLoad) => {
      const loaded = nextLoad(url, context);
      const own = changes.filter((each) => urlOf(each) === url);
      if (own.length === 0 || loaded.source === undefined || loaded.source === null) return loaded;
      const text =
        typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source);
      return { ...loaded, source: own.reduce((source, each) => each.change(source), text) };
    },
  });
}
