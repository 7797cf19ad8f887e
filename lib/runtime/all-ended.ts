/**
 * Resolves and rejects as `Promise.all` does, but only once each of them has ended: after an error of one, none of the
 * others runs on unseen.
 */
export async function allEnded<const Work extends readonly unknown[]>(
  work: Work,
): Promise<{ -readonly [At in keyof Work]: Awaited<Work[At]> }> {
  await Promise.allSettled(work);
  return Promise.all(work) as Promise<{ -readonly [At in keyof Work]: Awaited<Work[At]> }>;
}
