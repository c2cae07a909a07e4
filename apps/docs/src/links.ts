/**
 * Where the links of a document lead on the site. In the documents they are relative paths, so that they work where
 * the repository is read, too.
 */
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { addressOf, documentOf, isWritten, type Page } from './pages.ts';
import { ROOT } from './root.ts';

/** What becomes of a link. `unlinked`: to a file of the sources, which the site does not have. */
export type Resolved =
  | { readonly kind: 'kept' }
  | { readonly kind: 'page'; readonly href: string }
  | { readonly kind: 'unlinked' };

/** Finds where the links of documents lead. */
export function createLinks(pages: readonly Page[]) {
  const bySource = new Map(
    pages.flatMap((page) => {
      const source = documentOf(page);
      return source === undefined ? [] : [[source, addressOf(page)] as const];
    }),
  );
  return {
    /** The file that the page of an address was made from, if it is written by hand. */
    sourceOf: new Map(pages.filter(isWritten).map(({ source, to }) => [`${to}.md`, source])),

    /** @throws {Error} when there is nothing at the place that the link names. */
    resolve(href: string, source: string): Resolved {
      if (/^(?:[a-z][a-z+.-]*:|\/\/|#)/u.test(href)) return { kind: 'kept' };
      const [place = '', anchor] = href.split('#');
      const file = documentAt(path.posix.join(path.posix.dirname(source), place));
      if (file === undefined) throw new Error(`${source} links to ${href}: there is no such file`);
      const address = bySource.get(file);
      if (address === undefined) return { kind: 'unlinked' };
      return { kind: 'page', href: anchor === undefined ? address : `${address}#${anchor}` };
    },
  };
}

/** A folder stands for the document that introduces it. */
function documentAt(place: string): string | undefined {
  const absolute = path.join(ROOT, place);
  if (!existsSync(absolute)) return undefined;
  if (!statSync(absolute).isDirectory()) return place;
  const readme = path.posix.join(place, 'README.md');
  return existsSync(path.join(ROOT, readme)) ? readme : place;
}
