/** Errors of the bus. An event that was not accepted is not an error but a returned value. */

/** The bus, or the permission to put events on it, is missing. Waiting does not help. */
export class BusMisconfigured extends Error {
  override readonly name = 'BusMisconfigured';
}
