import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createHash } from 'node:crypto';
import footnotes from 'markdown-it-footnote';
import { defineConfig, type DefaultTheme, type UserConfig } from 'vitepress';
import { INSIDE, packageFolderOf } from '../../../tools/build/inside.mjs';
import { anchorOf, readAsSite } from '../src/markdown.ts';
import { addressOf, sections, type Section } from '../src/pages.ts';
import { ROOT } from '../src/root.ts';

type Plugin = Extract<
  NonNullable<NonNullable<UserConfig['vite']>['plugins']>[number],
  { readonly name: string }
>;

const BASE = '/docs/';
const all = sections();
const pages = all.flatMap((section) => section.pages);

/** Scripts that the generator writes into pages; the console's policy allows only files. */
const scripts = new Map<string, string>();

function sidebarOf({ text, isFolded, pages: items }: Section): DefaultTheme.SidebarItem {
  return {
    text,
    collapsed: isFolded === true,
    items: items.map((page) => ({ text: page.text, link: addressOf(page) })),
  };
}

/** Lists the packages of others that pages load, as the bundles of the programs do: who ships them names them. */
function insideList(): Plugin {
  const sizes = new Map<string, number>();
  return {
    name: 'inside-list',
    generateBundle(_options, bundle) {
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== 'chunk') continue;
        for (const [id, { renderedLength }] of Object.entries(chunk.modules)) {
          const folder = packageFolderOf(path.relative(ROOT, id.replace('\0', '')));
          if (folder !== undefined) sizes.set(folder, (sizes.get(folder) ?? 0) + renderedLength);
        }
      }
    },
    async closeBundle() {
      const list = JSON.stringify(Object.fromEntries([...sizes].sort()), null, 2);
      await mkdir('dist', { recursive: true });
      await writeFile(path.join('dist', INSIDE), `${list}\n`);
    },
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
    config: (parser) => {
      parser.use(footnotes);
      readAsSite(parser, pages);
    },
  },
  vite: {
    publicDir: path.resolve('public'),
    build: { chunkSizeWarningLimit: 3_000 },
    plugins: [insideList()],
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
    search: { provider: 'local' },
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
