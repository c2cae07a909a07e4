import { useSyncExternalStore } from 'react';

const subscribeToNothing = () => () => undefined;

/**
 * Whether the browser takes over what the server has rendered. After a reload in the middle of a page
 * the browser has scrolled already, which the server cannot know: both must begin with the same rows.
 */
export function useIsHydrating(): boolean {
  return useSyncExternalStore(
    subscribeToNothing,
    () => false,
    () => true,
  );
}
