/** Calls back whenever the colours of the page change: another scheme, or forced colours. @returns what ends it. */
export function watchTheme(onChange: () => void): () => void {
  const scheme = new MutationObserver(onChange);
  scheme.observe(document.documentElement, { attributeFilter: ['data-mantine-color-scheme'] });
  const forced = matchMedia('(forced-colors: active)');
  forced.addEventListener('change', onChange);
  return () => {
    scheme.disconnect();
    forced.removeEventListener('change', onChange);
  };
}
