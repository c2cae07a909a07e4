import { createSignal } from '~/lib/signal.ts';

/** How often the palette has been asked for: it is loaded when it is asked for first. */
export const paletteRequests = createSignal(0);

export function openPalette(): void {
  paletteRequests.set(paletteRequests.get() + 1);
}
