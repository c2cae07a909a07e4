/** The site as it was built: `npm run build` comes before. */
import { readdirSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { COMMAND_ERROR_CODES, ERROR_CODES } from '@leasehold/keys-core';
import { describedMetrics } from '../../controller/src/metrics.ts';
import { addressOf, listedPages, sections } from './pages.ts';
import {
  attributes,
  BASE,
  builtPages,
  openSearch,
  SITE,
  type BuiltPage,
} from './testing/built-site.ts';

let pages: readonly BuiltPage[];
let byAddress: ReadonlyMap<string, BuiltPage>;
let files: ReadonlySet<string>;
beforeAll(() => {
  pages = builtPages();
  files = new Set(readdirSync(SITE, { recursive: true, encoding: 'utf8' }));
  byAddress = new Map(pages.map((page) => [page.address, page]));
});

/** What is wrong with the links of a page. */
function problemsOf({ address, links }: BuiltPage): string[] {
  return links.flatMap((link) => {
    const { origin, pathname, hash } = new URL(link, `http://site${address}`);
    // Of the console, or of another site.
    if (origin !== 'http://site' || pathname === '/') return [];
    const target = byAddress.get(pathname);
    if (target === undefined) {
      const isFile = pathname.startsWith(BASE) && files.has(pathname.slice(BASE.length));
      return isFile ? [] : [`${address} links to ${link}, which does not exist`];
    }
    const anchor = decodeURIComponent(hash.slice(1));
    const isThere = anchor === '' || target.anchors.has(anchor);
    return isThere ? [] : [`${address} links to ${link}, which has no such heading`];
  });
}

describe('the pages', () => {
  test('are those of the navigation, each once', () => {
    const listed = sections().flatMap((section) => section.pages.map(addressOf));

    expect(listed.length).toBeGreaterThan(80);
    expect(new Set(listed).size).toBe(listed.length);
    expect([...byAddress.keys()].sort()).toEqual(
      listed.map((address) => BASE + address.slice(1)).sort(),
    );
  });

  test('that the navigation lists can be reached from each', () => {
    const listed = sections().flatMap((section) => listedPages(section).map(addressOf));
    for (const { html } of pages) {
      const [navigation = ''] = /<nav [^>]*id="VPSidebarNav".*?<\/nav>/su.exec(html) ?? [];
      const links = new Set(attributes(navigation, 'href'));
      expect(listed.filter((address) => !links.has(BASE + address.slice(1)))).toEqual([]);
    }
  });

  test('link only to pages, files and headings that exist', () => {
    const all = pages.flatMap(({ links }) => links);

    expect(all.filter((link) => link.includes('#')).length).toBeGreaterThan(500);
    expect(pages.flatMap(problemsOf)).toEqual([]);
  });

  test('a link to a page or a heading that does not exist is found', () => {
    const page = { address: `${BASE}guides/`, html: '', anchors: new Set<string>() };

    expect(
      problemsOf({ ...page, links: ['/docs/nowhere', '/docs/operate/runbook#nothing'] }),
    ).toEqual([
      '/docs/guides/ links to /docs/nowhere, which does not exist',
      '/docs/guides/ links to /docs/operate/runbook#nothing, which has no such heading',
    ]);
  });

  test('have no script of their own, and load nothing from other sites', () => {
    const scripts = pages.flatMap(({ html }) => html.match(/<script(?![^>]* src=)[^>]*>/gu) ?? []);
    const loaded = pages.flatMap(({ html }) => [
      ...attributes(html, 'src'),
      ...[...html.matchAll(/<link [^>]*href="([^"]*)"/gu)].map(([, href = '']) => href),
    ]);

    expect(scripts).toEqual([]);
    expect(loaded.length).toBeGreaterThan(pages.length);
    expect(loaded.filter((address) => !address.startsWith(BASE))).toEqual([]);
  });

  test('have a drawing for each concept that has one, and say in words what it shows', () => {
    for (const name of ['ladder', 'takeover', 'fencing', 'chains']) {
      const { html = '' } = byAddress.get(`${BASE}concepts/${name}`) ?? {};
      expect(html).toContain(`aria-labelledby="${name}-title ${name}-desc"`);
      expect(html).toContain(`id="${name}-desc"`);
    }
  });
});

describe('the search', () => {
  let search: Awaited<ReturnType<typeof openSearch>>;
  beforeAll(async () => {
    search = await openSearch();
  });

  const found = (words: string, count: number): string[] =>
    search(words)
      .slice(0, count)
      .map(({ id }) => String(id));

  test('finds every error code, its explanation among the first ten', () => {
    const codes = [...Object.keys(ERROR_CODES), ...Object.keys(COMMAND_ERROR_CODES)];

    const lost = codes.filter(
      (code) => !found(code, 10).includes(`${BASE}reference/errors#${code.replaceAll('.', '')}`),
    );

    expect(codes.length).toBeGreaterThan(60);
    expect(lost).toEqual([]);
  });

  test('finds every metric, its explanation among the first ten', () => {
    const names = describedMetrics().map(({ name }) => name);

    const lost = names.filter(
      (name) => !found(name, 10).includes(`${BASE}reference/metrics#${name}`),
    );

    expect(names.length).toBeGreaterThan(25);
    expect(lost).toEqual([]);
  });

  test.each([
    ['fencing', '/docs/concepts/fencing'],
    ['LEASEHOLD_TRUSTED_PROXIES', '/docs/reference/configuration'],
    ['several datacenters', '/docs/guides/several-datacenters'],
    ['leasehold leases run', '/docs/reference/commands'],
    ['zookeeper', '/docs/comparison'],
  ])('finds %s among the first five', (words, address) => {
    expect(found(words, 5).map((id) => id.replace(/#.*/u, ''))).toContain(address);
  });
});
