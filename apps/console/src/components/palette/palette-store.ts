import { createSpotlight } from '@mantine/spotlight';

/** The command palette's switch. */
export const [paletteStore, palette] = createSpotlight();

export function openPalette(): void {
  palette.open();
}
