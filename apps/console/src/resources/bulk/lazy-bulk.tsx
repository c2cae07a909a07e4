import dynamic from 'next/dynamic';
import type { GrantFace } from '~/resources/grant-view.ts';
import { Foot } from '~/ui/states.tsx';
import type { BulkBarProps } from './bulk-bar.tsx';
import { useBulkId } from './use-bulk.ts';

const LoadedPanel = dynamic(() => import('./bulk-panel.tsx').then((module) => module.BulkPanel), {
  ssr: false,
});
const LoadedBar = dynamic(() => import('./bulk-bar.tsx').then((module) => module.BulkBar), {
  ssr: false,
});

/** Loaded where a list shows one namespace. */
export const StopAll = dynamic(() => import('./stop-all.tsx').then((module) => module.StopAll), {
  ssr: false,
});

/** The bulk action in the page's address; its code is loaded where there is one. */
export function BulkPanel({ face }: { readonly face: GrantFace }) {
  const [bulkId, setBulkId] = useBulkId();
  if (bulkId === null) return null;
  return (
    <Foot>
      <LoadedPanel key={bulkId} face={face} bulkId={bulkId} onClose={() => setBulkId(null)} />
    </Foot>
  );
}

/** What can be done to the chosen rows; its code is loaded when the first row is chosen. */
export function BulkBar(props: BulkBarProps) {
  if (props.selection.count === 0) return null;
  return (
    <Foot>
      <LoadedBar {...props} />
    </Foot>
  );
}
