/** What can go wrong with the bus. An event that was not accepted is a value in the answer. */

/** The bus, or the right to put events on it, is missing: waiting does not help. */
export class BusMisconfigured extends Error {
  override readonly name = 'BusMisconfigured';
}
