import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createHash } from 'node:crypto';
import { defineConfig, type DefaultTheme } from 'vitepress';
import { anchorOf, insideList, readAsSite } from '../src/markdown.ts';
import { addressOf, listedPages, sections, type Section } from '../src/pages.ts';

const BASE = '/docs/';
const all = sections();
const pages = all.flatMap((section) => section.pages);

/** Scripts that the generator writes into pages; the console's policy allows only files. */
const scripts = new Map<string, string>();

function sidebarOf(section: Section): DefaultTheme.SidebarItem {
  return {
    text: section.text,
    items: listedPages(section).map((page) => ({ text: page.text, link: addressOf(page) })),
  };
}

export default defineConfig({
  base: BASE,
  lang: 'en',
  title: 'Leasehold',
  titleTemplate: ':title · Leasehold',
  description: 'Who holds a key right now, and until when.',
  srcDir: '.stage',
  outDir: 'dist/site',
  cacheDir: '.stage/.cache',
  cleanUrls: true,
  // In every page it would change all pages with one.
  metaChunk: true,
  head: [['link', { rel: 'icon', href: `${BASE}icon.svg`, type: 'image/svg+xml' }]],
  markdown: {
    anchor: { slugify: anchorOf },
    // Comments in code keep a contrast of 4.5:1 on the site's grounds.
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    config: (parser) => {
      readAsSite(parser, pages);
    },
  },
  vite: {
    publicDir: path.resolve('public'),
    build: { chunkSizeWarningLimit: 3_000 },
    plugins: [insideList('dist')],
  },
  transformHtml: (html) =>
    html.replaceAll(/<script(?: id="[\w-]+")?>(.*?)<\/script>/gsu, (_all, code: string) => {
      const name = `assets/start.${createHash('sha256').update(code).digest('hex').slice(0, 8)}.js`;
      scripts.set(name, code);
      return `<script src="${BASE}${name}"></script>`;
    }),
  async buildEnd({ outDir }) {
    await mkdir(path.join(outDir, 'assets'), { recursive: true });
    for (const [name, code] of scripts) await writeFile(path.join(outDir, name), code);
  },
  themeConfig: {
    siteTitle: 'Leasehold',
    outline: [2, 3],
    search: { provider: 'local', options: { detailedView: true } },
    externalLinkIcon: true,
    docFooter: { prev: 'Before', next: 'After' },
    nav: [
      { text: 'Quick start', link: '/quick-start' },
      { text: 'Guides', link: '/guides/' },
      { text: 'Reference', link: '/reference/procedures' },
      { text: 'Runbook', link: '/operate/runbook' },
    ],
    sidebar: all.map(sidebarOf),
  },
});
