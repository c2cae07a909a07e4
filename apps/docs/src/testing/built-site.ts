/** The site as it was built, for tests that read it. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import MiniSearch, { type SearchResult } from 'minisearch';

export const SITE = path.join(import.meta.dirname, '../../dist/site');
export const BASE = '/docs/';

/** A page with what links to and from it. */
export interface BuiltPage {
  /** Its address: `/docs/guides/`. */
  readonly address: string;
  readonly html: string;
  /** Where its links lead, as they are written. */
  readonly links: readonly string[];
  readonly anchors: ReadonlySet<string>;
}

/** Every page but the one for addresses that do not exist. */
export function builtPages(): BuiltPage[] {
  const files = readdirSync(SITE, { recursive: true, encoding: 'utf8' });
  return files
    .filter((file) => file.endsWith('.html') && file !== '404.html')
    .map((file) => {
      const html = readFileSync(path.join(SITE, file), 'utf8');
      return {
        address: BASE + file.replace(/(?:(?<=^|\/)index)?\.html$/u, ''),
        html,
        links: attributes(html, 'href'),
        anchors: new Set(attributes(html, 'id')),
      };
    });
}

/** The values of an attribute, in the order of the page. */
export function attributes(html: string, name: string): string[] {
  const found = html.matchAll(new RegExp(`(?<= )${name}="([^"]*)"`, 'gu'));
  return [...found].map(([, value = '']) => value.replaceAll('&amp;', '&'));
}

/** Searches as the box on the site does, with its index. */
export async function openSearch(): Promise<(words: string) => SearchResult[]> {
  const folder = path.join(SITE, 'assets/chunks');
  const name = readdirSync(folder).find((file) => file.startsWith('@localSearchIndex')) ?? '';
  const { default: text } = (await import(pathToFileURL(path.join(folder, name)).href)) as {
    default: string;
  };
  const index = MiniSearch.loadJSON(text, {
    fields: ['title', 'titles', 'text'],
    storeFields: ['title', 'titles'],
    searchOptions: { fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } },
  });
  return (words) => index.search(words);
}
