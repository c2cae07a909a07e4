import { createSignal } from '~/lib/signal.ts';

/** How often the palette was requested: the first request loads it. */
export const paletteRequests = createSignal(0);

export function openPalette(): void {
  paletteRequests.set(paletteRequests.get() + 1);
}
