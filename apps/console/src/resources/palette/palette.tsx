import { useHotkeys } from '@mantine/hooks';
import dynamic from 'next/dynamic';
import { useSignal } from '~/lib/signal.ts';
import { openPalette, paletteRequests } from '~/ui/shell/palette-store.ts';

const PaletteDialog = dynamic(
  () => import('./palette-dialog.tsx').then((module) => module.PaletteDialog),
  { ssr: false },
);

/** Ctrl K from anywhere, also while typing. */
export function Palette() {
  const requests = useSignal(paletteRequests);
  useHotkeys([['mod+K', openPalette]], []);
  return requests === 0 ? null : <PaletteDialog requests={requests} />;
}
