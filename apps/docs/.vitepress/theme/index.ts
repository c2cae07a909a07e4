import '@fontsource/ibm-plex-mono/latin-400.css';
import '@fontsource/ibm-plex-sans/latin-400.css';
import '@fontsource/ibm-plex-sans/latin-500.css';
import '@fontsource/ibm-plex-sans/latin-600.css';
import theme from 'vitepress/theme-without-fonts';
import { h } from 'vue';
import './colours.css';
import './diagrams.css';

export default {
  extends: theme,
  Layout: () =>
    h(theme.Layout, null, {
      // No link of the site: the console is another program at the same origin.
      'nav-bar-content-after': () =>
        h('a', { class: 'to-console', href: '/', target: '_self' }, 'Console'),
    }),
};
