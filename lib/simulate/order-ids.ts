import { type AnyId, compareIds } from './scenario-file.ts';

/**
 * Names for a scenario's ids that sort as strings in the order of the ids, because the core's ids are strings and 10
 * must not come before 9.
 */
export function orderedNames(ids: readonly AnyId[]): ReadonlyMap<AnyId, string> {
  return namesInOrder(ids.toSorted(compareIds));
}

/** Names that sort as strings in the order of the list. */
export function namesInOrder(ids: readonly AnyId[]): ReadonlyMap<AnyId, string> {
  const width = String(ids.length).length;
  return new Map(ids.map((id, index) => [id, `${String(index).padStart(width, '0')}/${id}`]));
}
