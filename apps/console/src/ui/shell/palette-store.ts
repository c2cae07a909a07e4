import { createSignal } from '~/lib/signal.ts';
import { beginTypeAhead } from './type-ahead.ts';

/** How often the palette was requested: the first request loads it. */
export const paletteRequests = createSignal(0);

export function openPalette(): void {
  beginTypeAhead();
  paletteRequests.set(paletteRequests.get() + 1);
}
