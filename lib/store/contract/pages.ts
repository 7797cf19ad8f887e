/** Yields all answers of a paged read, one by one. */
export async function* pagesOf<Cursor, Page extends { readonly next?: Cursor | undefined }>(
  read: (after: Cursor | undefined) => Promise<Page>,
): AsyncGenerator<Page> {
  let after: Cursor | undefined;
  do {
    const page = await read(after);
    yield page;
    after = page.next;
  } while (after !== undefined);
}
