import { useEffect, type RefObject } from 'react';

/** Marks a region with `data-fits` while it shows the whole width of its table: nothing scrolls sideways. */
export function useFits(region: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const box = region.current;
    const table = box?.querySelector('table');
    if (!box || !table) return undefined;
    const observer = new ResizeObserver(() => {
      box.toggleAttribute('data-fits', table.offsetWidth <= box.clientWidth);
    });
    observer.observe(box);
    observer.observe(table);
    return () => observer.disconnect();
  }, [region]);
}
