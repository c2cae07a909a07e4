'use client';

import { Spotlight, type SpotlightActionData } from '@mantine/spotlight';
import { IconSearch } from '@tabler/icons-react';
import { useRouter } from 'next/navigation';
import { NAV_GROUPS } from '../shell/nav-items.ts';
import { paletteStore } from './palette-store.ts';

/** Ctrl K: any page by its name. */
export function Palette() {
  const router = useRouter();
  const actions: SpotlightActionData[] = NAV_GROUPS.flatMap(({ items }) =>
    items.map(({ label, href, icon: ItemIcon }) => ({
      id: href,
      label,
      leftSection: <ItemIcon size={17} aria-hidden />,
      onClick: () => {
        router.push(href);
      },
    })),
  );
  return (
    <Spotlight
      store={paletteStore}
      actions={actions}
      shortcut={['mod + K']}
      nothingFound="Nothing is called that."
      searchProps={{
        placeholder: 'Go to …',
        'aria-label': 'Go to',
        leftSection: <IconSearch size={16} aria-hidden />,
      }}
    />
  );
}
